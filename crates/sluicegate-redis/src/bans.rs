//! Lists of banned keys: [`list`] filters the keys of a limit.

use std::time::Duration;

use futures_util::future::join_all;
use sluicegate_core::for_stores::{Now, StoreKey};
use sluicegate_core::record::Record;
use sluicegate_core::{
    Ban, BannedKey, Error, Limit, Listing, Page, StoreError, StoreErrorKind, Timestamp,
};

use crate::link::{Deadline, Link};
use crate::resp::{Command, Value};
use crate::scan::Scan;
use crate::store::RedisStore;
use crate::unexpected::unexpected;

/// Maximum number of values to request at the same time, so that other calls get through.
const TOGETHER: usize = 16;

/// Returns a page of the banned keys. `key` makes the names of the limit's keys.
pub(crate) async fn list(
    store: &RedisStore,
    (limit, key): (&Limit, &StoreKey),
    page: &Page<'_>,
    deadline: Deadline,
) -> Result<Listing<BannedKey>, Error> {
    let Some(ban) = limit.ban(0) else { return Ok(Listing::<BannedKey>::default()) };
    let scanned = (limit, key.subjects_pattern(b""));
    let mut scan = Scan::begin(store, scanned, page, deadline).await?;
    while let Some(step) = scan.step().await? {
        let mut banned = Vec::new();
        if !step.names.is_empty() {
            let now = now(store, page, &step.link, deadline).await?;
            banned = banned_of(store, key, &step.names, (ban, now), deadline).await?;
        }
        scan.add(step.next(), banned);
    }
    Ok(scan.listing())
}

/// Returns the time of a page: its own, or that of the server.
async fn now(
    store: &RedisStore,
    page: &Page<'_>,
    link: &Link,
    deadline: Deadline,
) -> Result<Now, Error> {
    Ok(match page.time() {
        Some(time) => Now { micros: time.as_micros(), max_clock_back: None },
        None => {
            let micros = time_of(link, deadline).await?.as_micros();
            Now { micros, max_clock_back: Some(store.max_clock_back().as_micros()) }
        }
    })
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
            let times = state.and_then(|it| Some((it.rest(now.micros)?, it.age(now.micros))));
            banned.extend(times.map(|(rest, age)| {
                BannedKey::new(subject, Duration::from_micros(rest), Duration::from_micros(age))
            }));
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
