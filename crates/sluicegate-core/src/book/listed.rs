//! What a list shows of a book.

use super::Book;
use crate::hold::HoldId;
use crate::limit::Identity;

impl Book {
    /// What is held and was not settled, after a place in the order of ends and ids: its id, when it ends, in
    /// µs since the epoch, and its units.
    pub(crate) fn live_after(
        &self,
        place: (u64, HoldId),
    ) -> impl Iterator<Item = (HoldId, u64, impl Iterator<Item = (Identity, u64)> + Clone)> {
        let live = self.records.after(place).filter(|(_, record)| record.is_live());
        live.map(|(id, record)| (id, record.until, record.units()))
    }

    /// How many wait for permits.
    pub(crate) fn waiting_at(&self, now: u64) -> u64 {
        self.tickets().live(now) as u64
    }
}
