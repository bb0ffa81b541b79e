//! Keys as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use sluicegate_core::ListedKey;

/// A key: as text, as bytes if it isn't text, or as the stored hash if it is long.
#[derive(Debug, Deserialize, Serialize)]
pub struct KeyEntry<'a> {
    /// Key, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    /// Key in hexadecimal, if it isn't text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<String>,
    /// Hash of a long key, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
}

impl<'a> KeyEntry<'a> {
    pub(super) fn new(key: &'a ListedKey) -> Self {
        let mut entry = Self { key: None, key_bytes: None, key_hash: None };
        match key {
            ListedKey::Whole(bytes) => (entry.key, entry.key_bytes) = key_fields(Some(bytes)),
            ListedKey::Hashed(hash) => entry.key_hash = Some(hexadecimal(hash)),
            // A kind of key that a later store may add.
            other => entry.key = Some(other.to_string().into()),
        }
        entry
    }
}

/// Returns a key as text, or in hexadecimal if it isn't text.
#[must_use]
pub fn key_fields(key: Option<&[u8]>) -> (Option<Cow<'_, str>>, Option<String>) {
    match key.map(|key| (key, std::str::from_utf8(key))) {
        None => (None, None),
        Some((_, Ok(text))) => (Some(text.into()), None),
        Some((key, Err(_))) => (None, Some(hexadecimal(key))),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
