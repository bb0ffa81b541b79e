//! All tables of a store, in a ring that one hand goes round.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use sluicegate_core::{Identity, TimeSource};

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

impl Ring {
    pub(crate) const fn new(shards: usize) -> Self {
        Self { tables: RwLock::new(Vec::new()), shards, hand: AtomicUsize::new(0) }
    }

    /// Shards of all tables.
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
                tables.push((key, table));
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

    /// The shard that the hand points to; moves the hand to the next.
    pub(crate) fn advance(&self) -> Option<(Arc<dyn AnyTable>, usize)> {
        let tables = self.read();
        self.next(&tables).map(|(table, shard)| (Arc::clone(table), shard))
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
        let passed = self.hand.fetch_add(1, Ordering::Relaxed);
        let table = (passed / self.shards).checked_rem(tables.len())?;
        Some((&tables[table].1, passed % self.shards))
    }

    fn read(&self) -> RwLockReadGuard<'_, Vec<(TableKey, Arc<dyn AnyTable>)>> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}
