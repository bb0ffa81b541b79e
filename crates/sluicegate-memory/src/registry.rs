//! Opens limits, evicts states at the cap, and removes expired ones.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use sluicegate_core::for_stores::{Bells, Identity};
use sluicegate_core::kernel::{NEVER, Now};
use sluicegate_core::{Clock, Span, TimeSource};

use crate::boards::Boards;
use crate::budget::{Budget, Load, Room, Short};
use crate::cell::Cell;
use crate::directory::Directory;
use crate::fingerprint::Fingerprint;
use crate::ledger::Ledger;
use crate::settings_table::SettingsTable;
use crate::shard::Shard;
use crate::share::{AnyTable, Share, Taken};
use crate::table::Table;

/// The state that all limits of a store share.
pub(crate) struct Registry {
    /// Locked while a limit is opened, so that two handles find the same table. A thread that holds
    /// a shard never waits for it.
    directory: Mutex<Directory>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Box<dyn Clock>,
    overflow: Overflow,
    max_clock_back: u64,
    /// The notifiers of waiters for permits.
    pub(crate) bells: Bells,
    pub(crate) boards: Boards,
    pub(crate) settings: SettingsTable,
}

/// A full store's answer to a new key, or to a known key whose state grows.
///
/// It applies if no sampled state equals a fresh key's. The limits share a store fairly. A limit's
/// fair share is the total divided by the number of limits that hold something. Only a limit that
/// holds more than its share loses states.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Overflow {
    /// Evicts a state of the limit that holds most. It evicts the state of a bounded sample that has
    /// used the smallest part of its quota. So a key that was used once is evicted before an
    /// exhausted one.
    ///
    /// The loss is at most the units that the evicted key had consumed.
    /// [`Stats::evicted_live`](crate::Stats::evicted_live) counts evictions.
    #[default]
    Evict,
    /// Denies the new key, with a warning in its decision. A limit below its fair share still
    /// evicts a state of the limit that holds most, chosen as for `Evict`.
    Deny,
}

/// The position of a subject's state, existing or not, in a locked shard.
pub(crate) struct Place<'p, C: Cell> {
    pub(crate) table: &'p Table<C>,
    pub(crate) shard: &'p mut Shard<C>,
    pub(crate) fingerprint: Fingerprint,
}

/// A failed reservation: the store has no capacity for another state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// µs until one of the sampled states may be removed; `None` if unknown.
    pub(crate) retry: Option<u64>,
    /// Whether some states could be evicted, but only by waiting for a lock.
    pub(crate) may_wait: bool,
}

impl Full {
    /// Returns the time until a retry may succeed, if it is known.
    pub(crate) fn retry_after(self) -> Option<Span> {
        self.retry
            .filter(|micros| *micros != NEVER)
            .map(|it| Span::from_micros(it).unwrap_or(Span::MAX))
    }
}

impl Registry {
    pub(crate) fn new(
        clock: Box<dyn Clock>,
        most: Load,
        overflow: Overflow,
        max_clock_back: u64,
    ) -> Self {
        Self {
            directory: Mutex::default(),
            ledger: Arc::new(Ledger::new(most)),
            clock,
            overflow,
            max_clock_back,
            bells: Bells::default(),
            boards: Boards::default(),
            settings: SettingsTable::default(),
        }
    }

    /// Returns how far ahead of now a state's time may be, in µs.
    pub(crate) const fn max_clock_back(&self) -> u64 {
        self.max_clock_back
    }

    /// Reads the clock again for a request that met a state stamped too far ahead of `now`. Returns
    /// `None` if the clock shows no later time.
    ///
    /// The request itself may be late: many requests can share one clock reading, or its thread was
    /// suspended. Then the state is correct, and restamping it would give back time that has
    /// already passed for it.
    #[cold]
    pub(crate) fn catch_up(&self, now: Now) -> Option<Now> {
        now.max_clock_back?;
        let micros = self.clock.now().as_micros();
        (micros > now.micros).then_some(Now { micros, ..now })
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.ledger.budget
    }

    /// Returns whether the caps can hold one key of each opened limit.
    pub(crate) fn has_room_for_all(&self) -> bool {
        self.budget().needed().beyond(self.budget().most()).is_none()
    }

    /// Returns the tables of a time source, to open a limit.
    pub(crate) fn open(&self, time: &TimeSource) -> Tables<'_> {
        let mut tables = self.reopen(time);
        tables.directory.enter(time);
        tables
    }

    /// Returns the tables of a time source, for a limit that is already open.
    pub(crate) fn reopen(&self, time: &TimeSource) -> Tables<'_> {
        Tables { registry: self, time: time.clone(), directory: self.lock() }
    }

    /// Unregisters an opened limit that was the last user of some tables. Their states stay until
    /// they expire. The tables of a run of injected time are removed with its last limit.
    pub(crate) fn close<'t>(
        &self,
        time: &TimeSource,
        left: impl Iterator<Item = &'t dyn AnyTable>,
    ) {
        let mut directory = self.lock();
        let forgotten: Vec<_> = left.filter_map(|table| directory.forget(table)).collect();
        let run = directory.leave(time);
        // Dropping tables takes time, so release the lock first.
        drop(directory);
        drop((forgotten, run));
    }

    /// Forgets a subject in all tables of a limit except the `known` ones, and returns whether it
    /// found a state.
    ///
    /// The other tables belong to the limit's former policies, or to policies of other handles. The
    /// caller holds no shard.
    pub(crate) fn forget_elsewhere(
        &self,
        limit: &str,
        time: &TimeSource,
        known: impl Fn(u64) -> bool,
        fingerprint: Fingerprint,
    ) -> bool {
        let tables = self.lock().all_of(time, limit);
        let mut found = false;
        for table in tables.iter().filter(|table| !known(table.id())) {
            found |= table.forget(fingerprint);
        }
        found
    }

    /// Reserves the capacity that a subject's state in a locked shard needs. If there is too
    /// little, evicts other states.
    #[inline]
    pub(crate) fn make_room<C: Cell>(
        &self,
        place: Place<'_, C>,
        now: u64,
        room: &mut Room<'_>,
        needed: Load,
    ) -> Result<(), Full> {
        match room.try_fill(needed) {
            Ok(()) => Ok(()),
            Err(short) => self.make_room_at_cap(place, now, room, needed, short),
        }
    }

    #[cold]
    fn make_room_at_cap<C: Cell>(
        &self,
        mut place: Place<'_, C>,
        now: u64,
        room: &mut Room<'_>,
        needed: Load,
        mut short: Short,
    ) -> Result<(), Full> {
        if !needed.beyond(self.budget().most()).is_none() {
            return Err(Full { retry: None, may_wait: false });
        }
        let now = if place.table.is_injected() { self.clock.now().as_micros() } else { now };
        for _ in 0..MOST_TAKEN {
            let wants = Wants { needed, missing: room.missing(needed).of(short), short };
            room.add(self.take_one(&mut place, now, wants)?);
            match room.try_fill(needed) {
                Ok(()) => return Ok(()),
                Err(still) => short = still,
            }
        }
        Err(Full { retry: None, may_wait: false })
    }

    /// Takes out one state. The caller holds locks, so this never waits for a lock and skips shards
    /// that are in use.
    fn take_one<C: Cell>(
        &self,
        place: &mut Place<'_, C>,
        now: u64,
        wants: Wants,
    ) -> Result<Load, Full> {
        let Place { table, shard, fingerprint } = place;
        let spare = std::slice::from_ref(fingerprint);
        if let Some(load) = table.take_fresh(shard, spare, now).or_else(|| self.take_fresh(now)) {
            return Ok(load);
        }
        let short = wants.short;
        let own = table.share().load().of(short).saturating_add(wants.needed.of(short));
        let other = self.ledger.ranking(short).heaviest(Some(table.share()));
        let is_heaviest = other.as_ref().is_none_or(|(_, weight)| own >= *weight);
        let mut taken = None;
        if self.overflow == Overflow::Evict && is_heaviest {
            taken = take_from_own(table, shard, *fingerprint, now, short);
            // The subject's own state can't be evicted in its own favor.
            if taken.is_none() && table.load().keys == 1 && shard.find(*fingerprint).is_ok() {
                return Err(Full { retry: table.next_fresh(shard, now), may_wait: false });
            }
        }
        let may_take = |weight| match self.overflow {
            Overflow::Evict => true,
            Overflow::Deny => {
                let share = self.fair_share(wants, own == wants.needed.of(short));
                share.is_below(weight) && !share.is_below(own)
            }
        };
        let other = other.filter(|(_, weight)| may_take(*weight));
        let may_wait = self.overflow == Overflow::Evict || other.is_some();
        let from_other = || other?.0.heaviest(short)?.take_least_of_all(false, &[], now);
        match taken.or_else(from_other) {
            Some(taken) => Ok(self.counted(taken)),
            None => Err(Full { retry: table.next_fresh(shard, now), may_wait }),
        }
    }

    /// Takes a state that equals a fresh key's from one of the next few shards.
    fn take_fresh(&self, now: u64) -> Option<Load> {
        (0..VISITS_FOR_FRESH).find_map(|_| {
            let table = self.ledger.occupied.current()?;
            let (load, is_done) = table.take_fresh_from_next(now);
            if is_done {
                self.ledger.occupied.pass(&table);
            }
            load
        })
    }

    /// Returns the fair share of each limit, including one that is about to hold its first state.
    fn fair_share(&self, wants: Wants, is_new: bool) -> FairShare {
        let limits = self.ledger.ranking(wants.short).limits() + usize::from(is_new);
        let total = self.budget().taken().of(wants.short).saturating_add(wants.missing);
        FairShare { limits, total }
    }

    fn counted(&self, taken: Taken) -> Load {
        if taken.was_live {
            self.budget().count_evicted_live();
        }
        taken.load
    }

    /// Reserves the wanted capacity, evicting states if necessary, and returns whether it
    /// succeeded.
    ///
    /// The caller holds no locks, so this waits for shards in use. It never evicts the caller's own
    /// states: `spare` lists their tables and their subjects' fingerprints.
    #[cold]
    pub(crate) fn fill(
        &self,
        room: &mut Room<'_>,
        wanted: Load,
        spare: &[(u64, Fingerprint)],
    ) -> bool {
        if !wanted.beyond(self.budget().most()).is_none() {
            return false;
        }
        let now = self.clock.now().as_micros();
        for _ in 0..ROUNDS {
            for _ in 0..MOST_TAKEN {
                let Err(short) = room.try_fill(wanted) else {
                    return true;
                };
                let Some(taken) = self.take_waiting(short, spare, now) else {
                    break;
                };
                room.add(self.counted(taken));
            }
            std::thread::yield_now();
        }
        room.try_fill(wanted).is_ok()
    }

    /// Takes a state from the limit that holds most. If that limit only has states that the caller
    /// needs, takes one from the first limit that has another.
    #[cold]
    fn take_waiting(&self, short: Short, spare: &[(u64, Fingerprint)], now: u64) -> Option<Taken> {
        let take = |table: &dyn AnyTable| {
            let own = spare.iter().filter(|(id, _)| *id == table.id());
            let own: SmallVec<[Fingerprint; 2]> = own.map(|(_, subject)| *subject).collect();
            table.take_least_of_all(true, &own, now)
        };
        let heaviest = self.ledger.ranking(short).heaviest(None);
        let from = |share: &Share| share.heaviest(short).and_then(|table| take(&*table));
        match self.overflow {
            Overflow::Evict => heaviest.and_then(|(share, _)| from(&share)).or_else(|| {
                let tables = self.ledger.occupied.some(spare.len() + 1);
                tables.iter().find_map(|table| take(&**table))
            }),
            Overflow::Deny => {
                let nothing = Wants { needed: Load::NONE, missing: 0, short };
                let share = self.fair_share(nothing, false);
                let (heaviest, _) = heaviest.filter(|(_, weight)| share.is_below(*weight))?;
                from(&heaviest)
            }
        }
    }

    /// Removes expired states from the next `slots` slots of all tables, and returns their number.
    pub(crate) fn sweep(&self, slots: usize) -> usize {
        let now = self.clock.now().as_micros();
        let (mut removed, mut left) = (0, slots);
        while left > 0 {
            let Some(table) = self.ledger.occupied.current() else {
                break;
            };
            let swept = table.sweep(left, now);
            if swept.is_done {
                self.move_past(&table);
            }
            removed += swept.removed;
            // An empty shard takes time too.
            left = left.saturating_sub(swept.looked.max(SLOTS_PER_VISIT));
        }
        removed
    }

    /// Removes expired states from all tables, and returns their number.
    pub(crate) fn purge(&self) -> usize {
        let now = self.clock.now().as_micros();
        let tables = self.ledger.occupied.some(usize::MAX);
        let removed = tables.iter().map(|table| table.purge(now)).sum();
        for _ in &tables {
            if let Some(table) = self.ledger.occupied.current() {
                self.move_past(&table);
            }
        }
        removed
    }

    /// Moves the hand past a table. Removes an empty table from the list, and drops it if no limit
    /// has it open. The caller holds no shard.
    fn move_past(&self, table: &Arc<dyn AnyTable>) {
        if !self.ledger.occupied.remove_if_empty(table) {
            self.ledger.occupied.pass(table);
        } else if table.is_unused() {
            let forgotten = self.lock().forget(&**table);
            drop(forgotten);
        }
    }

    /// Returns the number of tables.
    #[cfg(test)]
    pub(crate) fn tables(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Directory> {
        self.directory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the state of the smallest worth from the limit's own largest table.
fn take_from_own<C: Cell>(
    table: &Table<C>,
    shard: &mut Shard<C>,
    fingerprint: Fingerprint,
    now: u64,
    short: Short,
) -> Option<Taken> {
    let spare = std::slice::from_ref(&fingerprint);
    let heaviest = table.share().heaviest(short)?;
    let in_shard = (heaviest.id() == table.id())
        .then(|| table.take_least(table.shards().range(fingerprint.low), shard, spare, now))
        .flatten();
    in_shard.or_else(|| heaviest.take_least_of_all(false, spare, now))
}

/// The needs of a call.
#[derive(Clone, Copy)]
struct Wants {
    needed: Load,
    /// The kind of load that is too small, and the missing amount.
    short: Short,
    missing: usize,
}

/// The fair share: the total load, divided by the number of limits that hold something.
#[derive(Clone, Copy)]
struct FairShare {
    limits: usize,
    total: usize,
}

impl FairShare {
    const fn is_below(self, weight: usize) -> bool {
        weight as u128 * self.limits as u128 > self.total as u128
    }
}

/// The tables of a time source. Two threads that open a limit find the same table: the second waits
/// for the first.
pub(crate) struct Tables<'r> {
    registry: &'r Registry,
    time: TimeSource,
    directory: MutexGuard<'r, Directory>,
}

impl Tables<'_> {
    /// Returns the table of a limit's policy, if it exists.
    pub(crate) fn get<C: Cell>(&mut self, limit: &str, policy: Identity) -> Option<Arc<Table<C>>> {
        let table = self.directory.limit(&self.time, limit).get(policy)?;
        let table: Arc<dyn Any + Send + Sync> = Arc::clone(table) as _;
        table.downcast().ok()
    }

    /// Makes a table, which replaces an existing one; `first` is the load of one key of the policy.
    pub(crate) fn make<C: Cell>(
        &mut self,
        limit: &str,
        policy: Identity,
        first: Load,
    ) -> Arc<Table<C>> {
        let Registry { ledger, max_clock_back, .. } = self.registry;
        let max_clock_back = matches!(self.time, TimeSource::Store).then_some(*max_clock_back);
        let tables = self.directory.limit(&self.time, limit);
        let table = Table::new(ledger, tables.share(), first, max_clock_back);
        tables.put(policy, Arc::clone(&table) as Arc<_>);
        table
    }
}

/// Number of other shards searched for a state that equals a fresh key's.
const VISITS_FOR_FRESH: usize = 4;
/// Maximum number of evictions for one call: enough for the growth of a log.
const MOST_TAKEN: usize = 128;
/// Number of slots that take as long to examine as an empty shard.
const SLOTS_PER_VISIT: usize = 16;
/// Maximum number of searches for a state to evict. If a full store has none to take, another
/// thread is moving it to another shard.
const ROUNDS: usize = 64;
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use std::sync::Arc;

    use sluicegate_core::{Limit, ManualClock, OpenOptions, Request, Store};

    use crate::fingerprint::Fingerprint;
    use crate::kernels::AnyPolicy;
    use crate::opened::MemoryLimit;
    use crate::store::MemoryStore;

    fn open(store: &MemoryStore, name: &str) -> MemoryLimit {
        let limit = Limit::new(name, ["fixed_window 1/h"]).unwrap();
        store.open(limit, OpenOptions::default())
    }

    #[test]
    fn a_new_key_is_let_in_while_a_limit_is_opened() {
        let store = MemoryStore::builder().max_keys(2.try_into().unwrap()).build();
        let (full, fresh) = (open(&store, "full"), open(&store, "fresh"));
        for key in [b"a", b"b"] {
            assert!(full.decide(Request::check(key)).unwrap().is_allowed());
        }
        let _opening = fresh.registry().lock();
        assert!(fresh.decide(Request::check(b"c")).unwrap().is_allowed());
    }

    /// Before, each open and each maintenance step examined every dropped limit.
    #[test]
    fn dropped_limits_are_forgotten_as_their_states_expire() {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let tables = |store: &MemoryStore| store.registry().tables();
        let limits: Vec<_> = (0..2_000).map(|it| open(&store, &format!("l{it}"))).collect();
        for limit in &limits[..1_000] {
            assert!(limit.decide(Request::check(b"k")).unwrap().is_allowed());
        }
        assert_eq!(tables(&store), 2_000);
        drop(limits);
        assert_eq!(tables(&store), 1_000, "what holds nothing goes immediately");
        let again = open(&store, "l7");
        assert!(again.decide(Request::check(b"k")).unwrap().is_denied(), "what was used stays");
        assert_eq!(store.sweep_some(), 0);
        assert_eq!(tables(&store), 1_000);
        clock.advance(Duration::from_secs(7_200));
        let mut steps = 0;
        while tables(&store) > 1 {
            let removed = store.sweep_some();
            assert!(removed <= 32, "{removed} in one step");
            steps += 1;
        }
        assert!(steps <= 2 * 1_000 / 32 + 2, "{steps}");
        assert_eq!(store.stats().keys, 0);
        drop(again);
        assert_eq!(tables(&store), 0);
    }

    #[test]
    fn a_new_key_waits_for_the_shard_that_holds_all_states() {
        let store = MemoryStore::builder().max_keys(2.try_into().unwrap()).build();
        let (full, fresh) = (open(&store, "full"), open(&store, "fresh"));
        for key in [b"a", b"b"] {
            assert!(full.decide(Request::check(key)).unwrap().is_allowed());
        }
        let [AnyPolicy::Window(policy)] = full.policies() else {
            panic!("a limit of one window");
        };
        let in_use = policy.table.lock(Fingerprint::NONE);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| fresh.decide(Request::check(b"c")).unwrap());
            // Long enough for a request that doesn't wait.
            for _ in 0..1_000 {
                std::thread::yield_now();
            }
            drop(in_use);
            assert!(asked.join().unwrap().is_allowed());
        });
        assert_eq!(store.stats().evicted_live, 1);
    }

    #[test]
    fn a_fresh_state_in_another_shard_goes_before_a_live_one() {
        let clock = Arc::new(ManualClock::default());
        let most = 600;
        let store = MemoryStore::builder()
            .clock(Arc::clone(&clock))
            .max_keys(most.try_into().unwrap())
            .build();
        let opened = open(&store, "x");
        let [AnyPolicy::Window(policy)] = opened.policies() else {
            panic!("a limit of one window");
        };
        let ask =
            |key: u32| opened.decide(Request::check(&key.to_be_bytes())).unwrap().is_allowed();
        assert!((0..300).all(ask), "so many that there are several shards");
        clock.advance(Duration::from_secs(7_200));
        store.purge();
        // All expiring keys are in one shard, and all others are live.
        let of = |key: &u32| opened.store().fingerprint(&key.to_be_bytes());
        let range = policy.table.shards().range(of(&0).low);
        let ours = |key: &u32| range.has(of(key));
        assert!((1_000..).filter(ours).take(30).all(ask));
        clock.advance(Duration::from_secs(3_600));
        let live: Vec<u32> = (100_000..).filter(|key| !ours(key)).take(most - 30).collect();
        assert!(live.iter().all(|key| ask(*key)));
        assert_eq!((store.stats().keys, store.stats().evicted_live), (most, 0));
        assert!((1_000_000..).filter(|key| !ours(key)).take(30).all(ask));
        // Each new key samples 4 of 16 shards.
        assert!(store.stats().evicted_live <= 24, "{:?}", store.stats());
    }
}
