//! The slot formats of the kernels' states.

use std::hash::Hash;

use sluicegate_core::MAX_EXACT;
use sluicegate_core::for_stores::Book;
use sluicegate_core::kernel::{Kernel, Leased, NEVER, Now, bucket, log};

use crate::held_records::HeldRecords;
use crate::scales::{Scales, Tag};

/// A check whether the first rule keeps every state at least as long as the second.
pub(crate) type Outlasts<R> = fn(&R, &R) -> bool;

/// The slot format of a state.
pub(crate) trait Cell: Default + Send + Sized + 'static {
    /// The kernel's state.
    type State: Clone + Default;
    /// The rule that evaluates the state.
    type Rule: Clone + Eq + Hash + Send + Sync + 'static;
    /// Conditions, each of which ensures that the first rule keeps every state at least as long as
    /// the second.
    const OUTLASTS: &'static [Outlasts<Self::Rule>];
    /// A type with the alignment of the slot.
    type Align: Copy + Send;

    /// Makes a cell of a state; `tag` identifies the state's scale.
    fn new(state: Self::State, tag: Tag) -> Self;

    /// Returns the state. A large state is moved out of the cell and must be [put](Cell::put) back.
    fn take(&mut self, scales: &Scales) -> Self::State;

    /// Replaces the state of the cell.
    fn put(&mut self, state: Self::State, tag: Tag) {
        *self = Self::new(state, tag);
    }

    /// Returns a state and the tag of its scale. If the table has seen too many scales, converts
    /// the state to the rule's scale, whose tag is `usual`.
    fn tagged(
        state: Self::State,
        _rule: &Self::Rule,
        usual: Tag,
        _scales: &Scales,
    ) -> (Self::State, Tag) {
        (state, usual)
    }

    /// Returns the tag of the rule's scale; `None` if the table has seen too many scales.
    fn tag_for(_rule: &Self::Rule, _scales: &Scales) -> Option<Tag> {
        Some(Tag::NONE)
    }

    /// Returns whether the state has a [second bound or leases](crate::held_records).
    fn is_marked(&self) -> bool {
        false
    }

    /// Returns the µs from now until the state may be dropped.
    fn expires_in(&self, rule: &Self::Rule, scales: &Scales, now: Now) -> u64;

    /// Returns the units that are forgotten with the state.
    fn used(&self, rule: &Self::Rule, scales: &Scales, now: Now) -> u64;

    /// Resets the state, except for a part that survives a reset, and returns whether there was
    /// anything to forget. Returns `None` if nothing survives, so the caller removes the whole
    /// cell.
    fn forget(&mut self) -> Option<bool> {
        None
    }

    /// Returns the maximum number of bytes outside the slot that an admission adds.
    fn growth_bytes(_state: &Self::State) -> usize {
        0
    }

    /// Returns the number of bytes outside the slot.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Returns the number of bytes outside the slot that a state will take.
    fn heap_bytes_of(_state: &Self::State) -> usize {
        0
    }
}

/// Two words with the newest time and the deficit, in 53 bits each. The upper bits hold the tag of
/// the deficit's scale. With the fingerprint this makes a slot of 32 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BucketCell {
    newest: u64,
    deficit: u64,
}

/// An alignment that puts two slots in a cache line and splits none.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct HalfLine;

impl BucketCell {
    /// Returns the state, which most likely has the caller's scale; `None` if it has a second
    /// bound or leases.
    #[inline]
    pub(crate) fn read(self, tag: Tag, unit: u64, scales: &Scales) -> Option<bucket::State> {
        let (newest, deficit) = (self.newest ^ tag.low, self.deficit ^ tag.high);
        if (newest | deficit) <= MAX_EXACT {
            Some(bucket::State { newest, deficit, unit })
        } else {
            (!self.is_marked()).then(|| self.read_other(scales))
        }
    }

    /// Returns the state in any scale.
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
        let state = self.read_other(scales);
        let drained = rule.expires_in(&state, now);
        if self.is_marked() {
            // Leased units don't drain before their lease ends.
            let lasts = state.newest.saturating_add(Leased::LONGEST.as_micros());
            return drained.max(lasts.saturating_sub(now.micros));
        }
        drained
    }

    fn used(&self, rule: &bucket::Bucket, scales: &Scales, now: Now) -> u64 {
        rule.used(&self.read_other(scales), now)
    }
}

/// A state stored unchanged.
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

/// A log of any length. Entries after the first are on the heap, so the slot owns them.
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

/// The held records of a subject and the ids of its requests. The slot only holds a pointer to
/// them: searches read many slots, so a free or moved slot must be small.
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

    /// Counts as fully used: held records must not be evicted before used units.
    fn used(&self, (): &(), _: &Scales, _: Now) -> u64 {
        NEVER
    }

    /// Forgets the held records. The ids of requests and the leases stay.
    fn forget(&mut self) -> Option<bool> {
        let shelf = self.0.as_mut()?;
        let stays = shelf.book.has_repeats() || !shelf.leases.is_empty();
        stays.then(|| shelf.forget_holds())
    }

    fn heap_bytes(&self) -> usize {
        self.shelf().map_or(0, HeldRecords::heap_bytes)
    }

    fn heap_bytes_of(shelf: &Box<HeldRecords>) -> usize {
        shelf.heap_bytes()
    }
}
