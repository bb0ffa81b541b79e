//! All tables of a store, in a ring that one hand goes round.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use sluicegate_core::{Identity, TimeSource};

use crate::budget::{Load, Short};
use crate::table::AnyTable;

/// The tables and the hand.
///
/// It is read by threads that hold shards: nobody may wait for a shard while it is locked.
pub(crate) struct Ring {
    tables: RwLock<Vec<(TableKey, Arc<dyn AnyTable>)>>,
    /// Shards of each table.
    shards: usize,
    /// The shards that the hand has passed.
    hand: AtomicUsize,
}

/// Whose states a table holds. Numbers that may change under a live state are no part of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct TableKey {
    pub(crate) time: TimeSource,
    pub(crate) limit: String,
    pub(crate) identity: Identity,
}

/// The table to take a state from.
pub(crate) struct Heaviest {
    pub(crate) table: Arc<dyn AnyTable>,
    /// Whether it is of another limit, which holds more than its fair share.
    pub(crate) is_beyond_its_share: bool,
    /// Whether the limit that wants more has no more than its fair share then.
    pub(crate) leaves_own_within_its_share: bool,
}

/// What each limit that holds something would hold if all held the same.
#[derive(Clone, Copy)]
struct Share {
    limits: usize,
    total: usize,
}

impl Share {
    const fn is_below(self, weight: usize) -> bool {
        weight as u128 * self.limits as u128 > self.total as u128
    }
}

impl TableKey {
    /// Whether it is another policy of the same limit, decided by the same time.
    fn is_of_the_limit_of(&self, other: &Self) -> bool {
        self.limit == other.limit && self.time == other.time
    }
}

impl Ring {
    pub(crate) const fn new(shards: usize) -> Self {
        Self { tables: RwLock::new(Vec::new()), shards, hand: AtomicUsize::new(0) }
    }

    /// Shards of all tables.
    #[cfg(test)]
    pub(crate) fn shards(&self) -> usize {
        self.read().len() * self.shards
    }

    pub(crate) fn get(&self, key: &TableKey) -> Option<Arc<dyn AnyTable>> {
        self.read().iter().find(|(other, _)| other == key).map(|(_, table)| Arc::clone(table))
    }

    pub(crate) fn all(&self, wanted: impl Fn(&TableKey) -> bool) -> Vec<Arc<dyn AnyTable>> {
        let tables = self.read();
        tables.iter().filter(|(key, _)| wanted(key)).map(|(_, table)| Arc::clone(table)).collect()
    }

    /// Puts in a table, in the place of another one with its key.
    pub(crate) fn put(&self, key: TableKey, table: Arc<dyn AnyTable>) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let old = match tables.iter_mut().find(|(other, _)| *other == key) {
            Some((_, place)) => Some(std::mem::replace(place, table)),
            None => {
                // Those of one limit are neighbours.
                let of_the_limit = |(other, _): &(TableKey, _)| key.is_of_the_limit_of(other);
                let last = tables.iter().rposition(of_the_limit);
                let place = last.map_or(tables.len(), |last| last + 1);
                tables.insert(place, (key, table));
                None
            }
        };
        drop(tables);
        drop(old);
    }

    /// Takes out the tables that nobody wants, who asks without waiting for a shard.
    pub(crate) fn forget(&self, unwanted: impl Fn(&TableKey, &Arc<dyn AnyTable>) -> bool) {
        if !self.read().iter().any(|(key, table)| unwanted(key, table)) {
            return;
        }
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = tables.extract_if(.., |(key, table)| unwanted(key, table)).collect();
        // Dropping a table takes its time.
        drop(tables);
        drop(gone);
    }

    /// The table to take a state from when there is too little room, and what its limit holds: the
    /// limit that holds most, and of its policies the one that does. `own` is the table that wants
    /// so much more.
    pub(crate) fn heaviest(&self, short: Short, own: Option<(u64, Load)>) -> Option<Heaviest> {
        let tables = self.read();
        let weight = |table: &dyn AnyTable| {
            let wanted = own.filter(|(id, _)| *id == table.id()).map_or(Load::NONE, |own| own.1);
            (table.load() + wanted).of(short)
        };
        let (mut heaviest, mut most, mut own_weight) = (None, 0, 0);
        let (mut limits, mut total) = (0, 0_usize);
        for limit in tables.chunk_by(|(one, _), (other, _)| one.is_of_the_limit_of(other)) {
            let (mut sum, mut heaviest_here, mut is_own) = (0_usize, None, false);
            for (_, table) in limit {
                let weight = weight(&**table);
                sum += weight;
                is_own |= own.is_some_and(|(id, _)| id == table.id());
                if weight > 0 && heaviest_here.is_none_or(|(other, _)| weight > other) {
                    heaviest_here = Some((weight, table));
                }
            }
            limits += usize::from(sum > 0);
            total = total.saturating_add(sum);
            if is_own {
                own_weight = sum;
            }
            if sum > most || (is_own && sum == most) {
                (most, heaviest) = (sum, heaviest_here.map(|(_, table)| (table, is_own)));
            }
        }
        let share = Share { limits, total };
        heaviest.map(|(table, is_own)| Heaviest {
            table: Arc::clone(table),
            is_beyond_its_share: !is_own && share.is_below(most),
            leaves_own_within_its_share: !share.is_below(own_weight),
        })
    }

    /// The shard that the hand points to, with what the hand has passed.
    pub(crate) fn current(&self) -> Option<(Arc<dyn AnyTable>, usize, usize)> {
        let tables = self.read();
        let passed = self.hand.load(Ordering::Relaxed);
        let (table, shard) = self.at(&tables, passed)?;
        Some((Arc::clone(table), shard, passed))
    }

    /// Moves the hand on, unless another thread has.
    pub(crate) fn pass(&self, passed: usize) {
        let next = passed.wrapping_add(1);
        let _ = self.hand.compare_exchange(passed, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Moves the hand over so many shards, one round at most, until `visit` gives something. It
    /// must not wait for a shard.
    pub(crate) fn visit<T>(
        &self,
        visits: usize,
        mut visit: impl FnMut(&dyn AnyTable, usize) -> Option<T>,
    ) -> Option<T> {
        let tables = self.read();
        (0..visits.min(tables.len() * self.shards)).find_map(|_| {
            let (table, shard) = self.next(&tables)?;
            visit(&**table, shard)
        })
    }

    fn next<'a>(
        &self,
        tables: &'a [(TableKey, Arc<dyn AnyTable>)],
    ) -> Option<(&'a Arc<dyn AnyTable>, usize)> {
        self.at(tables, self.hand.fetch_add(1, Ordering::Relaxed))
    }

    fn at<'a>(
        &self,
        tables: &'a [(TableKey, Arc<dyn AnyTable>)],
        passed: usize,
    ) -> Option<(&'a Arc<dyn AnyTable>, usize)> {
        let table = (passed / self.shards).checked_rem(tables.len())?;
        Some((&tables[table].1, passed % self.shards))
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<(TableKey, Arc<dyn AnyTable>)>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}
