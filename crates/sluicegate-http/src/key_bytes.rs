//! The bytes that have a meaning in keys.

/// Separates the parts of a joined key.
pub(crate) const SEPARATOR: u8 = b'|';
/// Precedes a separator or an escape inside a part.
pub(crate) const ESCAPE: u8 = b'\\';
/// Begins every key with a special meaning. A plain key that begins with it gets it twice.
pub(crate) const RESERVED: u8 = 0;
/// Precedes a key once for every alternative before the one that made it.
pub(crate) const MARK: [u8; 2] = [RESERVED, b'|'];
/// The key that requests without a key share.
pub(crate) const SHARED: &[u8] = b"\0shared";
