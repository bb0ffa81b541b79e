//! The list of tables that hold states, and the hand that goes round it.

use std::ptr;
use std::sync::{Arc, Weak};

use crate::lock::Lock;
use crate::share::AnyTable;

/// The tables that hold states. A table is listed with its first state. The hand removes a table
/// that it finds empty. So tables without states cost no time, regardless of their number.
#[derive(Default)]
pub(crate) struct Occupied(Lock<List>);

#[derive(Default)]
struct List {
    tables: Vec<Weak<dyn AnyTable>>,
    hand: usize,
}

impl Occupied {
    /// Lists a table that has marked itself as listed.
    pub(crate) fn add(&self, table: Weak<dyn AnyTable>) {
        self.0.lock().tables.push(table);
    }

    /// Returns the table at the hand.
    pub(crate) fn current(&self) -> Option<Arc<dyn AnyTable>> {
        let mut list = self.0.lock();
        loop {
            if list.hand >= list.tables.len() {
                list.hand = 0;
            }
            let hand = list.hand;
            match list.tables.get(hand)?.upgrade() {
                Some(table) => return Some(table),
                None => drop(list.tables.swap_remove(hand)),
            }
        }
    }

    /// Moves the hand past a table, unless another thread has.
    pub(crate) fn pass(&self, table: &Arc<dyn AnyTable>) {
        let mut list = self.0.lock();
        if list.is_at(table) {
            list.hand += 1;
        }
    }

    /// Removes the table at the hand, if it is this one and empty, and returns whether it did.
    pub(crate) fn remove_if_empty(&self, table: &Arc<dyn AnyTable>) -> bool {
        let mut list = self.0.lock();
        let is_empty = list.is_at(table) && table.unlist();
        if is_empty {
            let hand = list.hand;
            list.tables.swap_remove(hand);
        }
        is_empty
    }

    /// Returns up to `most` tables, starting at the hand.
    pub(crate) fn some(&self, most: usize) -> Vec<Arc<dyn AnyTable>> {
        let list = self.0.lock();
        let (before, after) = list.tables.split_at(list.hand.min(list.tables.len()));
        after.iter().chain(before).filter_map(Weak::upgrade).take(most).collect()
    }
}

impl List {
    fn is_at(&self, table: &Arc<dyn AnyTable>) -> bool {
        let here = self.tables.get(self.hand).map(Weak::as_ptr);
        here.is_some_and(|here| ptr::addr_eq(here, Arc::as_ptr(table)))
    }
}
