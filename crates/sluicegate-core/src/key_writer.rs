//! Keys that are written part by part.

use std::borrow::Cow;
use std::fmt;

use smallvec::{Array, SmallVec};

/// The separator of the parts of a joined key.
pub const KEY_SEPARATOR: u8 = b'|';
/// The escape before a separator or an escape inside a part of a joined key.
pub const KEY_ESCAPE: u8 = b'\\';
/// The first byte of every key with a special meaning. If a part or a finished key would begin with
/// it, the byte is doubled.
pub const KEY_RESERVED: u8 = 0;

/// A builder of a key, part by part. Keys of up to `N` bytes need no allocation.
///
/// The parts of a joined key are separated by `|`. A `\` precedes each `|` and `\` inside a part, so different lists of
/// two or more parts never make the same key. A key of a single part is that part, unescaped.
///
/// ```
/// use sluicegate_core::for_stores::KeyWriter;
///
/// let mut key = KeyWriter::<64>::of_parts();
/// for part in ["acme", "a|b"] {
///     key.begin_part();
///     key.push(part.as_bytes());
///     key.end_part();
/// }
/// assert_eq!(&key.finish()[..], br"acme|a\|b");
/// ```
#[derive(Clone, Debug)]
pub struct KeyWriter<const N: usize>
where
    [u8; N]: Array<Item = u8>,
{
    bytes: SmallVec<[u8; N]>,
    parts: Parts,
    /// The index where the current part begins.
    part: usize,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Parts {
    /// The key is a single part, unescaped.
    Single,
    /// The first part of a joined key comes next.
    First,
    /// Another part of a joined key comes next.
    Next,
}

impl<const N: usize> KeyWriter<N>
where
    [u8; N]: Array<Item = u8>,
{
    /// Returns a writer of a key that is a single part, unescaped.
    #[inline]
    #[must_use]
    pub fn of_one_part() -> Self {
        Self::new(Parts::Single)
    }

    /// Returns a writer of a joined key, whose parts begin with [`KeyWriter::begin_part`].
    #[inline]
    #[must_use]
    pub fn of_parts() -> Self {
        Self::new(Parts::First)
    }

    /// Returns the key of some texts: a single one unescaped, several as the parts of a joined key.
    ///
    /// ```
    /// use sluicegate_core::for_stores::KeyWriter;
    ///
    /// assert_eq!(&*KeyWriter::<64>::joined(["a|b"]), b"a|b");
    /// assert_eq!(&*KeyWriter::<64>::joined(["acme", "a|b"]), br"acme|a\|b");
    /// assert_eq!(&*KeyWriter::<64>::joined(["\0"]), b"\0\0");
    /// ```
    #[must_use]
    pub fn joined<'t>(texts: impl IntoIterator<Item = &'t str>) -> Cow<'t, [u8]> {
        let texts: SmallVec<[&str; 8]> = texts.into_iter().collect();
        if let [only] = texts.as_slice()
            && !only.as_bytes().starts_with(&[KEY_RESERVED])
        {
            return only.as_bytes().into();
        }
        let mut key = if texts.len() == 1 { Self::of_one_part() } else { Self::of_parts() };
        for text in texts {
            key.begin_part();
            key.push(text.as_bytes());
            key.end_part();
        }
        key.finish().to_vec().into()
    }

    #[inline]
    fn new(parts: Parts) -> Self {
        Self { bytes: SmallVec::new(), parts, part: 0 }
    }

    /// Begins the next part. Has no effect on a key of a single part.
    #[inline]
    pub fn begin_part(&mut self) {
        match self.parts {
            Parts::Single => {}
            Parts::First => self.parts = Parts::Next,
            Parts::Next => self.bytes.push(KEY_SEPARATOR),
        }
        self.part = self.bytes.len();
    }

    /// Ends a part of raw bytes, which may begin with [`KEY_RESERVED`].
    #[inline]
    pub fn end_part(&mut self) {
        if self.is_joined() && self.bytes.get(self.part) == Some(&KEY_RESERVED) {
            self.bytes.insert(self.part, KEY_RESERVED);
        }
    }

    /// Appends bytes to the current part.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.is_joined() {
            bytes.iter().for_each(|&byte| self.push_byte(byte));
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Appends a byte to the current part.
    #[inline]
    pub fn push_byte(&mut self, byte: u8) {
        if self.is_joined() && matches!(byte, KEY_SEPARATOR | KEY_ESCAPE) {
            self.bytes.push(KEY_ESCAPE);
        }
        self.bytes.push(byte);
    }

    fn is_joined(&self) -> bool {
        self.parts != Parts::Single
    }

    /// Returns the bytes so far.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the key. One that would begin with [`KEY_RESERVED`] gets another one in front.
    #[inline]
    #[must_use]
    pub fn finish(mut self) -> SmallVec<[u8; N]> {
        if self.bytes.first() == Some(&KEY_RESERVED) {
            self.bytes.insert(0, KEY_RESERVED);
        }
        self.bytes
    }
}

impl<const N: usize> fmt::Write for KeyWriter<N>
where
    [u8; N]: Array<Item = u8>,
{
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}
