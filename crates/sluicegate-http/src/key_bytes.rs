//! The bytes that have a meaning in keys.

pub(crate) use sluicegate_core::for_stores::{
    KEY_ESCAPE as ESCAPE, KEY_RESERVED as RESERVED, KEY_SEPARATOR as SEPARATOR,
};

/// The prefix of a key, once for every alternative before the one that made it.
pub(crate) const MARK: [u8; 2] = [RESERVED, b'|'];
/// The key that requests without a key share.
pub(crate) const SHARED: &[u8] = b"\0shared";
