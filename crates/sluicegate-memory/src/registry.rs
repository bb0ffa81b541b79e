//! Which tables there are, and room for new states at the cap.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::kernel::{Rule, Times};
use sluicegate_core::{Clock, Limit, Member, TimeSource};

use crate::budget::{Budget, Room};
use crate::builder::Overflow;
use crate::cell::Cell;
use crate::fingerprint::Fingerprint;
use crate::handle::{Seat, SeatOf};
use crate::ring::{Kept, Ring, TableKey};
use crate::scales::Tag;
use crate::shard::Shard;
use crate::table::Table;

/// Everything that the handles of a store share.
pub(crate) struct Registry {
    /// How many handles each run of injected time has. Held while a limit is opened, so that two
    /// handles find one table; never taken by who holds a shard.
    runs: Mutex<HashMap<TimeSource, usize>>,
    ring: Ring,
    pub(crate) budget: Arc<Budget>,
    pub(crate) clock: Box<dyn Clock>,
    overflow: Overflow,
    max_clock_back: u64,
    /// Shards of each table.
    shards: usize,
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

    /// By which time to judge a request that met a state stamped too far ahead of `times`: it may
    /// be the request that is late, by a reading of the clock that many share or from before its
    /// thread was suspended. Then the state is right, and to restamp it would give it back time
    /// that has passed for it already. `None` if the clock still shows no later time.
    #[cold]
    pub(crate) fn catch_up(&self, times: Times) -> Option<Times> {
        times.max_clock_back?;
        let now = self.clock.now().as_micros();
        (now > times.now).then_some(Times { now, ..times })
    }

    /// A seat at the table of each policy of a limit.
    pub(crate) fn seats(&self, limit: &Limit, time: &TimeSource) -> Box<[Seat]> {
        let mut runs = self.lock();
        self.forget_unused();
        if *time != TimeSource::Store {
            *runs.entry(time.clone()).or_default() += 1;
        }
        limit.members().iter().map(|member| self.seat(limit, member, time)).collect()
    }

    fn seat(&self, limit: &Limit, member: &Member, time: &TimeSource) -> Seat {
        let key = TableKey {
            time: time.clone(),
            limit: limit.parts()[member.part()].as_str().to_owned(),
            identity: member.identity(),
        };
        let there = self.ring.get(&key);
        let cost = member.policy().cost();
        let (seat, kept) = match member.policy().rule() {
            Rule::Bucket(rule) => {
                let there = if let Some(Kept::Bucket(table)) = there { Some(table) } else { None };
                let tagged =
                    there.and_then(|table| Some((table.scales().tag_of(rule.unit())?, table)));
                let (tag, table) = tagged.unwrap_or_else(|| {
                    // Also when a table has seen more scales than it can tell apart.
                    let table = self.table(time);
                    (table.scales().tag_of(rule.unit()).unwrap_or(Tag { low: 0, high: 0 }), table)
                });
                (Seat::Bucket(SeatOf::new(&table, rule, tag, cost)), Kept::Bucket(table))
            }
            Rule::Counter(rule) => {
                let there = if let Some(Kept::Counter(table)) = there { Some(table) } else { None };
                let table = there.unwrap_or_else(|| self.table(time));
                (Seat::Counter(SeatOf::new(&table, rule, UNSCALED, cost)), Kept::Counter(table))
            }
            Rule::Log(rule) => {
                let there = if let Some(Kept::Log(table)) = there { Some(table) } else { None };
                let table = there.unwrap_or_else(|| self.table(time));
                (Seat::Log(SeatOf::new(&table, rule, UNSCALED, cost)), Kept::Log(table))
            }
            Rule::WarmUp(rule) => {
                let there = if let Some(Kept::WarmUp(table)) = there { Some(table) } else { None };
                let table = there.unwrap_or_else(|| self.table(time));
                (Seat::WarmUp(SeatOf::new(&table, rule, UNSCALED, cost)), Kept::WarmUp(table))
            }
            Rule::Window(rule) => {
                let there = if let Some(Kept::Window(table)) = there { Some(table) } else { None };
                let table = there.unwrap_or_else(|| self.table(time));
                (Seat::Window(SeatOf::new(&table, rule, UNSCALED, cost)), Kept::Window(table))
            }
            other => unknown(other),
        };
        self.ring.put(key, kept);
        seat
    }

    fn table<C: Cell>(&self, time: &TimeSource) -> Arc<Table<C>> {
        let max_clock_back = matches!(time, TimeSource::Store).then_some(self.max_clock_back);
        Arc::new(Table::new(self.shards, &self.budget, max_clock_back))
    }

    /// Counts out a handle of a run of injected time; the tables go with the last one.
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

    /// Forgets a subject in all tables of a limit but those of `seats`: in those of policies that
    /// the limit has had, or has in another handle. Whoever calls this holds no shard.
    pub(crate) fn forget_elsewhere(
        &self,
        limit: &str,
        time: &TimeSource,
        seats: &[Seat],
        fingerprint: Fingerprint,
    ) {
        for kept in self.ring.all(|key| key.limit == limit && key.time == *time) {
            if seats.iter().all(|seat| seat.table_id() != kept.any().id()) {
                kept.any().forget(fingerprint);
            }
        }
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
        if let Some(candidate) = candidate.filter(|candidate| candidate.fresh_in == 0) {
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
                Err(Full { retry: candidate.map_or(1, |candidate| candidate.fresh_in) })
            }
        }
    }

    /// Removes a state of another shard. Whoever calls this holds locks, so it never waits for
    /// one: what is in use by others is passed over.
    fn take_elsewhere(&self, now: u64, visits: usize, live: bool) -> Option<bool> {
        self.ring.visit(visits, |table, shard| table.take_one(shard, now, live))
    }

    /// Whether there is room for a new state as long as there is another one to evict.
    pub(crate) const fn evicts(&self) -> bool {
        matches!(self.overflow, Overflow::Evict)
    }

    /// Takes the room that is wanted, evicting states where there is none; gives whether it could.
    /// Whoever calls this holds no locks, so it waits for shards that are in use.
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
                if let Some(was_live) = table.any().wait_and_take_one(shard, now) {
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
            removed += table.any().purge(shard, now);
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
        self.ring.all(|_| true).iter().map(|kept| kept.any().bytes()).sum()
    }

    /// Forgets the empty tables that no handle leads to any more.
    fn forget_unused(&self) {
        self.ring.forget(|_, kept| !kept.has_handles() && kept.any().is_empty());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TimeSource, usize>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Only bucket states depend on a scale.
const UNSCALED: Tag = Tag { low: 0, high: 0 };
/// Other shards looked at for a state that equals fresh.
const VISITS_FOR_FRESH: usize = 4;
/// How often all shards are looked at for a state to evict. One that isn't there, although the
/// store is full, is in the hands of a thread that is about to put it into another shard.
const ROUNDS: usize = 64;
/// States a full shard has when the store is large: so few that growing one is a matter of
/// microseconds.
const STATES_PER_SHARD: usize = 4_096;
/// Below this a shard says too little about which states are closest to fresh.
const FEWEST_PER_SHARD: usize = 64;
/// Enough that two threads seldom meet.
const SHARDS_PER_THREAD: usize = 8;
const MOST_SHARDS: usize = 1_024;

fn shards_for(most: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let apart = (threads * SHARDS_PER_THREAD).min(most / FEWEST_PER_SHARD);
    (most / STATES_PER_SHARD).max(apart).clamp(1, MOST_SHARDS).next_power_of_two()
}

/// The core knows a kernel that this store doesn't.
#[cold]
fn unknown(rule: &Rule) -> ! {
    #[expect(
        clippy::panic,
        reason = "both crates are of one version; every kernel is in the match"
    )]
    {
        panic!("the embedded store has no table for {rule:?}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate_core::{EmbeddedStore, Limit, Request, Store, TimeSource};

    use crate::fingerprint::Fingerprint;
    use crate::handle::{Handle, Seat};
    use crate::store::MemoryStore;

    fn open(store: &MemoryStore, name: &str) -> Handle {
        let policies = vec!["fixed_window 1/h".parse().unwrap()];
        let limit = Limit::new(name.parse().unwrap(), policies).unwrap();
        store.open(Arc::new(limit), TimeSource::Store)
    }

    #[test]
    fn a_new_key_is_let_in_while_a_limit_is_opened() {
        let store = MemoryStore::builder().max_keys(2.try_into().unwrap()).build();
        let (full, fresh) = (open(&store, "full"), open(&store, "fresh"));
        for key in [b"a", b"b"] {
            assert!(store.decide_now(&full, Request::check(key)).unwrap().is_allowed());
        }
        let _opening = fresh.registry().lock();
        assert!(store.decide_now(&fresh, Request::check(b"c")).unwrap().is_allowed());
    }

    #[test]
    fn a_new_key_waits_for_the_shard_that_holds_all_states() {
        let store = MemoryStore::builder().max_keys(2.try_into().unwrap()).build();
        let (full, fresh) = (open(&store, "full"), open(&store, "fresh"));
        for key in [b"a", b"b"] {
            assert!(store.decide_now(&full, Request::check(key)).unwrap().is_allowed());
        }
        let [Seat::Window(seat)] = full.seats() else {
            panic!("a limit of one window");
        };
        let in_use = seat.table.lock(Fingerprint::NONE);
        std::thread::scope(|scope| {
            let asked = scope.spawn(|| store.decide_now(&fresh, Request::check(b"c")).unwrap());
            // Long enough for a request that doesn't wait.
            for _ in 0..1_000 {
                std::thread::yield_now();
            }
            drop(in_use);
            assert!(asked.join().unwrap().is_allowed());
        });
        assert_eq!(store.stats().evicted_live, 1);
    }
}
