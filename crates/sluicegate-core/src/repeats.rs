//! What is remembered of the requests of one subject that had an id, and its stored format.
//!
//! | bytes | the repeats |
//! | --- | --- |
//! | 7 | when the last one ends, µs since the epoch |
//! | … | one after the other, in the order in which they end |
//!
//! | bytes | each |
//! | --- | --- |
//! | 7 | when it ends |
//! | 16 | the id |
//! | 8 | what was asked |
//! | 2, … | the decision, after its length |

use std::collections::{BTreeSet, HashMap};

use crate::asked::Asked;
use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::{Identity, Limit};
use crate::reader::{Reader, push};
use crate::request_id::RequestId;

/// What is remembered of the requests of one subject under one limit that had an id.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Repeats {
    records: HashMap<RequestId, Repeat>,
    /// When each ends.
    ends: BTreeSet<(u64, RequestId)>,
    /// What the decisions have on the heap.
    bytes: usize,
}

/// What is remembered of one request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Repeat {
    /// Until when, in µs since the epoch.
    pub(crate) until: u64,
    pub(crate) asked: Asked,
    /// The decision, as it is [written](crate::Decision::write).
    pub(crate) decision: Box<[u8]>,
}

impl Repeats {
    /// The most ids of one subject under one limit.
    pub const MOST: usize = 65_536;
    /// How many that have ended are removed by a new one: more than end between two that come. Others
    /// count as if they had not ended.
    pub const ENDED: usize = 128;
    /// The kind of an entry with them.
    pub(crate) const KIND: u8 = 0xc3;
    /// The identity under which it is kept, beside those of policies.
    pub(crate) const IDENTITY: Identity = Identity::SUBJECT;

    /// What is remembered of an id at `now`.
    pub(crate) fn get(&self, id: RequestId, now: u64) -> Option<&Repeat> {
        self.records.get(&id).filter(|repeat| repeat.until > now)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// When the last one ends, in µs since the epoch; 0 if there is none.
    pub(crate) fn last_end(&self) -> u64 {
        self.ends.last().map_or(0, |(until, _)| *until)
    }

    /// Whether there is room for another one once those are gone that have ended.
    pub(crate) fn has_room(&self, now: u64) -> bool {
        self.records.len() - self.ended(now).count() < Self::MOST
    }

    /// Remembers a request; those that have ended go.
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

    /// Those that have ended, the first of them.
    fn ended(&self, now: u64) -> impl Iterator<Item = RequestId> {
        let ends = self.ends.iter().take(Self::ENDED).take_while(move |(until, _)| *until <= now);
        ends.map(|(_, id)| *id)
    }

    /// The bytes that they take on the heap, themselves among them.
    pub(crate) fn heap_bytes(&self) -> usize {
        let slots = self.records.capacity() * SLOT_BYTES;
        size_of::<Self>() + slots + self.records.len() * END_BYTES + self.bytes
    }

    /// The bytes that the first one with a decision of so many takes at most.
    pub(crate) const fn first_bytes(decision: usize) -> usize {
        size_of::<Self>() + (FEWEST_SLOTS + 1) * SLOT_BYTES + END_BYTES + decision
    }

    /// The bytes that another one with a decision of so many adds at most.
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

    /// Decodes them; `None` if they make no sense.
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
    /// The error where a subject has as many ids of requests as it may. For stores.
    #[cold]
    #[must_use]
    pub fn too_many_ids(limit: &Limit) -> Self {
        Self::new(
            RequestErrorKind::Full,
            format!(
                "limit `{}` remembers the ids of {} requests of one subject, the most there are: let them last less long, or ask without; nothing was charged",
                limit.name(),
                Repeats::MOST
            ),
        )
    }
}

/// What a slot of the table takes, with the table's own byte,
const SLOT_BYTES: usize = size_of::<(RequestId, Repeat)>() + 1;
/// and an end in its order, with the order's own.
const END_BYTES: usize = 2 * size_of::<(u64, RequestId)>();
/// How many slots the smallest table has.
const FEWEST_SLOTS: usize = 3;
