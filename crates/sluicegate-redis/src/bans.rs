//! Lists of banned keys. [`list`] scans the keys of one server after the other, and filters those of the
//! limit.

use std::time::Duration;

use futures_util::future::join_all;
use sluicegate_core::for_stores::{Now, StoreKey};
use sluicegate_core::record::Record;
use sluicegate_core::{
    Ban, BannedKey, Cursor, Error, Limit, Listing, Page, RequestError, StoreError, StoreErrorKind,
    Timestamp,
};
use tokio::time::Instant;

use crate::link::{Deadline, Link};
use crate::resp::{Command, Value};
use crate::slot::SLOTS;
use crate::store::RedisStore;
use crate::unexpected::unexpected;

/// Maximum number of scan steps for a page. Each examines as many keys as the page has entries.
const STEPS: usize = 64;
/// Maximum number of values to request at the same time, so that other calls get through.
const TOGETHER: usize = 16;

/// The position of a scan: the first slot of a server, and the server's cursor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place {
    slot: u16,
    cursor: u64,
}

/// Returns a page of the banned keys. `key` makes the names of the limit's keys.
pub(crate) async fn list(
    store: &RedisStore,
    (limit, key): (&Limit, &StoreKey),
    page: &Page<'_>,
    deadline: Deadline,
) -> Result<Listing<BannedKey>, Error> {
    let Some(ban) = limit.ban(0) else { return Ok(Listing::<BannedKey>::default()) };
    let begin = page.cursor().map(|cursor| Place::read(cursor, limit)).transpose()?;
    let mut place = begin.unwrap_or(Place { slot: 0, cursor: 0 });
    let (pattern, count) = (key.subjects_pattern(), page.count().to_string());
    // Leave half of the time to return what was found.
    let half = deadline.at - deadline.patience / 2;
    let (mut banned, mut steps) = (Vec::new(), 0);
    for (slot, link) in store.servers(deadline).await? {
        if slot < place.slot {
            continue;
        }
        if slot > place.slot {
            place = Place { slot, cursor: 0 };
        }
        let now = match page.time() {
            Some(time) => Now { micros: time.as_micros(), max_clock_back: None },
            None => {
                let micros = time_of(&link, deadline).await?.as_micros();
                Now { micros, max_clock_back: Some(store.max_clock_back().as_micros()) }
            }
        };
        loop {
            if steps == STEPS || steps > 0 && Instant::now() >= half {
                return Ok(Listing::new(banned, Some(place.cursor())));
            }
            steps += 1;
            let (next, keys) = scan(&link, place.cursor, &pattern, &count, deadline).await?;
            let found = banned_of(store, key, &keys, (ban, now), deadline).await?;
            // List each step as a whole, because a position within a step would be invalid after a change.
            if !banned.is_empty() && banned.len() + found.len() > page.count() {
                return Ok(Listing::new(banned, Some(place.cursor())));
            }
            banned.extend(found);
            place.cursor = next;
            if next == 0 {
                break;
            }
        }
        place = Place { slot: slot + 1, cursor: 0 };
    }
    Ok(Listing::new(banned, None))
}

impl Place {
    fn read(cursor: &Cursor, limit: &Limit) -> Result<Self, RequestError> {
        let (slot, after) = cursor.place(limit)?;
        let slot = u16::try_from(slot).ok().filter(|slot| *slot <= SLOTS);
        let after = <[u8; 8]>::try_from(after).ok().map(u64::from_be_bytes);
        let place = slot.zip(after).map(|(slot, cursor)| Self { slot, cursor });
        place.ok_or_else(|| cursor.foreign(limit))
    }

    fn cursor(self) -> Cursor {
        Cursor::at_place(self.slot.into(), &self.cursor.to_be_bytes())
    }
}

async fn scan(
    link: &Link,
    cursor: u64,
    pattern: &[u8],
    count: &str,
    deadline: Deadline,
) -> Result<(u64, Vec<Value>), StoreError> {
    let cursor = cursor.to_string();
    let words: [&[u8]; 6] =
        [b"SCAN", cursor.as_bytes(), b"MATCH", pattern, b"COUNT", count.as_bytes()];
    let Value::Array(reply) = link.send(Command::of(&words), deadline).await? else {
        return Err(unexpected("SCAN"));
    };
    let Ok([Value::Bytes(next), Value::Array(keys)]) = <[Value; 2]>::try_from(reply) else {
        return Err(unexpected("SCAN"));
    };
    let next = std::str::from_utf8(&next).ok().and_then(|next| next.parse().ok());
    Ok((next.ok_or_else(|| unexpected("SCAN"))?, keys))
}

/// Returns the banned ones of some keys.
async fn banned_of(
    store: &RedisStore,
    names: &StoreKey,
    keys: &[Value],
    (ban, now): (&Ban, Now),
    deadline: Deadline,
) -> Result<Vec<BannedKey>, Error> {
    let mut banned = Vec::new();
    for keys in keys.chunks(TOGETHER) {
        let read = keys.iter().filter_map(|key| {
            let Value::Bytes(key) = key else { return None };
            let subject = names.subject(key)?;
            let get = Command::of(&[b"GET", key]);
            Some(async move { (subject, store.send(get, deadline).await) })
        });
        for (subject, value) in join_all(read).await {
            // A key that has expired in the meantime has no value.
            let Value::Bytes(value) = value? else { continue };
            let state = Record::decode(&value).ban().0.map(|state| state.restamped(ban, now).0);
            let rest = state.and_then(|state| state.rest(now.micros));
            let rest = rest.map(Duration::from_micros);
            banned.extend(rest.map(|rest| BannedKey::new(subject, rest)));
        }
    }
    Ok(banned)
}

/// Returns the time of a server's clock.
async fn time_of(link: &Link, deadline: Deadline) -> Result<Timestamp, StoreError> {
    let Value::Array(reply) = link.send(Command::of(&[b"TIME"]), deadline).await? else {
        return Err(unexpected("TIME"));
    };
    let number = |value: &Value| match value {
        Value::Bytes(digits) => std::str::from_utf8(digits).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    let micros = match &reply[..] {
        [seconds, micros] => number(seconds).zip(number(micros)),
        _ => None,
    };
    let micros =
        micros.and_then(|(seconds, micros)| seconds.checked_mul(1_000_000)?.checked_add(micros));
    micros
        .and_then(|micros| Timestamp::from_micros(micros).ok())
        .ok_or_else(|| StoreError::new(StoreErrorKind::Unexpected, unexpected("TIME").to_string()))
}
