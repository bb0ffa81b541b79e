//! The directory of tables, by time source, limit and policy.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_core::TimeSource;
use sluicegate_core::for_stores::Identity;

use crate::share::{AnyTable, Share};

/// All tables of opened limits, and the tables that still hold states of closed limits.
#[derive(Default)]
pub(crate) struct Directory(HashMap<TimeSource, Run>);

/// The tables of one time source.
#[derive(Default)]
struct Run {
    /// Number of opened limits.
    handles: usize,
    limits: HashMap<Box<str>, LimitTables>,
}

/// The tables of one limit. If only numbers change that live states support, the policy keeps its
/// table.
pub(crate) struct LimitTables {
    share: Arc<Share>,
    tables: Vec<(Identity, Arc<dyn AnyTable>)>,
}

impl Directory {
    /// Registers an opened limit.
    pub(crate) fn enter(&mut self, time: &TimeSource) {
        self.run(time).handles += 1;
    }

    /// Unregisters an opened limit. Returns the tables of a run of injected time with its last
    /// limit, because dropping them takes time.
    pub(crate) fn leave(&mut self, time: &TimeSource) -> Option<impl Sized + use<>> {
        let run = self.0.get_mut(time)?;
        run.handles -= 1;
        let is_over = run.handles == 0 && *time != TimeSource::Store;
        is_over.then(|| self.0.remove(time)).flatten()
    }

    /// Returns the tables of a limit, for adding one.
    pub(crate) fn limit(&mut self, time: &TimeSource, limit: &str) -> &mut LimitTables {
        let limit = self.run(time).limits.entry(limit.into());
        limit.or_insert_with_key(|limit| LimitTables {
            share: Arc::new(Share::of(time.clone(), limit.clone())),
            tables: Vec::new(),
        })
    }

    /// Returns all tables of a limit.
    pub(crate) fn all_of(&self, time: &TimeSource, limit: &str) -> Vec<Arc<dyn AnyTable>> {
        let tables = self.0.get(time).and_then(|run| run.limits.get(limit));
        let tables = tables.into_iter().flat_map(|limit| &limit.tables);
        tables.map(|(_, table)| Arc::clone(table)).collect()
    }

    /// Removes a table that holds nothing and that no limit has open.
    pub(crate) fn forget(&mut self, table: &dyn AnyTable) -> Option<Arc<dyn AnyTable>> {
        let (time, limit) = table.share().owner();
        let limits = &mut self.0.get_mut(time)?.limits;
        let tables = &mut limits.get_mut(limit)?.tables;
        let index = tables.iter().position(|(_, other)| other.id() == table.id())?;
        let forgotten = tables[index].1.is_unused().then(|| tables.swap_remove(index).1);
        if tables.is_empty() {
            limits.remove(limit);
        }
        forgotten
    }

    fn run(&mut self, time: &TimeSource) -> &mut Run {
        self.0.entry(time.clone()).or_default()
    }

    /// Returns the number of tables.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let limits = self.0.values().flat_map(|run| run.limits.values());
        limits.map(|limit| limit.tables.len()).sum()
    }
}

impl LimitTables {
    pub(crate) const fn share(&self) -> &Arc<Share> {
        &self.share
    }

    pub(crate) fn get(&self, policy: Identity) -> Option<&Arc<dyn AnyTable>> {
        self.tables.iter().find(|(identity, _)| *identity == policy).map(|(_, table)| table)
    }

    /// Adds a table, which replaces the policy's existing one.
    pub(crate) fn put(&mut self, policy: Identity, table: Arc<dyn AnyTable>) {
        self.tables.retain(|(identity, _)| *identity != policy);
        self.tables.push((policy, table));
    }
}
