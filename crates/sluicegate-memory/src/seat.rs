//! An opened limit's share in the table of one policy.

use std::sync::Arc;

use sluicegate_core::Cost;

use crate::cell::Cell;
use crate::scales::Tag;
use crate::table::Table;

/// An opened limit's share in the table of one policy.
pub(crate) struct SeatOf<C: Cell> {
    pub(crate) table: Arc<Table<C>>,
    pub(crate) rule: C::Kernel,
    /// The scale its states are written in.
    pub(crate) tag: Tag,
    /// What a request costs that doesn't say.
    pub(crate) own_cost: u64,
}

impl<C: Cell> SeatOf<C> {
    /// A seat at a table that is there, or at a new one: also when the table has seen more scales
    /// than it can tell apart.
    pub(crate) fn at(
        there: Option<Arc<Table<C>>>,
        rule: &C::Kernel,
        own_cost: Cost,
        make: impl FnOnce() -> Arc<Table<C>>,
    ) -> Self {
        let tagged = there.and_then(|table| Some((C::tag_for(rule, table.scales())?, table)));
        let (tag, table) = tagged.unwrap_or_else(|| {
            let table = make();
            (C::tag_for(rule, table.scales()).unwrap_or(Tag::NONE), table)
        });
        table.join(rule);
        Self { table, rule: rule.clone(), tag, own_cost: own_cost.get() }
    }
}

impl<C: Cell> Drop for SeatOf<C> {
    fn drop(&mut self) {
        self.table.leave(&self.rule);
    }
}
