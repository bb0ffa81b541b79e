//! Keys as entries of lists match them.

use crate::cidr::Cidr;
use crate::key_bytes::{ESCAPE, SEPARATOR};

/// A key in the form in which a [`KeyMap`](crate::KeyMap) finds it: its components, and which of them
/// is the client's network. Returned by [`Key::view`](crate::Key::view) and
/// [`KeyExpression::read`](crate::KeyExpression::read).
#[derive(Clone, Copy, Debug)]
pub struct KeyView<'k> {
    /// The components; those of a joined key with separators and escapes.
    pub(crate) parts: &'k [u8],
    pub(crate) form: Form,
    /// The index of the alternative that made the key.
    pub(crate) alternative: usize,
    pub(crate) network: Option<Cidr>,
    /// The index of the component that is the client's network, or of a text its text.
    pub(crate) network_at: Option<usize>,
    /// Whether the network has yet to be parsed.
    pub(crate) is_text: bool,
}

/// The composition of a key from its components.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Form {
    /// A reserved key, which has no components and which no entry names.
    Opaque,
    /// One component, as it is.
    Single,
    /// Several components, with separators and escapes.
    Joined,
}

impl<'k> KeyView<'k> {
    /// Removes the client's network, for text that is not trusted to name addresses.
    #[must_use]
    pub const fn without_network(mut self) -> Self {
        (self.network, self.network_at) = (None, None);
        self
    }

    /// Returns the client's network.
    pub(crate) fn network(&self) -> Option<Cidr> {
        match self.network_at {
            Some(index) if self.is_text => parse(self.part(index)?),
            _ => self.network,
        }
    }

    /// Returns the first component of `parts`, and those after it, if there are any.
    pub(crate) fn split_first(&self, parts: &'k [u8]) -> (&'k [u8], Option<&'k [u8]>) {
        if self.form == Form::Joined {
            let mut is_escaped = false;
            for (at, &byte) in parts.iter().enumerate() {
                if byte == SEPARATOR && !is_escaped {
                    let (first, rest) = parts.split_at(at);
                    return (first, rest.get(1..));
                }
                is_escaped = byte == ESCAPE && !is_escaped;
            }
        }
        (parts, None)
    }

    fn part(&self, index: usize) -> Option<&'k [u8]> {
        let (mut part, mut rest) = self.split_first(self.parts);
        for _ in 0..index {
            (part, rest) = self.split_first(rest?);
        }
        Some(part)
    }
}

/// Parses a network.
fn parse(text: &[u8]) -> Option<Cidr> {
    /// An IPv6 address of 45 characters, a slash and three digits.
    const MOST: usize = 49;
    let is_valid = |byte: &u8| byte.is_ascii_hexdigit() || b":./".contains(byte);
    // Check first, because the parser's error needs an allocation.
    let may_be_one = text.len() <= MOST && text.iter().all(is_valid);
    str::from_utf8(text).ok().filter(|_| may_be_one)?.parse().ok()
}
