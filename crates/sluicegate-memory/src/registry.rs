//! Which tables there are, and room for new states at the cap.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::kernel::Now;
use sluicegate_core::{Bells, Clock, Identity, TimeSource};

use crate::budget::{Budget, Load, Room, Short};
use crate::cell::Cell;
use crate::fingerprint::Fingerprint;
use crate::ring::{Heaviest, Ring, TableKey};
use crate::shard::Shard;
use crate::table::{AnyTable, Table, Taken};

/// Everything that the limits of a store share.
pub(crate) struct Registry {
    /// How many opened limits each run of injected time has. Held while a limit is opened, so that two
    /// find one table; never taken by who holds a shard.
    runs: Mutex<HashMap<TimeSource, usize>>,
    ring: Ring,
    pub(crate) budget: Arc<Budget>,
    pub(crate) clock: Box<dyn Clock>,
    overflow: Overflow,
    max_clock_back: u64,
    /// Shards of each table.
    shards: usize,
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
    /// The new key is turned away, and its decision says so in its notes; unless its limit holds
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
    /// µs until one of the states that were looked at may go.
    pub(crate) retry: u64,
    /// Whether there are states that could go, of which none was to be had without waiting.
    pub(crate) may_wait: bool,
}

impl Registry {
    pub(crate) fn new(
        clock: Box<dyn Clock>,
        most: Load,
        overflow: Overflow,
        max_clock_back: u64,
    ) -> Self {
        let shards = shards_for(most.keys);
        Self {
            runs: Mutex::default(),
            ring: Ring::new(shards),
            budget: Arc::new(Budget::new(most)),
            clock,
            overflow,
            max_clock_back,
            shards,
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

    /// The tables of a time, while a limit is opened.
    pub(crate) fn open(&self, time: &TimeSource) -> Tables<'_> {
        let mut runs = self.lock();
        self.forget_unused();
        if *time != TimeSource::Store {
            *runs.entry(time.clone()).or_default() += 1;
        }
        Tables { registry: self, time: time.clone(), _runs: runs }
    }

    /// The tables of a time, for a limit that is open already.
    pub(crate) fn reopen(&self, time: &TimeSource) -> Tables<'_> {
        Tables { registry: self, time: time.clone(), _runs: self.lock() }
    }

    /// Counts out an opened limit of a run of injected time; the tables go with the last one.
    pub(crate) fn leave(&self, time: &TimeSource) {
        let mut runs = self.lock();
        if let Some(handles) = runs.get_mut(time) {
            *handles -= 1;
            if *handles == 0 {
                runs.remove(time);
                self.ring.forget(|key, _| key.time == *time);
            }
        }
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
        let mut found = false;
        for table in self.ring.all(|key| key.limit == limit && key.time == *time) {
            found |= !known(table.id()) && table.forget(fingerprint);
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
        if !needed.beyond(self.budget.most()).is_none() {
            return Err(Full { retry: 1, may_wait: false });
        }
        let now = if place.table.is_injected() { self.clock.now().as_micros() } else { now };
        for _ in 0..MOST_TAKEN {
            room.add(self.take_one(&mut place, now, needed, short)?);
            match room.try_fill(needed) {
                Ok(()) => return Ok(()),
                Err(still) => short = still,
            }
        }
        Err(Full { retry: 1, may_wait: false })
    }

    /// Takes out one state. The caller holds locks, so it never waits for one: what is in use by
    /// others is passed over.
    fn take_one<C: Cell>(
        &self,
        place: &mut Place<'_, C>,
        now: u64,
        needed: Load,
        short: Short,
    ) -> Result<Load, Full> {
        let Place { table, shard, fingerprint } = place;
        let spare = std::slice::from_ref(fingerprint);
        if let Some(load) = table.take_fresh(shard, spare, now) {
            return Ok(load);
        }
        let visit = |table: &dyn AnyTable, shard| table.take_fresh_from(shard, now);
        if let Some(load) = self.ring.visit(VISITS_FOR_FRESH, visit) {
            return Ok(load);
        }
        let heaviest = self.ring.heaviest(short, Some((table.id(), needed)));
        let may_take = |heaviest: &Heaviest| match self.overflow {
            Overflow::Evict => true,
            Overflow::Deny => heaviest.is_beyond_its_share && heaviest.leaves_own_within_its_share,
        };
        let Some(heaviest) = heaviest.filter(may_take) else {
            let retry = table.next_fresh(shard, now).unwrap_or(1);
            return Err(Full { retry, may_wait: false });
        };
        let in_own = (heaviest.table.id() == table.id())
            .then(|| table.take_least(table.place_of(*fingerprint), shard, spare, now))
            .flatten();
        let taken = in_own.or_else(|| heaviest.table.take_least_of_all(false, spare, now));
        let taken = taken.ok_or_else(|| {
            // A log that is all that its limit holds can't make room for itself.
            let is_alone = heaviest.table.id() == table.id()
                && table.load().keys == 1
                && shard.find(*fingerprint).is_ok();
            Full { retry: 1, may_wait: !is_alone }
        })?;
        Ok(self.counted(taken))
    }

    fn counted(&self, taken: Taken) -> Load {
        if taken.was_live {
            self.budget.count_evicted_live();
        }
        taken.load
    }

    /// Takes the room that is wanted, evicting states where there is none; gives whether it could.
    /// The caller holds no locks, so it waits for shards that are in use. Its own subjects stay.
    #[cold]
    pub(crate) fn fill(&self, room: &mut Room<'_>, wanted: Load, spare: &[Fingerprint]) -> bool {
        let now = self.clock.now().as_micros();
        for _ in 0..ROUNDS {
            for _ in 0..MOST_TAKEN {
                let Err(short) = room.try_fill(wanted) else {
                    return true;
                };
                let may_take = |heaviest: &Heaviest| match self.overflow {
                    Overflow::Evict => true,
                    Overflow::Deny => heaviest.is_beyond_its_share,
                };
                let heaviest = self.ring.heaviest(short, None).filter(may_take);
                let of_heaviest = heaviest
                    .and_then(|heaviest| heaviest.table.take_least_of_all(true, spare, now));
                let Some(taken) = of_heaviest.or_else(|| self.take_from_any(spare, now)) else {
                    break;
                };
                room.add(self.counted(taken));
            }
            std::thread::yield_now();
        }
        room.try_fill(wanted).is_ok()
    }

    /// Takes a state from the first limit that has one of another subject: where each holds next to
    /// nothing, the one that holds most may hold only what the caller needs itself.
    #[cold]
    fn take_from_any(&self, spare: &[Fingerprint], now: u64) -> Option<Taken> {
        match self.overflow {
            Overflow::Evict => {
                let tables = self.ring.all(|_| true);
                tables.iter().find_map(|table| table.take_least_of_all(true, spare, now))
            }
            Overflow::Deny => None,
        }
    }

    /// Removes what may go from the next `slots` slots of all tables. Gives how many states.
    pub(crate) fn sweep(&self, slots: usize) -> usize {
        let now = self.clock.now().as_micros();
        let (mut removed, mut left) = (0, slots);
        while left > 0 {
            let Some((table, shard, passed)) = self.ring.current() else {
                break;
            };
            let swept = table.sweep(shard, left, now);
            if swept.is_done {
                self.ring.pass(passed);
            }
            removed += swept.removed;
            // An empty shard takes its time too.
            left = left.saturating_sub(swept.looked.max(SLOTS_PER_VISIT));
        }
        self.forget_dropped();
        removed
    }

    /// Removes what may go from all tables. Gives how many states.
    pub(crate) fn purge(&self) -> usize {
        let now = self.clock.now().as_micros();
        let tables = self.ring.all(|_| true);
        let purge = |table: &Arc<dyn AnyTable>| -> usize {
            (0..self.shards).map(|shard| table.purge(shard, now)).sum()
        };
        let removed = tables.iter().map(purge).sum();
        drop(tables);
        self.forget_dropped();
        removed
    }

    /// Shards of all tables.
    #[cfg(test)]
    pub(crate) fn shards(&self) -> usize {
        self.ring.shards()
    }

    fn forget_dropped(&self) {
        let _runs = self.lock();
        self.forget_unused();
    }

    /// Forgets the empty tables that nobody but the ring holds any more.
    fn forget_unused(&self) {
        self.ring.forget(|_, table| Arc::strong_count(table) == 1 && table.is_empty());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TimeSource, usize>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tables of a time. Two that open a limit find one table: the second waits for the first.
pub(crate) struct Tables<'r> {
    registry: &'r Registry,
    time: TimeSource,
    _runs: MutexGuard<'r, HashMap<TimeSource, usize>>,
}

impl Tables<'_> {
    /// The table of a policy of a limit, if there is one.
    pub(crate) fn get<C: Cell>(&self, limit: &str, policy: Identity) -> Option<Arc<Table<C>>> {
        let table: Arc<dyn Any + Send + Sync> = self.registry.ring.get(&self.key(limit, policy))?;
        table.downcast().ok()
    }

    /// A new table, in the place of the one there was.
    pub(crate) fn make<C: Cell>(&self, limit: &str, policy: Identity) -> Arc<Table<C>> {
        let Registry { ring, budget, shards, max_clock_back, .. } = self.registry;
        let max_clock_back = matches!(self.time, TimeSource::Store).then_some(*max_clock_back);
        let table = Arc::new(Table::new(*shards, budget, max_clock_back));
        ring.put(self.key(limit, policy), Arc::clone(&table) as Arc<_>);
        table
    }

    fn key(&self, limit: &str, identity: Identity) -> TableKey {
        TableKey { time: self.time.clone(), limit: limit.to_owned(), identity }
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
/// States a full shard has when the store is large: so few that growing one takes a small part of a
/// millisecond, and so many that a table with none takes little: 16 KiB for a million keys.
const STATES_PER_SHARD: usize = 4_096;
/// Below this a shard says too little about which states are closest to fresh.
const FEWEST_PER_SHARD: usize = 64;
/// Enough that two threads seldom meet.
const SHARDS_PER_THREAD: usize = 16;
const MOST_SHARDS: usize = 65_536;

fn shards_for(most: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let apart = (threads * SHARDS_PER_THREAD).min(most / FEWEST_PER_SHARD);
    (most / STATES_PER_SHARD).max(apart).clamp(1, MOST_SHARDS).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate_core::{Limit, ManualClock, OpenOptions, Request, Span, Store};

    use super::FEWEST_PER_SHARD;
    use crate::fingerprint::Fingerprint;
    use crate::kernels::AnyPolicy;
    use crate::opened::MemoryLimit;
    use crate::store::MemoryStore;

    fn open(store: &MemoryStore, name: &str) -> MemoryLimit {
        let policies = vec!["fixed_window 1/h".parse().unwrap()];
        let limit = Limit::new(name.parse().unwrap(), policies).unwrap();
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
        let most = 2 * FEWEST_PER_SHARD;
        let store = MemoryStore::builder()
            .clock(Arc::clone(&clock))
            .max_keys(most.try_into().unwrap())
            .build();
        let opened = open(&store, "x");
        let [AnyPolicy::Window(policy)] = opened.policies() else {
            panic!("a limit of one window");
        };
        assert_eq!(opened.registry().shards(), 2, "so that the other one is looked at");
        let keys_in = |place: usize| {
            let keys = (0_u32..).map(u32::to_be_bytes);
            let opened = &opened;
            keys.filter(move |key| policy.table.place_of(opened.store().fingerprint(key)) == place)
        };
        let ask = |key: &[u8]| opened.decide(Request::check(key)).unwrap().is_allowed();
        let half = most / 2;
        assert!(keys_in(1).take(half).all(|key| ask(&key)));
        clock.advance(Span::HOUR);
        assert!(keys_in(0).take(half).all(|key| ask(&key)));
        assert!(ask(&keys_in(0).nth(half).unwrap()));
        assert_eq!(store.stats().evicted_live, 0);
        assert!(keys_in(0).take(half + 1).all(|key| !ask(&key)), "all live ones are there");
    }
}
