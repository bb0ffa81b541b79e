//! Opens limits, finds room for new states at the cap, and removes what has expired.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use sluicegate_core::for_stores::{Bells, Identity};
use sluicegate_core::kernel::{NEVER, Now};
use sluicegate_core::{Clock, Span, TimeSource};

use crate::budget::{Budget, Load, Room, Short};
use crate::cell::Cell;
use crate::directory::Directory;
use crate::fingerprint::Fingerprint;
use crate::ledger::Ledger;
use crate::shard::Shard;
use crate::share::{AnyTable, Share, Taken};
use crate::table::Table;

/// Everything that the limits of a store share.
pub(crate) struct Registry {
    /// Locked while a limit is opened, so that two find one table. A thread that holds a shard never waits
    /// for it.
    directory: Mutex<Directory>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Box<dyn Clock>,
    overflow: Overflow,
    max_clock_back: u64,
    /// Of those who wait for permits.
    pub(crate) bells: Bells,
}

/// What happens when the store has no room for a new key, or for what a known one has to keep, and
/// none of the states looked at equals a fresh key's.
///
/// The limits share a store fairly: what each would hold if all that hold something held the same
/// is its share. Only a limit that holds more than its share loses anything.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Overflow {
    /// The limit that holds most loses the state that has used least of its quota, of a bounded
    /// sample: a key that was used once goes before an exhausted one. What is lost is at most what
    /// that key had consumed; [`Stats::evicted_live`](crate::Stats::evicted_live) counts.
    #[default]
    Evict,
    /// The new key is turned away, and its decision says so in its warnings; unless its limit holds
    /// less than its share, which it takes from the limit that holds most, in the same way.
    Deny,
}

/// Where a subject's state is, or would be, in a shard that is locked.
pub(crate) struct Place<'p, C: Cell> {
    pub(crate) table: &'p Table<C>,
    pub(crate) shard: &'p mut Shard<C>,
    pub(crate) fingerprint: Fingerprint,
}

/// There is no room for another state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// µs until one of the states that were looked at may go; `None` if that is unknown.
    pub(crate) retry: Option<u64>,
    /// Whether there are states that could go, of which none was to be had without waiting.
    pub(crate) may_wait: bool,
}

impl Full {
    /// When the caller may try again, if that is known.
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
        }
    }

    /// How far ahead of now a state may lie, in µs.
    pub(crate) const fn max_clock_back(&self) -> u64 {
        self.max_clock_back
    }

    /// By which time to judge a request that met a state stamped too far ahead of `now`: it may
    /// be the request that is late, by a reading of the clock that many share or from before its
    /// thread was suspended. Then the state is right, and to restamp it would give it back time
    /// that has passed for it already. `None` if the clock still shows no later time.
    #[cold]
    pub(crate) fn catch_up(&self, now: Now) -> Option<Now> {
        now.max_clock_back?;
        let micros = self.clock.now().as_micros();
        (micros > now.micros).then_some(Now { micros, ..now })
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.ledger.budget
    }

    /// Whether the caps can hold one key of each opened limit.
    pub(crate) fn has_room_for_all(&self) -> bool {
        self.budget().needed().beyond(self.budget().most()).is_none()
    }

    /// The tables of a time, while a limit is opened.
    pub(crate) fn open(&self, time: &TimeSource) -> Tables<'_> {
        let mut tables = self.reopen(time);
        tables.directory.enter(time);
        tables
    }

    /// The tables of a time, for a limit that is open already.
    pub(crate) fn reopen(&self, time: &TimeSource) -> Tables<'_> {
        Tables { registry: self, time: time.clone(), directory: self.lock() }
    }

    /// Counts out an opened limit, which was the last one with some tables. What is left in them stays until
    /// it expires; the tables of a run of injected time go with its last limit.
    pub(crate) fn close<'t>(
        &self,
        time: &TimeSource,
        left: impl Iterator<Item = &'t dyn AnyTable>,
    ) {
        let mut directory = self.lock();
        let forgotten: Vec<_> = left.filter_map(|table| directory.forget(table)).collect();
        let run = directory.leave(time);
        // To drop tables takes time.
        drop(directory);
        drop((forgotten, run));
    }

    /// Forgets a subject in all tables of a limit but the `known` ones: in those of policies that
    /// the limit has had, or has where it is opened elsewhere. Gives whether there was a state. The
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

    /// Takes room for a load that a subject's state in a locked shard needs: where there is too
    /// little, others go for it.
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

    /// Takes out one state. The caller holds locks, so it never waits for one: what is in use by
    /// others is passed over.
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
            // What only the subject itself holds can't make room for itself.
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

    /// Takes a state that may go without a loss, from one of the next few shards.
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

    /// The fair share of each limit, with one that is about to hold something.
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

    /// Takes the room that is wanted, evicting states where there is none; gives whether it could.
    /// The caller holds no locks, so it waits for shards that are in use. Its own states stay: `spare` has
    /// their tables, and the fingerprints of their subjects.
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

    /// Takes a state from the limit that holds most. Where each holds next to nothing, that may be only what
    /// the caller needs itself: then it takes one from the first limit that has another one.
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

    /// Removes what may go from the next `slots` slots of all tables. Gives how many states.
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
            // An empty shard takes its time too.
            left = left.saturating_sub(swept.looked.max(SLOTS_PER_VISIT));
        }
        removed
    }

    /// Removes what may go from all tables. Gives how many states.
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

    /// Moves the hand past a table. One that is empty is listed no longer; if no limit has it open, it is
    /// forgotten. The caller holds no shard.
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

/// Takes the least state of the limit that wants room, from its table that holds most.
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

/// What a call wants room for.
#[derive(Clone, Copy)]
struct Wants {
    needed: Load,
    /// The part of it for which there is too little room, and how much is missing.
    short: Short,
    missing: usize,
}

/// What each limit that holds something would hold if all held the same.
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

/// The tables of a time. Two that open a limit find one table: the second waits for the first.
pub(crate) struct Tables<'r> {
    registry: &'r Registry,
    time: TimeSource,
    directory: MutexGuard<'r, Directory>,
}

impl Tables<'_> {
    /// The table of a policy of a limit, if there is one.
    pub(crate) fn get<C: Cell>(&mut self, limit: &str, policy: Identity) -> Option<Arc<Table<C>>> {
        let table = self.directory.limit(&self.time, limit).get(policy)?;
        let table: Arc<dyn Any + Send + Sync> = Arc::clone(table) as _;
        table.downcast().ok()
    }

    /// A new table, in the place of the one there was; `first` is what one key of the policy takes.
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

/// Other shards looked at for a state that equals fresh.
const VISITS_FOR_FRESH: usize = 4;
/// States that go at most for what one call needs: as many as make room for the growth of a log.
const MOST_TAKEN: usize = 128;
/// Slots that take as long to look at as an empty shard.
const SLOTS_PER_VISIT: usize = 16;
/// How often room is looked for where there is no state to take. One that isn't there, although the
/// store is full, is in the hands of a thread that is about to put it into another shard.
const ROUNDS: usize = 64;
#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate_core::{Limit, ManualClock, OpenOptions, Request, Span, Store};

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

    /// Each of them was looked at whenever a limit was opened, and in each step of maintenance.
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
        clock.advance("2h".parse::<Span>().unwrap());
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
        clock.advance("2h".parse::<Span>().unwrap());
        store.purge();
        // All that expire are in one shard, and all others are live.
        let of = |key: &u32| opened.store().fingerprint(&key.to_be_bytes());
        let range = policy.table.shards().range(of(&0).low);
        let ours = |key: &u32| range.has(of(key));
        assert!((1_000..).filter(ours).take(30).all(ask));
        clock.advance(Span::HOUR);
        let live: Vec<u32> = (100_000..).filter(|key| !ours(key)).take(most - 30).collect();
        assert!(live.iter().all(|key| ask(*key)));
        assert_eq!((store.stats().keys, store.stats().evicted_live), (most, 0));
        assert!((1_000_000..).filter(|key| !ours(key)).take(30).all(ask));
        // Four of sixteen shards are looked at for each.
        assert!(store.stats().evicted_live <= 24, "{:?}", store.stats());
    }
}
