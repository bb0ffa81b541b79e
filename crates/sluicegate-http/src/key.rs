//! The key that a limit counts a request under.

use std::fmt;
use std::hash::{Hash, Hasher};

use sluicegate_core::{KeyPart as _, for_stores};
use smallvec::SmallVec;

use crate::cidr::Cidr;
use crate::key_bytes::{MARK, RESERVED, SHARED};
use crate::key_view::{Form, KeyView};

/// A [`Key`] up to this many bytes needs no allocation.
const INLINE: usize = 64;

pub(crate) type Bytes = SmallVec<[u8; INLINE]>;

/// The bytes that a limit counts a request under, and the client's network if it is part of them.
///
/// The bytes of a [joined](Key::join) key are its parts, separated by `|`. A `\` precedes each `|`
/// and `\` inside a part, so different parts never make the same key. A key of one part is that part,
/// unescaped. Keys that begin with a single NUL are reserved. A key that would begin with NUL gets
/// another NUL in front, so no request can choose [`Key::shared`].
///
/// Keys of up to 64 bytes need no allocation.
///
/// ```
/// use sluicegate_http::Key;
///
/// assert_eq!(Key::new("alice").as_bytes(), b"alice");
/// let joined = Key::join(&[Key::new("alice"), Key::new("a|b")]);
/// assert_eq!(joined.as_bytes(), br"alice|a\|b");
/// assert_ne!(Key::new("\0shared"), Key::shared());
/// ```
#[derive(Clone)]
pub struct Key {
    bytes: Bytes,
    network: Option<Cidr>,
    layout: Layout,
}

/// The composition of a key's bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The index of the alternative that made the key.
    alternative: u16,
    /// The number of bytes before the parts: marks, and the NUL that keeps a part from being
    /// reserved.
    start: u16,
    form: Form,
    /// The index of the part that is the client's network.
    network_at: Option<u16>,
}

impl Key {
    /// Returns the key with these bytes.
    #[must_use]
    pub fn new(bytes: impl AsRef<[u8]>) -> Self {
        let mut writer = KeyWriter::of_one_part();
        writer.push(bytes.as_ref());
        writer.finish()
    }

    /// Returns the key of a client's network: the text of the network.
    #[must_use]
    pub fn of_network(network: Cidr) -> Self {
        let mut writer = KeyWriter::of_one_part();
        writer.push_network(network);
        writer.finish()
    }

    /// Returns the key with these bytes, and with their network if they parse as a [`Cidr`]. The range of a
    /// [`KeyMatcher`](crate::KeyMatcher) matches such a key, but never [`Key::new`] of the same bytes. Use it
    /// only for callers that are trusted to name addresses.
    #[must_use]
    pub fn of_text(bytes: impl AsRef<[u8]>) -> Self {
        /// An IPv6 address of up to 45 characters, a slash and three digits.
        const MAX_BYTES: usize = 49;
        let bytes = bytes.as_ref();
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_BYTES);
        match text.and_then(|text| text.parse().ok()) {
            Some(network) => {
                let mut key = Self::new(bytes).in_network(network);
                key.layout.network_at = Some(0);
                key
            }
            None => Self::new(bytes),
        }
    }

    /// Returns the key that all requests without a key share, under
    /// [`OnMissingKey::Shared`](crate::OnMissingKey::Shared).
    #[must_use]
    pub fn shared() -> Self {
        let layout = Layout { alternative: 0, start: 0, form: Form::Opaque, network_at: None };
        Self { bytes: Bytes::from_slice(SHARED), network: None, layout }
    }

    /// Joins keys into one. Different lists of two or more keys make different keys; a list of one
    /// key makes that key.
    #[must_use]
    pub fn join(keys: &[Self]) -> Self {
        match keys {
            [key] => key.clone(),
            keys => Self::join_all(keys),
        }
    }

    pub(crate) fn join_all<'k>(keys: impl IntoIterator<Item = &'k Self>) -> Self {
        let mut writer = KeyWriter::of_parts();
        for key in keys {
            writer.begin_part();
            writer.push(&key.bytes);
            if let (None, Some(network)) = (writer.network, key.network) {
                writer.network = Some(network);
                let is_whole = key.layout.form == Form::Single && key.layout.network_at.is_some();
                writer.network_at = is_whole.then_some(writer.index());
            }
        }
        writer.finish()
    }

    /// Sets the client's network to `network`, for keys that are joined by other code.
    #[must_use]
    pub fn in_network(self, network: Cidr) -> Self {
        Self { network: Some(network), ..self }
    }

    /// Returns the key as entries of lists match it.
    #[must_use]
    pub fn view(&self) -> KeyView<'_> {
        let Layout { alternative, start, form, network_at } = self.layout;
        KeyView {
            parts: self.bytes.get(usize::from(start)..).unwrap_or_default(),
            form,
            alternative: usize::from(alternative),
            network: self.network,
            network_at: network_at.map(usize::from),
            is_text: false,
        }
    }

    /// Returns the bytes to call a limiter with.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the client's network, if it is the key or a part of it.
    #[must_use]
    pub const fn network(&self) -> Option<Cidr> {
        self.network
    }

    /// Returns the key as made by the alternative at `index` of `count`: it differs from every key
    /// that another alternative makes.
    pub(crate) fn of_alternative(mut self, index: usize, count: usize) -> Self {
        // A nested alternative made a key that already begins with a mark.
        let mut added = 0;
        if index + 1 < count && self.bytes.first() == Some(&RESERVED) {
            self.bytes.insert(0, RESERVED);
            added += 1;
        }
        for _ in 0..index {
            self.bytes.insert_from_slice(0, &MARK);
            added += 2;
        }
        self.layout.start = self.layout.start.saturating_add(added);
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        self.layout.alternative = self.layout.alternative.saturating_add(index);
        self
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl<T: AsRef<[u8]> + ?Sized> From<&T> for Key {
    fn from(bytes: &T) -> Self {
        Self::new(bytes)
    }
}

impl PartialEq for Key {
    /// Keys are equal if their bytes are.
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key(\"{}\")", self.bytes.escape_ascii())
    }
}

/// A builder of a key, part by part. It notes the client's network among the parts.
#[derive(Debug)]
pub(crate) struct KeyWriter {
    bytes: for_stores::KeyWriter<INLINE>,
    form: Form,
    network: Option<Cidr>,
    network_at: Option<u16>,
    /// The number of parts that have begun.
    begun: u16,
}

impl KeyWriter {
    /// Returns a writer of a key that is a single part, unescaped.
    pub(crate) fn of_one_part() -> Self {
        Self::new(for_stores::KeyWriter::of_one_part(), Form::Single)
    }

    /// Returns a writer of a joined key, whose parts begin with [`KeyWriter::begin_part`].
    pub(crate) fn of_parts() -> Self {
        Self::new(for_stores::KeyWriter::of_parts(), Form::Joined)
    }

    fn new(bytes: for_stores::KeyWriter<INLINE>, form: Form) -> Self {
        Self { bytes, form, network: None, network_at: None, begun: 0 }
    }

    pub(crate) fn begin_part(&mut self) {
        self.bytes.begin_part();
        self.begun = self.begun.saturating_add(1);
    }

    /// Ends a part that consists of raw bytes, which may begin with [`RESERVED`].
    pub(crate) fn end_part(&mut self) {
        self.bytes.end_part();
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.push(bytes);
    }

    pub(crate) fn push_byte(&mut self, byte: u8) {
        self.bytes.push_byte(byte);
    }

    pub(crate) fn push_network(&mut self, network: Cidr) {
        let address = network.address();
        address.write(&mut |text| self.bytes.push(text));
        let most = if address.is_ipv4() { 32 } else { 128 };
        if network.len() < most {
            self.bytes.push_byte(b'/');
            network.len().write(&mut |digits| self.bytes.push(digits));
        }
        self.network = Some(network);
        self.network_at = Some(self.index());
    }

    /// Returns the index of the current part.
    fn index(&self) -> u16 {
        self.begun.saturating_sub(1)
    }

    pub(crate) fn finish(self) -> Key {
        let written = self.bytes.as_bytes().len();
        let bytes = self.bytes.finish();
        // `finish` puts a NUL in front of a key that would begin with one.
        let start = u16::from(bytes.len() > written);
        let layout = Layout { alternative: 0, start, form: self.form, network_at: self.network_at };
        Key { bytes, network: self.network, layout }
    }
}

impl fmt::Write for KeyWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::key_bytes::{ESCAPE, SEPARATOR};

    /// Parts with many bytes that have a meaning in keys.
    fn part() -> impl Strategy<Value = Vec<u8>> {
        let byte =
            prop_oneof![Just(RESERVED), Just(SEPARATOR), Just(ESCAPE), Just(b'a'), any::<u8>()];
        prop_oneof![
            8 => prop::collection::vec(byte, 0..5),
            1 => Just(SHARED.to_vec()),
        ]
    }

    fn parts() -> impl Strategy<Value = Vec<Key>> {
        prop::collection::vec(part().prop_map(Key::new), 2..4)
    }

    #[test]
    fn one_part_stays_as_it_is() {
        for bytes in [&b"alice"[..], b"", b"a|b", br"a\b", b"a\0"] {
            assert_eq!(Key::new(bytes).as_bytes(), bytes);
        }
        let network = Key::of_network("2001:db8::/64".parse().unwrap());
        assert_eq!(network.as_bytes(), b"2001:db8::/64");
        assert_eq!(format!("{:?}", Key::new("a\n\"")), r#"Key("a\n\"")"#);
    }

    #[test]
    fn a_joined_key_knows_the_network_among_its_parts() {
        let network: Cidr = "192.0.2.1".parse().unwrap();
        let joined = Key::join(&[Key::new("a"), Key::of_network(network)]);
        assert_eq!((joined.as_bytes(), joined.network()), (&b"a|192.0.2.1"[..], Some(network)));
        // Text that looks like a network is not one.
        assert_eq!(Key::new("192.0.2.1").network(), None);
    }

    proptest! {
        #[test]
        fn a_network_is_its_text(address in any::<IpAddr>(), length in 0..=128_u8) {
            let network = Cidr::masked(address, length);
            let key = Key::of_network(network);
            let text = network.to_string();
            prop_assert_eq!(key.as_bytes(), text.as_bytes());
            prop_assert_eq!(key.network(), Some(network));
        }

        #[test]
        fn different_bytes_make_different_keys(a in part(), b in part()) {
            prop_assert_eq!(a == b, Key::new(&a) == Key::new(&b));
            prop_assert_ne!(Key::new(&a), Key::shared());
        }

        #[test]
        fn different_parts_never_make_one_key(a in parts(), b in parts()) {
            prop_assert_eq!(a == b, Key::join(&a) == Key::join(&b));
            prop_assert_ne!(Key::join(&a), Key::shared());
        }

        #[test]
        fn no_alternative_makes_the_key_of_another(a in part(), b in part(), count in 2..5_usize) {
            let (a, b) = (Key::new(a), Key::new(b));
            for (i, j) in (0..count).flat_map(|i| (0..count).map(move |j| (i, j))) {
                let (of_a, of_b) =
                    (a.clone().of_alternative(i, count), b.clone().of_alternative(j, count));
                // The keys differ by alternative even if their text is equal.
                prop_assert_eq!(of_a == of_b, i == j && a == b);
                prop_assert_ne!(&of_a, &Key::shared());
                // Not even if an alternative has alternatives.
                let inside = of_a.of_alternative(0, 2);
                prop_assert_ne!(inside, of_b.of_alternative(1, 2));
            }
            prop_assert_eq!(a.clone().of_alternative(0, 1), a);
        }
    }
}
