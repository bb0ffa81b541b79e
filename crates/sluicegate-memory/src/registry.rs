//! Which tables there are, and room for new states at the cap.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::kernel::Now;
use sluicegate_core::{Clock, Identity, TimeSource};

use crate::budget::{Budget, Room};
use crate::cell::Cell;
use crate::fingerprint::Fingerprint;
use crate::ring::{Ring, TableKey};
use crate::shard::Shard;
use crate::table::Table;

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
}

/// What happens to a new key when the store holds as many as it may, and none of those looked at
/// equals a fresh key's.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Overflow {
    /// The one closest to fresh, of a bounded sample, is forgotten. What is lost is at most what
    /// that key had consumed; [`Stats::evicted_live`](crate::Stats::evicted_live) counts.
    #[default]
    Evict,
    /// The new key is turned away, and its decision says so in its notes.
    Deny,
}

/// There is no room for another state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Full {
    /// µs until one of the states that were looked at may go.
    pub(crate) retry: u64,
}

impl Registry {
    pub(crate) fn new(
        clock: Box<dyn Clock>,
        most: usize,
        overflow: Overflow,
        max_clock_back: u64,
    ) -> Self {
        let shards = shards_for(most);
        Self {
            runs: Mutex::default(),
            ring: Ring::new(shards),
            budget: Arc::new(Budget::new(most)),
            clock,
            overflow,
            max_clock_back,
            shards,
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

    /// Takes room in the budget for one more state in a shard that is locked already: at the cap
    /// a state that may go makes room, or else, unless the store is strict, one of those closest
    /// to it.
    pub(crate) fn make_room<C: Cell>(
        &self,
        table: &Table<C>,
        shard: &mut Shard<C>,
        now: u64,
    ) -> Result<(), Full> {
        if self.budget.try_take(1) { Ok(()) } else { self.make_room_at_cap(table, shard, now) }
    }

    #[cold]
    fn make_room_at_cap<C: Cell>(
        &self,
        table: &Table<C>,
        shard: &mut Shard<C>,
        now: u64,
    ) -> Result<(), Full> {
        let candidate = table.candidate(shard, now);
        if let Some(candidate) = candidate.filter(|candidate| candidate.expires_in == 0) {
            shard.remove(candidate.index);
            return Ok(());
        }
        let now = if table.is_injected() { self.clock.now().as_micros() } else { now };
        if self.take_elsewhere(now, VISITS_FOR_FRESH, false).is_some() {
            return Ok(());
        }
        match (self.overflow, candidate) {
            (Overflow::Evict, Some(candidate)) => {
                shard.remove(candidate.index);
                self.budget.count_evicted_live();
                Ok(())
            }
            (Overflow::Evict, None) => match self.take_elsewhere(now, usize::MAX, true) {
                Some(was_live) => {
                    if was_live {
                        self.budget.count_evicted_live();
                    }
                    Ok(())
                }
                None => Err(Full { retry: 1 }),
            },
            (Overflow::Deny, candidate) => {
                Err(Full { retry: candidate.map_or(1, |candidate| candidate.expires_in) })
            }
        }
    }

    /// Removes a state of another shard. The caller holds locks, so it never waits for
    /// one: what is in use by others is passed over.
    fn take_elsewhere(&self, now: u64, visits: usize, live: bool) -> Option<bool> {
        self.ring.visit(visits, |table, shard| table.take_one(shard, now, live))
    }

    /// Whether there is room for a new state as long as there is another one to evict.
    pub(crate) const fn evicts(&self) -> bool {
        matches!(self.overflow, Overflow::Evict)
    }

    /// Takes the room that is wanted, evicting states where there is none; gives whether it could.
    /// The caller holds no locks, so it waits for shards that are in use.
    #[cold]
    pub(crate) fn fill(&self, room: &mut Room<'_>) -> bool {
        if room.wanted > self.budget.most() {
            return false;
        }
        let now = self.clock.now().as_micros();
        for _ in 0..ROUNDS {
            for _ in 0..self.ring.shards() {
                if room.try_fill(room.wanted) {
                    return true;
                }
                let Some((table, shard)) = self.ring.advance() else {
                    break;
                };
                if let Some(was_live) = table.wait_and_take_one(shard, now) {
                    room.add();
                    if was_live {
                        self.budget.count_evicted_live();
                    }
                }
            }
            std::thread::yield_now();
        }
        room.try_fill(room.wanted)
    }

    /// Removes what may go from the next `shards` shards of all tables.
    pub(crate) fn sweep(&self, shards: usize) -> usize {
        let now = self.clock.now().as_micros();
        let mut removed = 0;
        for _ in 0..shards {
            let Some((table, shard)) = self.ring.advance() else {
                break;
            };
            removed += table.purge(shard, now);
        }
        let _runs = self.lock();
        self.forget_unused();
        removed
    }

    /// Shards of all tables.
    pub(crate) fn shards(&self) -> usize {
        self.ring.shards()
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.all(|_| true).iter().map(|table| table.bytes()).sum()
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
/// How often all shards are looked at for a state to evict. One that isn't there, although the
/// store is full, is in the hands of a thread that is about to put it into another shard.
const ROUNDS: usize = 64;
/// States a full shard has when the store is large: so few that growing one takes at most about
/// half a millisecond, and so many that the array it leaves goes back to the system. Smaller ones
/// stay as holes in the heap, an eighth of the memory.
const STATES_PER_SHARD: usize = 16_384;
/// Below this a shard says too little about which states are closest to fresh.
const FEWEST_PER_SHARD: usize = 64;
/// Enough that two threads seldom meet.
const SHARDS_PER_THREAD: usize = 16;
const MOST_SHARDS: usize = 1_024;

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
