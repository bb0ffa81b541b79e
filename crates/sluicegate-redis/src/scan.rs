//! Pages of a limit's keys. [`Scan`] reads their names from one server after the other, a step at a time.

use std::vec::IntoIter;

use sluicegate_core::{Cursor, Error, Limit, Listing, Page, RequestError, StoreError};
use tokio::time::Instant;

use crate::link::{Deadline, Link};
use crate::resp::{Command, Value};
use crate::slot::SLOTS;
use crate::store::RedisStore;
use crate::unexpected::unexpected;

/// Maximum number of steps for a page. Each examines as many keys as the page has entries.
const STEPS: usize = 64;

/// A scan for one page.
pub(crate) struct Scan<T> {
    pattern: Vec<u8>,
    count: usize,
    deadline: Deadline,
    server: Option<(u16, Link)>,
    others: IntoIter<(u16, Link)>,
    place: Place,
    steps: usize,
    entries: Vec<T>,
    is_full: bool,
}

/// The position of a scan: the first slot of a server, and the server's cursor.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Place {
    slot: u16,
    cursor: u64,
}

/// The names that a step found, and the server that has them.
pub(crate) struct Step {
    pub(crate) link: Link,
    pub(crate) names: Vec<Value>,
    /// The server's cursor after the step.
    next: u64,
}

impl<T> Scan<T> {
    /// Begins where a page begins.
    ///
    /// # Errors
    /// Returns an error for a cursor of another list, and if the servers can't be found.
    pub(crate) async fn begin(
        store: &RedisStore,
        (limit, pattern): (&Limit, Vec<u8>),
        page: &Page<'_>,
        deadline: Deadline,
    ) -> Result<Self, Error> {
        let place = page.cursor().map(|cursor| Place::read(cursor, limit)).transpose()?;
        let place = place.unwrap_or(Place { slot: 0, cursor: 0 });
        let mut servers = store.servers(deadline).await?;
        servers.retain(|(slot, _)| *slot >= place.slot);
        let mut scan = Self {
            pattern,
            count: page.count(),
            deadline,
            server: None,
            others: servers.into_iter(),
            place,
            steps: 0,
            entries: Vec::new(),
            is_full: false,
        };
        scan.turn_to_next();
        Ok(scan)
    }

    /// Makes a step; `None` if the page is full, or all servers have been scanned.
    ///
    /// # Errors
    /// Returns an error if the server fails.
    pub(crate) async fn step(&mut self) -> Result<Option<Step>, StoreError> {
        let Some((_, link)) = &self.server else { return Ok(None) };
        // Leave half of the time to return what was found.
        let half = self.deadline.at - self.deadline.patience / 2;
        let is_late = self.steps > 0 && Instant::now() >= half;
        if self.is_full || self.steps == STEPS || is_late {
            return Ok(None);
        }
        self.steps += 1;
        let (cursor, count) = (self.place.cursor.to_string(), self.count.to_string());
        let words: [&[u8]; 6] =
            [b"SCAN", cursor.as_bytes(), b"MATCH", &self.pattern, b"COUNT", count.as_bytes()];
        let (next, names) = read(link.send(Command::of(&words), self.deadline).await?)
            .ok_or_else(|| unexpected("SCAN"))?;
        Ok(Some(Step { link: link.clone(), names, next }))
    }

    /// Adds the entries of a step, if the page has a place for all of them.
    pub(crate) fn add(&mut self, next: u64, entries: Vec<T>) {
        // List each step as a whole, because a position within a step would be invalid after a change.
        if !self.entries.is_empty() && self.entries.len() + entries.len() > self.count {
            self.is_full = true;
            return;
        }
        self.entries.extend(entries);
        self.place.cursor = next;
        if next == 0 {
            self.turn_to_next();
        }
    }

    /// Returns the page.
    pub(crate) fn listing(self) -> Listing<T> {
        let next = self.server.is_some().then(|| self.place.cursor());
        Listing::new(self.entries, next)
    }

    fn turn_to_next(&mut self) {
        self.server = self.others.next();
        if let Some((slot, _)) = &self.server
            && *slot != self.place.slot
        {
            self.place = Place { slot: *slot, cursor: 0 };
        }
    }
}

impl Step {
    /// Returns the server's cursor after the step.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }
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

/// Reads the reply of a scan: the next cursor, and names.
fn read(reply: Value) -> Option<(u64, Vec<Value>)> {
    let Value::Array(reply) = reply else { return None };
    let Ok([Value::Bytes(next), Value::Array(names)]) = <[Value; 2]>::try_from(reply) else {
        return None;
    };
    Some((std::str::from_utf8(&next).ok()?.parse().ok()?, names))
}
