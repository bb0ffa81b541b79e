//! A policy of an opened limit: its rule and the table of its states.

use std::sync::Arc;

use sluicegate_core::for_stores::Identity;
use sluicegate_core::{Cost, Costs};

use crate::budget::Load;
use crate::cell::Cell;
use crate::registry::Tables;
use crate::scales::Tag;
use crate::share::AnyTable;
use crate::table::Table;

/// A policy of an opened limit.
pub(crate) struct OpenedPolicy<C: Cell> {
    pub(crate) table: Arc<Table<C>>,
    pub(crate) rule: C::Rule,
    /// The scale of newly written states.
    pub(crate) tag: Tag,
    /// The cost of a request without an explicit cost.
    pub(crate) own_cost: Cost,
}

impl<C: Cell> OpenedPolicy<C> {
    /// Finds the table of the policy, or makes one: also if the table has seen too many scales to
    /// add another. `first` is the load of one key of the policy.
    pub(crate) fn open(
        tables: &mut Tables<'_>,
        limit: &str,
        policy: Identity,
        rule: &C::Rule,
        own_cost: Cost,
        first: Load,
    ) -> Self {
        let there = tables.get::<C>(limit, policy);
        let tagged = there.and_then(|table| Some((C::tag_for(rule, table.scales())?, table)));
        let (tag, table) = tagged.unwrap_or_else(|| {
            let table = tables.make(limit, policy, first);
            (C::tag_for(rule, table.scales()).unwrap_or(Tag::NONE), table)
        });
        table.join(rule);
        Self { table, rule: rule.clone(), tag, own_cost }
    }
}

impl<C: Cell> OpenedPolicy<C> {
    /// Returns the cost of a request, unless it has a list of costs.
    #[inline(always)]
    pub(crate) const fn plain_cost(&self, costs: Costs<'_>) -> Option<Cost> {
        match costs {
            Costs::Own => Some(self.own_cost),
            Costs::Same(cost) => Some(cost),
            _ => None,
        }
    }
}

impl<C: Cell> OpenedPolicy<C> {
    /// Unregisters the limit from the table. Returns the table if no other limit has it open.
    pub(crate) fn leave(&self) -> Option<&dyn AnyTable> {
        self.table.leave(&self.rule).then_some(&*self.table as _)
    }
}
