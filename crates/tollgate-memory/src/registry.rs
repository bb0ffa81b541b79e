//! Which tables there are, and room for new states at the cap.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_core::kernel::{Rule, counter, warm_up, window};
use tollgate_core::{Clock, Identity, Limit, Member, TimeSource};

use crate::budget::Budget;
use crate::builder::Overflow;
use crate::cell::{BucketCell, Cell, LogCell};
use crate::handle::{Seat, SeatOf};
use crate::scales::Tag;
use crate::shard::Shard;
use crate::table::{AnyTable, Table};

/// Everything that the handles of a store share.
pub(crate) struct Registry {
    tables: Mutex<Tables>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) clock: Box<dyn Clock>,
    overflow: Overflow,
    max_clock_back: u64,
    /// Shards of each table.
    shards: usize,
}

#[derive(Default)]
struct Tables {
    ids: HashMap<TableKey, u64>,
    by_id: BTreeMap<u64, Kept>,
    /// How many handles each run of injected time has.
    runs: HashMap<TimeSource, usize>,
    /// The table and the shard that are looked at next.
    hand: (u64, usize),
}

/// Whose states a table holds. Numbers that may change under a live state are no part of it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct TableKey {
    time: TimeSource,
    limit: String,
    identity: Identity,
}

/// A table of any kernel.
#[derive(Clone)]
enum Kept {
    Bucket(Arc<Table<BucketCell>>),
    Counter(Arc<Table<counter::State>>),
    Log(Arc<Table<LogCell>>),
    WarmUp(Arc<Table<warm_up::State>>),
    Window(Arc<Table<window::State>>),
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
        Self {
            tables: Mutex::default(),
            budget: Arc::new(Budget::new(most)),
            clock,
            overflow,
            max_clock_back,
            shards: shards_for(most),
        }
    }

    /// How far ahead of now a state may lie, in µs.
    pub(crate) const fn max_clock_back(&self) -> u64 {
        self.max_clock_back
    }

    /// A seat at the table of each policy of a limit.
    pub(crate) fn seats(&self, limit: &Limit, time: &TimeSource) -> Box<[Seat]> {
        let mut tables = self.lock();
        tables.forget_unused();
        if *time != TimeSource::Store {
            *tables.runs.entry(time.clone()).or_default() += 1;
        }
        limit.members().iter().map(|member| self.seat(&mut tables, limit, member, time)).collect()
    }

    fn seat(&self, tables: &mut Tables, limit: &Limit, member: &Member, time: &TimeSource) -> Seat {
        let key = TableKey {
            time: time.clone(),
            limit: limit.parts()[member.part()].as_str().to_owned(),
            identity: member.identity(),
        };
        let there = tables.ids.get(&key).and_then(|id| tables.by_id.get(id)).cloned();
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
        tables.keep(key, kept);
        seat
    }

    fn table<C: Cell>(&self, time: &TimeSource) -> Arc<Table<C>> {
        let max_clock_back = matches!(time, TimeSource::Store).then_some(self.max_clock_back);
        Arc::new(Table::new(self.shards, &self.budget, max_clock_back))
    }

    /// Counts out a handle of a run of injected time; the tables go with the last one.
    pub(crate) fn leave(&self, time: &TimeSource) {
        let mut tables = self.lock();
        if let Some(handles) = tables.runs.get_mut(time) {
            *handles -= 1;
            if *handles == 0 {
                tables.runs.remove(time);
                tables.forget(|key, _| key.time == *time);
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
            (Overflow::Evict, None) => match self.take_elsewhere(now, VISITS_FOR_ANY, true) {
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
        let mut tables = self.tables.try_lock().ok()?;
        (0..visits).find_map(|_| {
            let (table, shard) = tables.advance()?;
            table.any().take_one(shard, now, live)
        })
    }

    /// Removes what may go from the next `shards` shards of all tables.
    pub(crate) fn sweep(&self, shards: usize) -> usize {
        let now = self.clock.now().as_micros();
        let mut removed = 0;
        for _ in 0..shards {
            let Some((table, shard)) = self.lock().advance() else {
                break;
            };
            removed += table.any().purge(shard, now);
        }
        self.lock().forget_unused();
        removed
    }

    /// Shards of all tables.
    pub(crate) fn shards(&self) -> usize {
        self.lock().by_id.values().map(|kept| kept.any().shards()).sum()
    }

    /// Bytes of all tables.
    pub(crate) fn bytes(&self) -> usize {
        let tables: Vec<Kept> = self.lock().by_id.values().cloned().collect();
        tables.iter().map(|kept| kept.any().bytes()).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tables {
    fn keep(&mut self, key: TableKey, kept: Kept) {
        let id = kept.id();
        if let Some(old) = self.ids.insert(key, id)
            && old != id
        {
            self.by_id.remove(&old);
        }
        self.by_id.entry(id).or_insert(kept);
    }

    /// Forgets the empty tables that no handle leads to any more.
    fn forget_unused(&mut self) {
        self.forget(|_, kept| !kept.has_handles() && kept.any().len() == 0);
    }

    fn forget(&mut self, unwanted: impl Fn(&TableKey, &Kept) -> bool) {
        let by_id = &mut self.by_id;
        self.ids.retain(|key, id| {
            let unwanted = by_id.get(id).is_none_or(|kept| unwanted(key, kept));
            if unwanted {
                by_id.remove(id);
            }
            !unwanted
        });
    }

    /// The shard that the hand points to; moves the hand to the next.
    fn advance(&mut self) -> Option<(Kept, usize)> {
        let (id, shard) = self.hand;
        let (&id, kept, shard) = match self.by_id.range(id..).next() {
            Some((found, kept)) => (found, kept, if *found == id { shard } else { 0 }),
            None => self.by_id.iter().next().map(|(id, kept)| (id, kept, 0))?,
        };
        self.hand = if shard + 1 < kept.any().shards() { (id, shard + 1) } else { (id + 1, 0) };
        Some((kept.clone(), shard))
    }
}

impl Kept {
    fn any(&self) -> &dyn AnyTable {
        match self {
            Self::Bucket(table) => &**table,
            Self::Counter(table) => &**table,
            Self::Log(table) => &**table,
            Self::WarmUp(table) => &**table,
            Self::Window(table) => &**table,
        }
    }

    fn id(&self) -> u64 {
        match self {
            Self::Bucket(table) => table.id(),
            Self::Counter(table) => table.id(),
            Self::Log(table) => table.id(),
            Self::WarmUp(table) => table.id(),
            Self::Window(table) => table.id(),
        }
    }

    /// Whether anything but the registry holds it.
    fn has_handles(&self) -> bool {
        let holders = match self {
            Self::Bucket(table) => Arc::strong_count(table),
            Self::Counter(table) => Arc::strong_count(table),
            Self::Log(table) => Arc::strong_count(table),
            Self::WarmUp(table) => Arc::strong_count(table),
            Self::Window(table) => Arc::strong_count(table),
        };
        holders > 1
    }
}

/// Only bucket states depend on a scale.
const UNSCALED: Tag = Tag { low: 0, high: 0 };
/// Other shards looked at for a state that equals fresh.
const VISITS_FOR_FRESH: usize = 4;
/// Other shards looked at for any state, when the own one is empty.
const VISITS_FOR_ANY: usize = 4_096;
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
