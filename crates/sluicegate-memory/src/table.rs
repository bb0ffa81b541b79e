//! The states of one policy, divided into shards.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use sluicegate_core::kernel::Now;

use crate::budget::{Budget, Load};
use crate::cell::Cell;
use crate::eviction_rules::EvictionRules;
use crate::fingerprint::Fingerprint;
use crate::ledger::Ledger;
use crate::lock::Guard;
use crate::recent_keys::RecentKeys;
use crate::scales::Scales;
use crate::shard::{Candidate, Removed, Shard};
use crate::shards::{Range, Shards};
use crate::share::{AnyTable, Share, Swept, Taken};

/// The states of one policy. Handles share a table, including those with other numbers.
pub(crate) struct Table<C: Cell> {
    /// Position in the lock order of decisions over several policies.
    id: u64,
    shards: Shards<C>,
    scales: Scales,
    judges: RwLock<EvictionRules<C>>,
    ledger: Arc<Ledger>,
    /// The limit's load, in all its tables.
    share: Arc<Share>,
    /// The load of one key of the policy.
    first: Load,
    handles: AtomicUsize,
    states: AtomicUsize,
    /// Whether the table is in the list of occupied tables.
    is_listed: AtomicBool,
    /// Bytes outside the slots.
    heap: AtomicUsize,
    newcomers: RecentKeys,
    /// The next shard to search for expired states.
    hand: AtomicU64,
    /// The next shard to evict from. A separate hand visits all shards equally often; `hand` moves
    /// in leaps, so evictions would hit the same few shards.
    evicting: AtomicU64,
    /// Maximum µs that a state's time may be ahead of now; `None` under injected time.
    max_clock_back: Option<u64>,
    itself: Weak<Self>,
}

impl<C: Cell> Table<C> {
    /// The load of a new state.
    pub(crate) const FIRST_LOAD: Load = Load { keys: 1, bytes: Shard::<C>::BYTES_PER_STATE };

    /// Returns a table without keys; `first` is the load of one key of the policy.
    pub(crate) fn new(
        ledger: &Arc<Ledger>,
        share: &Arc<Share>,
        first: Load,
        max_clock_back: Option<u64>,
    ) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let table = Arc::new_cyclic(|itself| Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            shards: Shards::default(),
            scales: Scales::default(),
            judges: RwLock::default(),
            ledger: Arc::clone(ledger),
            share: Arc::clone(share),
            first,
            handles: AtomicUsize::new(0),
            states: AtomicUsize::new(0),
            is_listed: AtomicBool::new(false),
            heap: AtomicUsize::new(0),
            newcomers: RecentKeys::default(),
            hand: AtomicU64::new(0),
            evicting: AtomicU64::new(0),
            max_clock_back,
            itself: Weak::clone(itself),
        });
        share.add_table(Weak::clone(&table.itself) as Weak<_>);
        table
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    pub(crate) const fn scales(&self) -> &Scales {
        &self.scales
    }

    /// Locks the shard of a fingerprint.
    #[inline]
    pub(crate) fn lock(&self, fingerprint: Fingerprint) -> Guard<'_, Shard<C>> {
        self.shards.lock(fingerprint.low)
    }

    pub(crate) const fn shards(&self) -> &Shards<C> {
        &self.shards
    }

    /// Inserts a state whose capacity is reserved, and removes some expired states.
    pub(crate) fn insert(&self, shard: &mut Shard<C>, fingerprint: Fingerprint, cell: C, now: u64) {
        if shard.is_crowded() {
            // Growing takes long: first check whether removals make it unnecessary.
            let (removed, looked) = self.sweep_shard(shard, SLOTS_WHEN_CROWDED, now);
            if removed * 8 < looked {
                shard.grow();
            }
        } else if shard.len().is_multiple_of(INSERTS_PER_SWEEP) {
            self.sweep_shard(shard, SLOTS_PER_SWEEP, now);
        }
        let heap = cell.heap_bytes();
        self.states.fetch_add(1, Ordering::SeqCst);
        self.heap.fetch_add(heap, Ordering::Relaxed);
        self.ledger.hold(&self.share, Self::load_of(Removed { states: 1, heap }));
        if !self.is_listed.load(Ordering::SeqCst) {
            self.list();
        }
        shard.insert(fingerprint, cell);
        if !self.budget().has_room_for(NEARLY_FULL) {
            self.newcomers.add(fingerprint);
        }
    }

    /// Takes out the state at an index.
    pub(crate) fn remove(&self, shard: &mut Shard<C>, index: usize) {
        let removed = shard.remove(index);
        self.release(removed);
    }

    /// Records a change of a state's bytes outside its slot. The caller has updated the budget.
    pub(crate) fn count_heap(&self, before: usize, after: usize) {
        if after > before {
            self.heap.fetch_add(after - before, Ordering::Relaxed);
            self.ledger.hold(&self.share, Load { keys: 0, bytes: after - before });
        } else if before > after {
            self.heap.fetch_sub(before - after, Ordering::Relaxed);
            self.ledger.let_go(&self.share, Load { keys: 0, bytes: before - after });
        }
    }

    #[inline]
    pub(crate) fn budget(&self) -> &Budget {
        &self.ledger.budget
    }

    /// Adds this table to the list of occupied tables.
    #[cold]
    fn list(&self) {
        if !self.is_listed.swap(true, Ordering::SeqCst) {
            self.ledger.occupied.add(Weak::clone(&self.itself) as Weak<_>);
        }
    }

    /// Takes out a fresh state, if a bounded sample of the shard has one, and passes its reserved
    /// capacity to the caller. Never takes states of `spare`.
    pub(crate) fn take_fresh(
        &self,
        shard: &mut Shard<C>,
        spare: &[Fingerprint],
        now: u64,
    ) -> Option<Load> {
        let candidate = self.candidate(shard, spare, now)?;
        candidate.worth.is_fresh().then(|| self.take_out(shard, candidate.index))
    }

    /// Takes out the state of the smallest worth, from a sample of the shard and the latest keys.
    /// Passes its reserved capacity to the caller.
    pub(crate) fn take_least(
        &self,
        range: Range,
        shard: &mut Shard<C>,
        spare: &[Fingerprint],
        now: u64,
    ) -> Option<Taken> {
        let best = self.candidate(shard, spare, now);
        let is_least = best.is_some_and(|best| best.worth.used <= LEAST_USED);
        if !is_least && let Some(taken) = self.take_newcomer((range, shard), best, spare, now) {
            return Some(taken);
        }
        best.map(|Candidate { index, worth }| Taken {
            load: self.take_out(shard, index),
            was_live: !worth.is_fresh(),
        })
    }

    /// Returns the µs until a state in a sample of the shard expires; `None` if there is none.
    pub(crate) fn next_fresh(&self, shard: &mut Shard<C>, now: u64) -> Option<u64> {
        self.candidate(shard, &[], now).map(|candidate| candidate.worth.expires_in)
    }

    /// Takes out one of the latest keys, if it is worth less than `other`.
    #[cold]
    fn take_newcomer(
        &self,
        (range, own): (Range, &mut Shard<C>),
        other: Option<Candidate>,
        spare: &[Fingerprint],
        now: u64,
    ) -> Option<Taken> {
        for fingerprint in self.newcomers.take() {
            let mut guard;
            let shard: &mut Shard<C> = if range.has(fingerprint) {
                &mut *own
            } else if let Some((free, _)) = self.shards.try_lock(fingerprint.low) {
                guard = free;
                &mut guard
            } else {
                self.newcomers.add(fingerprint);
                continue;
            };
            let Ok(index) = shard.find(fingerprint) else {
                continue;
            };
            let worth = self
                .judged(now, |judges, scales, now| judges.worth(shard.cell(index), scales, now));
            // A key that is worth as much as others by now is no longer remembered.
            if !spare.contains(&fingerprint) && other.is_none_or(|other| worth < other.worth) {
                let load = self.take_out(shard, index);
                return Some(Taken { load, was_live: !worth.is_fresh() });
            }
        }
        None
    }

    fn candidate(
        &self,
        shard: &mut Shard<C>,
        spare: &[Fingerprint],
        now: u64,
    ) -> Option<Candidate> {
        if shard.len() == 0 {
            return None;
        }
        self.judged(now, |judges, scales, now| {
            shard.candidate(SAMPLE, spare, |cell| judges.worth(cell, scales, now))
        })
    }

    /// Takes out a state, and passes its reserved capacity to the caller.
    fn take_out(&self, shard: &mut Shard<C>, index: usize) -> Load {
        let removed = shard.remove(index);
        self.uncount(removed)
    }

    fn release(&self, removed: Removed) {
        if removed.states > 0 {
            let load = self.uncount(removed);
            self.budget().release(load);
        }
    }

    fn uncount(&self, removed: Removed) -> Load {
        let load = Self::load_of(removed);
        self.states.fetch_sub(removed.states, Ordering::SeqCst);
        self.heap.fetch_sub(removed.heap, Ordering::Relaxed);
        self.ledger.let_go(&self.share, load);
        load
    }

    const fn load_of(Removed { states, heap }: Removed) -> Load {
        Load { keys: states, bytes: states * Shard::<C>::BYTES_PER_STATE + heap }
    }

    /// Examines the next slots of a shard. Returns the number of removed states and the number of
    /// examined slots.
    fn sweep_shard(&self, shard: &mut Shard<C>, slots: usize, now: u64) -> (usize, usize) {
        let (removed, looked) = self.judged(self.long_ago(now), |judges, scales, now| {
            shard.sweep(slots, |cell| judges.expires_in(cell, scales, now))
        });
        self.release(removed);
        (removed.states, looked)
    }

    /// Registers a handle with `rule`. Called under the lock of the directory.
    pub(crate) fn join(&self, rule: &C::Rule) {
        if self.handles.fetch_add(1, Ordering::SeqCst) == 0 {
            self.budget().open(self.first);
        }
        self.judges.write().unwrap_or_else(PoisonError::into_inner).join(rule);
    }

    /// Unregisters a handle with `rule`, and returns whether it was the last one.
    pub(crate) fn leave(&self, rule: &C::Rule) -> bool {
        self.judges.write().unwrap_or_else(PoisonError::into_inner).leave(rule);
        let is_last = self.handles.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last {
            self.budget().close(self.first);
        }
        is_last
    }

    /// Returns whether the table's time is injected.
    pub(crate) const fn is_injected(&self) -> bool {
        self.max_clock_back.is_none()
    }

    /// Returns the time at which a state must already have been fresh to be removed without need.
    /// Other threads may still use an earlier clock reading, and the clock may step back.
    fn long_ago(&self, now: u64) -> u64 {
        now.saturating_sub(self.max_clock_back.unwrap_or(0))
    }

    /// Calls `call` with the table's eviction rules.
    fn judged<T>(&self, now: u64, call: impl FnOnce(&EvictionRules<C>, &Scales, Now) -> T) -> T {
        let judges = self.judges.read().unwrap_or_else(PoisonError::into_inner);
        // Injected time can be any time; at the cap its states are compared by their own times.
        let now = Now {
            micros: if self.is_injected() { 0 } else { now },
            // Seen from that earlier time, twice the bound allows the same states.
            max_clock_back: self.max_clock_back.map(|bound| bound.saturating_mul(2)),
        };
        call(&judges, &self.scales, now)
    }
}

impl<C: Cell> AnyTable for Table<C> {
    fn id(&self) -> u64 {
        self.id
    }

    fn share(&self) -> &Arc<Share> {
        &self.share
    }

    fn forget(&self, fingerprint: Fingerprint) -> bool {
        let mut shard = self.lock(fingerprint);
        let Ok(index) = shard.find(fingerprint) else { return false };
        let cell = shard.cell_mut(index);
        let before = cell.heap_bytes();
        let Some(was_there) = cell.forget() else {
            self.remove(&mut shard, index);
            return true;
        };
        let after = cell.heap_bytes();
        self.count_heap(before, after);
        self.budget().release(Load { keys: 0, bytes: before.saturating_sub(after) });
        was_there
    }

    fn is_unused(&self) -> bool {
        self.handles.load(Ordering::SeqCst) == 0 && self.states.load(Ordering::SeqCst) == 0
    }

    fn unlist(&self) -> bool {
        self.is_listed.store(false, Ordering::SeqCst);
        // A state inserted now either finds the mark cleared, or is counted here.
        self.states.load(Ordering::SeqCst) == 0 || self.is_listed.swap(true, Ordering::SeqCst)
    }

    fn load(&self) -> Load {
        let states = self.states.load(Ordering::SeqCst);
        Self::load_of(Removed { states, heap: self.heap.load(Ordering::Relaxed) })
    }

    fn purge(&self, now: u64) -> usize {
        let (mut removed, mut next) = (0, Some(0));
        while let Some(at) = next {
            let (mut shard, range) = self.shards.lock_with_range(at);
            let gone = self.judged(self.long_ago(now), |judges, scales, now| {
                shard.purge(|cell| judges.expires_in(cell, scales, now))
            });
            self.release(gone);
            removed += gone.states;
            next = range.end();
        }
        removed
    }

    fn sweep(&self, slots: usize, now: u64) -> Swept {
        let at = self.hand.load(Ordering::Relaxed);
        let (mut shard, range) = self.shards.lock_with_range(at);
        let (removed, looked) = self.sweep_shard(&mut shard, slots, now);
        let mut is_done = false;
        if shard.is_swept() {
            shard.give_back();
            is_done = pass(&self.hand, at, range);
        }
        Swept { removed, looked, is_done }
    }

    fn take_fresh_from_next(&self, now: u64) -> (Option<Load>, bool) {
        let at = self.hand.load(Ordering::Relaxed);
        let Some((mut shard, range)) = self.shards.try_lock(at) else {
            return (None, pass(&self.hand, at, self.shards.range(at)));
        };
        let is_done = pass(&self.hand, at, range);
        (self.take_fresh(&mut shard, &[], now), is_done)
    }

    fn take_least_of_all(&self, waits: bool, spare: &[Fingerprint], now: u64) -> Option<Taken> {
        let (mut tries, mut rounds) = (0, 0);
        // A whole round, regardless of its start.
        while rounds < 2 && (waits || tries < SHARDS_TRIED) {
            let at = self.evicting.load(Ordering::Relaxed);
            let free = match waits {
                true => Some(self.shards.lock_with_range(at)),
                false => self.shards.try_lock(at),
            };
            let range = free.as_ref().map_or_else(|| self.shards.range(at), |(_, range)| *range);
            rounds += usize::from(pass(&self.evicting, at, range));
            tries += 1;
            let taken =
                free.and_then(|(mut shard, range)| self.take_least(range, &mut shard, spare, now));
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}

/// Moves a hand past a shard, unless another thread has. Returns whether it was the last shard.
fn pass(hand: &AtomicU64, at: u64, range: Range) -> bool {
    let next = range.end();
    let _ = hand.compare_exchange(at, next.unwrap_or(0), Ordering::Relaxed, Ordering::Relaxed);
    next.is_none()
}

impl<C: Cell> Drop for Table<C> {
    fn drop(&mut self) {
        let load = self.load();
        self.ledger.let_go(&self.share, load);
        self.budget().release(load);
    }
}

/// Number of inserts for each sweep. With [`SLOTS_PER_SWEEP`], four slots are examined for each
/// insert, so expired states never number much more than a third of the live ones.
const INSERTS_PER_SWEEP: usize = 8;
/// Number of slots examined in a sweep.
const SLOTS_PER_SWEEP: usize = 32;
/// Number of slots examined before a shard grows. A shard seldom grows while it has expired states,
/// and examining is cheap compared with moving all slots.
const SLOTS_WHEN_CROWDED: usize = 128;
/// Remaining capacity below which the latest keys are remembered.
const NEARLY_FULL: Load = Load { keys: RecentKeys::MOST, bytes: RecentKeys::MOST * 64 };
/// The minimum use of a state that isn't fresh.
const LEAST_USED: u64 = 1;
/// Maximum number of shards tried that may be empty or in use.
const SHARDS_TRIED: usize = 16;
/// Number of states compared for an eviction.
const SAMPLE: usize = 16;

#[cfg(test)]
mod tests {
    use std::cell::Cell as Counter;

    use sluicegate_core::kernel::window::{FixedWindow, State};
    use sluicegate_core::kernel::{Kernel as _, Rule};
    use sluicegate_core::{Policy, TimeSource};

    use super::*;
    use crate::cell::{Outlasts, PlainCell};
    use crate::scales::Tag;

    thread_local! {
        static JUDGED: Counter<usize> = const { Counter::new(0) };
    }

    /// Counts how often its states are looked at.
    #[derive(Default)]
    struct Counting(PlainCell<FixedWindow>);

    impl Cell for Counting {
        type State = State;
        type Rule = FixedWindow;
        const OUTLASTS: &'static [Outlasts<FixedWindow>] = FixedWindow::OUTLASTS;
        type Align = u64;

        fn new(state: State, tag: Tag) -> Self {
            Self(PlainCell::new(state, tag))
        }

        fn take(&mut self, scales: &Scales) -> Self::State {
            self.0.take(scales)
        }

        fn expires_in(&self, rule: &FixedWindow, scales: &Scales, now: Now) -> u64 {
            JUDGED.set(JUDGED.get() + 1);
            self.0.expires_in(rule, scales, now)
        }

        fn used(&self, rule: &FixedWindow, scales: &Scales, now: Now) -> u64 {
            self.0.used(rule, scales, now)
        }
    }

    fn judged(call: impl FnOnce()) -> usize {
        JUDGED.set(0);
        call();
        JUDGED.get()
    }

    const HOUR: u64 = 3_600_000_000;

    fn table(keys: usize) -> Arc<Table<Counting>> {
        let ledger = Arc::new(Ledger::new(Load { keys, bytes: usize::MAX }));
        let share = Arc::new(Share::of(TimeSource::Store, "limit".into()));
        let first = Table::<Counting>::FIRST_LOAD;
        let table = Table::new(&ledger, &share, first, Some(5_000_000));
        let Rule::Window(rule) = "fixed_window 5/h".parse::<Policy>().unwrap().rule().clone()
        else {
            panic!("a window");
        };
        table.join(&rule);
        table
    }

    fn insert(table: &Table<Counting>, key: u64, now: u64) -> Fingerprint {
        let high = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).min(u64::MAX - 1);
        let low = (key + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let fingerprint = Fingerprint { high, low };
        let cell = Counting::new(State { newest: now, start: now, used: 1 }, Tag::NONE);
        table.budget().take(Table::<Counting>::FIRST_LOAD);
        table.insert(&mut table.lock(fingerprint), fingerprint, cell, now);
        fingerprint
    }

    #[test]
    fn no_new_key_looks_at_more_than_so_many_of_those_that_expired() {
        let table = table(1_000_000);
        (0..100_000).for_each(|key| _ = insert(&table, key, HOUR));
        assert_eq!(table.load().keys, 100_000);
        for key in 100_000..150_000 {
            let looked = judged(|| _ = insert(&table, key, 3 * HOUR));
            assert!(looked <= SLOTS_WHEN_CROWDED, "{looked} for key {key}");
        }
        assert_eq!(table.load().keys, 50_000, "all that expired are gone");
        assert_eq!(table.budget().taken(), table.load());
        assert_eq!(table.share.load(), table.load());
    }

    #[test]
    fn a_sweep_looks_at_no_more_than_it_is_told_and_gets_everywhere() {
        let table = table(1_000_000);
        (0..20_000).for_each(|key| _ = insert(&table, key, HOUR));
        let mut sweeps = 0;
        while table.load() != Load::NONE {
            let looked = judged(|| _ = table.sweep(100, 3 * HOUR));
            assert!(looked <= 100);
            sweeps += 1;
        }
        // The hand began anywhere, and each round is of some 25,000 slots.
        assert!((200..1_000).contains(&sweeps), "{sweeps}");
    }

    /// The latest keys are found even if a sample has only exhausted keys.
    #[test]
    fn the_one_that_was_used_least_goes_though_a_sample_does_not_show_it() {
        let table = table(20_000);
        let exhausted: Vec<Fingerprint> =
            (0..19_900).map(|key| insert(&table, key, HOUR)).collect();
        for fingerprint in &exhausted {
            let mut shard = table.lock(*fingerprint);
            let index = shard.find(*fingerprint).unwrap();
            let state = State { newest: HOUR, start: HOUR, used: 5 };
            *shard.cell_mut(index) = Counting::new(state, Tag::NONE);
        }
        for key in 19_900..50_000 {
            let fingerprint = insert(&table, key, HOUR);
            let taken = table.take_least_of_all(true, &[], HOUR).unwrap();
            assert!(taken.was_live);
            table.budget().release(taken.load);
            assert!(table.lock(fingerprint).find(fingerprint).is_err(), "key {key} stayed");
        }
        assert_eq!(table.load().keys, 19_900);
    }
}
