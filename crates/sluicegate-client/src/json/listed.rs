//! Lists as JSON, for HTTP and the command line.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sluicegate_core::{BannedKey, Cursor, Holder, ListedKey, Listing, Span};

use super::key::KeyEntry;

/// A page of a key's holders.
#[derive(Debug, Deserialize, Serialize)]
pub struct HolderList<'a> {
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Key.
    pub key: Cow<'a, str>,
    /// Holders, in the order in which their holds end.
    pub holders: Vec<HolderEntry<'a>>,
    /// Number of tickets that wait in the limit's queue.
    pub waiting: u64,
    /// Start of the next page; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

/// A hold of one request.
#[derive(Debug, Deserialize, Serialize)]
pub struct HolderEntry<'a> {
    /// Id of the hold, with which it can be ended; absent for a caller that may only read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Cow<'a, str>>,
    /// Time until the hold ends, in milliseconds.
    pub ends_in_ms: u64,
    /// Exact time until the hold ends, in microseconds.
    pub ends_in_us: u64,
    /// Units by policy name.
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
        let ends_in = Span::from(holder.ends_in());
        Self {
            hold: Some(holder.id().to_string().into()),
            ends_in_ms: ends_in.as_millis_ceil(),
            ends_in_us: ends_in.as_micros(),
            units: holder.units().map(|(policy, units)| (policy.as_str().into(), units)).collect(),
        }
    }
}

/// A page of banned keys.
#[derive(Debug, Deserialize, Serialize)]
pub struct BanList<'a> {
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Banned keys.
    pub bans: Vec<BanEntry<'a>>,
    /// Start of the next page; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

/// A banned key.
#[derive(Debug, Deserialize, Serialize)]
pub struct BanEntry<'a> {
    /// Key.
    #[serde(flatten)]
    pub key: KeyEntry<'a>,
    /// Time until the ban ends, in milliseconds.
    pub ends_in_ms: u64,
    /// Exact time until the ban ends, in microseconds.
    pub ends_in_us: u64,
    /// Time since the ban began, or since a manual ban renewed it, in milliseconds.
    pub since_ms: u64,
    /// Exact time since then, in microseconds.
    pub since_us: u64,
}

/// JSON form of a page of keys with a stored state.
#[derive(Debug, Deserialize, Serialize)]
pub struct KeyList<'a> {
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Keys, in no particular order.
    pub keys: Vec<KeyEntry<'a>>,
    /// Start of the next page; `null` on the last one.
    pub next: Option<Cow<'a, str>>,
}

impl<'a> BanList<'a> {
    /// Describes a page of a limit.
    pub fn new(limit: &'a str, page: &'a Listing<BannedKey>) -> Self {
        let bans = page.entries().iter().map(BanEntry::new).collect();
        Self { limit: limit.into(), bans, next: page.next().map(next) }
    }
}

impl<'a> KeyList<'a> {
    /// Describes a page of a limit.
    pub fn new(limit: &'a str, page: &'a Listing<ListedKey>) -> Self {
        let keys = page.entries().iter().map(KeyEntry::new).collect();
        Self { limit: limit.into(), keys, next: page.next().map(next) }
    }
}

impl<'a> BanEntry<'a> {
    fn new(banned: &'a BannedKey) -> Self {
        let (ends_in, age) = (Span::from(banned.ends_in()), Span::from(banned.age()));
        Self {
            key: KeyEntry::new(banned.key()),
            ends_in_ms: ends_in.as_millis_ceil(),
            ends_in_us: ends_in.as_micros(),
            since_ms: age.as_micros() / 1_000,
            since_us: age.as_micros(),
        }
    }
}

fn next(cursor: &Cursor) -> Cow<'_, str> {
    cursor.as_str().into()
}
