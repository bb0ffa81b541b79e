//! The remembered requests of one subject that had an id, and their stored format.
//!
//! | bytes | the repeats |
//! | --- | --- |
//! | 7 | when the last one ends, µs since the epoch |
//! | … | the requests, in the order in which they end |
//!
//! | bytes | each |
//! | --- | --- |
//! | 7 | when it ends |
//! | 16 | the id |
//! | 8 | a hash of the request's content |
//! | 2, … | the decision, after its length |

use std::collections::{BTreeSet, HashMap};

use crate::asked::Asked;
use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::{Identity, Limit};
use crate::reader::{Reader, push};
use crate::request_id::RequestId;

/// The remembered requests of one subject under one limit that had an id.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Repeats {
    records: HashMap<RequestId, Repeat>,
    /// The end of each request.
    ends: BTreeSet<(u64, RequestId)>,
    /// The heap size of the decisions, in bytes.
    bytes: usize,
}

/// A remembered request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Repeat {
    /// The time until which it is remembered, in µs since the epoch.
    pub(crate) until: u64,
    pub(crate) asked: Asked,
    /// The decision, as it is [written](crate::Decision::write).
    pub(crate) decision: Box<[u8]>,
}

impl Repeats {
    /// The maximum number of ids of one subject under one limit.
    pub const MOST: usize = 65_536;
    /// The maximum number of expired ids that a new one removes, more than expire between two
    /// requests. Further expired ids count as if they hadn't expired.
    pub const ENDED: usize = 128;
    /// The kind of an entry with them.
    pub(crate) const KIND: u8 = 0xc3;
    /// The identity of the stored entry, next to those of policies.
    pub(crate) const IDENTITY: Identity = Identity::SUBJECT;

    /// Returns the remembered request with an id at `now`.
    pub(crate) fn get(&self, id: RequestId, now: u64) -> Option<&Repeat> {
        self.records.get(&id).filter(|repeat| repeat.until > now)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the time when the last request ends, in µs since the epoch; 0 if there is none.
    pub(crate) fn last_end(&self) -> u64 {
        self.ends.last().map_or(0, |(until, _)| *until)
    }

    /// Returns `true` if another id fits after the expired ones are removed.
    pub(crate) fn has_room(&self, now: u64) -> bool {
        self.records.len() - self.ended(now).count() < Self::MOST
    }

    /// Remembers a request and removes expired ones.
    pub(crate) fn put(&mut self, id: RequestId, repeat: Repeat, now: u64) {
        let ended: Vec<RequestId> = self.ended(now).collect();
        ended.into_iter().chain([id]).for_each(|id| self.remove(id));
        self.insert(id, repeat);
    }

    fn insert(&mut self, id: RequestId, repeat: Repeat) {
        self.bytes += repeat.decision.len();
        self.ends.insert((repeat.until, id));
        self.records.insert(id, repeat);
    }

    fn remove(&mut self, id: RequestId) {
        let Some(repeat) = self.records.remove(&id) else { return };
        self.ends.remove(&(repeat.until, id));
        self.bytes -= repeat.decision.len();
    }

    /// Returns the first expired ids, at most [`Repeats::ENDED`].
    fn ended(&self, now: u64) -> impl Iterator<Item = RequestId> {
        let ends = self.ends.iter().take(Self::ENDED).take_while(move |(until, _)| *until <= now);
        ends.map(|(_, id)| *id)
    }

    /// Returns the size on the heap, in bytes, including the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slots = self.records.capacity() * SLOT_BYTES;
        size_of::<Self>() + slots + self.records.len() * END_BYTES + self.bytes
    }

    /// Returns the maximum size of the first request with a decision of `decision` bytes.
    pub(crate) const fn first_bytes(decision: usize) -> usize {
        size_of::<Self>() + (FEWEST_SLOTS + 1) * SLOT_BYTES + END_BYTES + decision
    }

    /// Returns the maximum number of bytes that another request with a decision of `decision` bytes
    /// adds.
    pub(crate) fn growth_bytes(&self, decision: usize) -> usize {
        let grows = self.records.len() == self.records.capacity();
        let slots = if grows { self.records.capacity().max(FEWEST_SLOTS) + 1 } else { 0 };
        slots * SLOT_BYTES + END_BYTES + decision
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        push(&mut bytes, self.last_end());
        for (until, id) in &self.ends {
            let Some(Repeat { asked, decision, .. }) = self.records.get(id) else { continue };
            push(&mut bytes, *until);
            bytes.extend_from_slice(&id.to_bytes());
            bytes.extend_from_slice(&asked.to_bytes());
            let length = u16::try_from(decision.len()).unwrap_or(u16::MAX);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(decision);
        }
        bytes
    }

    /// Decodes the requests; `None` if the bytes are malformed.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let _last = reader.number()?;
        let mut repeats = Self::default();
        while !reader.0.is_empty() {
            let until = reader.number()?;
            let id = RequestId::from_bytes(*reader.array()?);
            let asked = Asked::from_bytes(*reader.array()?);
            let decision = reader.text()?.into();
            repeats.remove(id);
            repeats.insert(id, Repeat { until, asked, decision });
        }
        Some(repeats)
    }
}

impl RequestError {
    /// Returns the error for a subject that has the maximum number of request ids. For stores.
    #[cold]
    #[must_use]
    pub fn too_many_ids(limit: &Limit) -> Self {
        Self::new(
            RequestErrorKind::Full,
            format!(
                "limit `{}` stores {} request ids of one subject, the maximum: store ids for a shorter time, or omit them; nothing was charged",
                limit.name(),
                Repeats::MOST
            ),
        )
    }
}

/// The size of a table slot, including the table's own byte.
const SLOT_BYTES: usize = size_of::<(RequestId, Repeat)>() + 1;
/// The size of an end in the set, including the set's own overhead.
const END_BYTES: usize = 2 * size_of::<(u64, RequestId)>();
/// The number of slots in the smallest table.
const FEWEST_SLOTS: usize = 3;
