//! How each kernel's states are kept in a slot.

use std::hash::Hash;

use sluicegate_core::MAX_EXACT;
use sluicegate_core::for_stores::Book;
use sluicegate_core::kernel::{Kernel, NEVER, Now, bucket, log};

use crate::held_records::HeldRecords;
use crate::scales::{Scales, Tag};

/// Whether one rule keeps every state at least as long as another one does.
pub(crate) type Outlasts<R> = fn(&R, &R) -> bool;

/// A state as a slot keeps it.
pub(crate) trait Cell: Default + Send + Sized + 'static {
    /// The state.
    type State: Clone + Default;
    /// What it is judged by.
    type Rule: Clone + Eq + Hash + Send + Sync + 'static;
    /// Conditions, each of which makes a rule keep every state at least as long as another one does.
    const OUTLASTS: &'static [Outlasts<Self::Rule>];
    /// Lends its alignment to the slot.
    type Align: Copy + Send;

    /// A cell with a state. `tag` is that of the state's scale.
    fn new(state: Self::State, tag: Tag) -> Self;

    /// The state, which is no longer here when it is large: it has to be [put](Cell::put) back.
    fn take(&mut self, scales: &Scales) -> Self::State;

    /// Puts a state in the place of the one here.
    fn put(&mut self, state: Self::State, tag: Tag) {
        *self = Self::new(state, tag);
    }

    /// A state and the tag of its scale: the state's own, or the rule's when the table has seen too
    /// many. `usual` is the tag of the rule's.
    fn tagged(
        state: Self::State,
        _rule: &Self::Rule,
        usual: Tag,
        _scales: &Scales,
    ) -> (Self::State, Tag) {
        (state, usual)
    }

    /// The tag of the scale that a rule counts in; `None` when the table has seen too many.
    fn tag_for(_rule: &Self::Rule, _scales: &Scales) -> Option<Tag> {
        Some(Tag::NONE)
    }

    /// Whether the state has a [second bound](crate::shelf).
    fn is_marked(&self) -> bool {
        false
    }

    /// The µs from now until the state may be dropped.
    fn expires_in(&self, rule: &Self::Rule, scales: &Scales, now: Now) -> u64;

    /// The units that are forgotten with the state.
    fn used(&self, rule: &Self::Rule, scales: &Scales, now: Now) -> u64;

    /// Forgets what a reset does, of a state of which something stays: gives whether there was any of that.
    /// `None` where all of it is to go.
    fn forget(&mut self) -> Option<bool> {
        None
    }

    /// Bytes outside the slot that an admission adds to a state at most.
    fn growth_bytes(_state: &Self::State) -> usize {
        0
    }

    /// Bytes outside the slot.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Bytes outside the slot that a state will take.
    fn heap_bytes_of(_state: &Self::State) -> usize {
        0
    }
}

/// Two words: the newest time and the deficit in 53 bits each, and above them the tag of the
/// scale that the deficit is counted in. With the fingerprint it makes a slot of 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BucketCell {
    newest: u64,
    deficit: u64,
}

/// Two slots to a cache line, none across two.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct HalfLine;

impl BucketCell {
    /// The state, which is most likely in the scale of the one who asks; `None` if it has a second bound.
    #[inline]
    pub(crate) fn read(self, tag: Tag, unit: u64, scales: &Scales) -> Option<bucket::State> {
        let (newest, deficit) = (self.newest ^ tag.low, self.deficit ^ tag.high);
        if (newest | deficit) <= MAX_EXACT {
            Some(bucket::State { newest, deficit, unit })
        } else {
            (!self.is_marked()).then(|| self.read_other(scales))
        }
    }

    /// The state in whatever scale it is.
    fn read_other(self, scales: &Scales) -> bucket::State {
        bucket::State {
            newest: self.newest & MAX_EXACT,
            deficit: self.deficit & MAX_EXACT,
            unit: scales.unit_of(self.newest, self.deficit),
        }
    }

    #[inline]
    pub(crate) const fn write(state: bucket::State, tag: Tag) -> Self {
        Self { newest: state.newest | tag.low, deficit: state.deficit | tag.high }
    }
}

impl Cell for BucketCell {
    type State = bucket::State;
    type Rule = bucket::Bucket;
    const OUTLASTS: &'static [Outlasts<bucket::Bucket>] = bucket::Bucket::OUTLASTS;
    type Align = HalfLine;

    fn new(state: bucket::State, tag: Tag) -> Self {
        Self::write(state, tag)
    }

    fn take(&mut self, scales: &Scales) -> bucket::State {
        self.read_other(scales)
    }

    fn is_marked(&self) -> bool {
        self.deficit & Tag::MARK != 0
    }

    fn tagged(
        state: bucket::State,
        rule: &bucket::Bucket,
        usual: Tag,
        scales: &Scales,
    ) -> (bucket::State, Tag) {
        if state.unit == rule.unit() {
            return (state, usual);
        }
        match scales.tag_of(state.unit) {
            Some(tag) => (state, tag),
            None => (rule.rounded(state), usual),
        }
    }

    fn tag_for(rule: &bucket::Bucket, scales: &Scales) -> Option<Tag> {
        scales.tag_of(rule.unit())
    }

    fn expires_in(&self, rule: &bucket::Bucket, scales: &Scales, now: Now) -> u64 {
        rule.expires_in(&self.read_other(scales), now)
    }

    fn used(&self, rule: &bucket::Bucket, scales: &Scales, now: Now) -> u64 {
        rule.used(&self.read_other(scales), now)
    }
}

/// A state as it is.
#[derive(Debug)]
pub(crate) struct PlainCell<K: Kernel>(K::State);

impl<K: Kernel> PlainCell<K> {
    #[cfg(test)]
    pub(crate) const fn state(&self) -> &K::State {
        &self.0
    }
}

impl<K: Kernel> Default for PlainCell<K> {
    fn default() -> Self {
        Self(K::State::default())
    }
}

impl<K: Kernel> Cell for PlainCell<K> {
    type State = K::State;
    type Rule = K;
    const OUTLASTS: &'static [Outlasts<K>] = K::OUTLASTS;
    type Align = u64;

    fn new(state: K::State, _: Tag) -> Self {
        Self(state)
    }

    fn take(&mut self, _: &Scales) -> K::State {
        self.0.clone()
    }

    fn expires_in(&self, rule: &K, _: &Scales, now: Now) -> u64 {
        rule.expires_in(&self.0, now)
    }

    fn used(&self, rule: &K, _: &Scales, now: Now) -> u64 {
        rule.used(&self.0, now)
    }
}

/// Logs are of any length: where more than one entry is moves with the slot.
#[derive(Debug, Default)]
pub(crate) struct LogCell(log::State);

impl Cell for LogCell {
    type State = log::State;
    type Rule = log::Log;
    const OUTLASTS: &'static [Outlasts<log::Log>] = log::Log::OUTLASTS;
    type Align = u64;

    fn new(state: log::State, _: Tag) -> Self {
        Self(state)
    }

    fn take(&mut self, _: &Scales) -> log::State {
        std::mem::take(&mut self.0)
    }

    fn expires_in(&self, rule: &log::Log, _: &Scales, now: Now) -> u64 {
        rule.expires_in(&self.0, now)
    }

    fn used(&self, rule: &log::Log, _: &Scales, now: Now) -> u64 {
        rule.used(&self.0, now)
    }

    fn growth_bytes(state: &log::State) -> usize {
        state.growth_bytes()
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn heap_bytes_of(state: &log::State) -> usize {
        state.heap_bytes()
    }
}

/// What is held of a subject, and known of its requests by their ids. A slot has no more of it than where it
/// is: a search goes over slots, and a slot that is free or moves is to cost little.
#[derive(Debug, Default)]
pub(crate) struct BookCell(Option<Box<HeldRecords>>);

impl BookCell {
    pub(crate) fn shelf(&self) -> Option<&HeldRecords> {
        self.0.as_deref()
    }

    pub(crate) fn book_mut(&mut self) -> Option<&mut Book> {
        Some(&mut self.0.as_mut()?.book)
    }
}

impl Cell for BookCell {
    type State = Box<HeldRecords>;
    type Rule = ();
    const OUTLASTS: &'static [Outlasts<()>] = &[|(), ()| true];
    type Align = u64;

    fn new(shelf: Box<HeldRecords>, _: Tag) -> Self {
        Self(Some(shelf))
    }

    fn take(&mut self, _: &Scales) -> Box<HeldRecords> {
        self.0.take().unwrap_or_default()
    }

    fn expires_in(&self, (): &(), _: &Scales, now: Now) -> u64 {
        self.shelf().map_or(0, |shelf| shelf.last_end().saturating_sub(now.micros))
    }

    /// As if everything were used: what is held is not to be lost before what was.
    fn used(&self, (): &(), _: &Scales, _: Now) -> u64 {
        NEVER
    }

    /// The ids of requests stay.
    fn forget(&mut self) -> Option<bool> {
        let shelf = self.0.as_mut()?;
        shelf.book.has_repeats().then(|| shelf.forget_holds())
    }

    fn heap_bytes(&self) -> usize {
        self.shelf().map_or(0, HeldRecords::heap_bytes)
    }

    fn heap_bytes_of(shelf: &Box<HeldRecords>) -> usize {
        shelf.heap_bytes()
    }
}
