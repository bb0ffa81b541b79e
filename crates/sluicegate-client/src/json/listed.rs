//! Lists as JSON: the same over HTTP and on the command line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluicegate_core::{BannedKey, Cursor, Holder, ListedKey, Listing};

/// A page of those who have something in flight of a key.
#[derive(Debug, Deserialize, Serialize)]
pub struct HolderList<'a> {
    /// The name of the limit.
    pub limit: Cow<'a, str>,
    /// The key.
    pub key: Cow<'a, str>,
    /// In the order of their ends.
    pub holders: Vec<HolderEntry<'a>>,
    /// How many wait in the limit's queue.
    pub waiting: u64,
    /// Where the next page begins; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

/// What one request has in flight.
#[derive(Debug, Deserialize, Serialize)]
pub struct HolderEntry<'a> {
    /// The id of its hold, by which it can be ended.
    pub hold: Cow<'a, str>,
    /// How long it lasts, in milliseconds.
    pub ends_in_ms: u64,
    /// The same in microseconds.
    pub ends_in_us: u64,
    /// By the names of policies.
    pub units: BTreeMap<Cow<'a, str>, u64>,
}

impl<'a> HolderList<'a> {
    /// Describes a page of a key.
    pub fn new(limit: &'a str, key: impl Into<Cow<'a, str>>, page: &'a Listing<Holder>) -> Self {
        Self {
            limit: limit.into(),
            key: key.into(),
            holders: page.entries().iter().map(HolderEntry::new).collect(),
            waiting: page.waiting(),
            next: page.next().map(next),
        }
    }
}

impl<'a> HolderEntry<'a> {
    fn new(holder: &'a Holder) -> Self {
        Self {
            hold: holder.id().to_string().into(),
            ends_in_ms: holder.ends_in().as_millis_ceil(),
            ends_in_us: holder.ends_in().as_micros(),
            units: holder.units().map(|(policy, units)| (policy.as_str().into(), units)).collect(),
        }
    }
}

/// A page of the keys that are banned.
#[derive(Debug, Deserialize, Serialize)]
pub struct BanList<'a> {
    /// The name of the limit.
    pub limit: Cow<'a, str>,
    /// The keys.
    pub bans: Vec<BanEntry<'a>>,
    /// Where the next page begins; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

/// A key that is banned: as text; or if it is none, as bytes; or if it is long, as the hash that is stored.
#[derive(Debug, Deserialize, Serialize)]
pub struct BanEntry<'a> {
    /// The key, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Cow<'a, str>>,
    /// The key in hexadecimal, if it is no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_bytes: Option<String>,
    /// The hash of a long key, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_hash: Option<String>,
    /// How long the ban lasts, in milliseconds.
    pub ends_in_ms: u64,
    /// The same in microseconds.
    pub ends_in_us: u64,
}

impl<'a> BanList<'a> {
    /// Describes a page of a limit.
    pub fn new(limit: &'a str, page: &'a Listing<BannedKey>) -> Self {
        let bans = page.entries().iter().map(BanEntry::new).collect();
        Self { limit: limit.into(), bans, next: page.next().map(next) }
    }
}

impl<'a> BanEntry<'a> {
    fn new(banned: &'a BannedKey) -> Self {
        let (mut key, mut key_bytes, mut key_hash) = (None, None, None);
        match banned.key() {
            ListedKey::Whole(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => key = Some(text.into()),
                Err(_) => key_bytes = Some(hexadecimal(bytes)),
            },
            ListedKey::Hashed(hash) => key_hash = Some(hexadecimal(hash)),
            // Whatever else a store may come to know.
            other => key = Some(other.to_string().into()),
        }
        let ends_in = banned.ends_in();
        let (ends_in_ms, ends_in_us) = (ends_in.as_millis_ceil(), ends_in.as_micros());
        Self { key, key_bytes, key_hash, ends_in_ms, ends_in_us }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn next(cursor: &Cursor) -> Cow<'_, str> {
    cursor.as_str().into()
}
