//! The parts of a book that lists show.

use super::Book;
use crate::hold::HoldId;
use crate::limit::Identity;

impl Book {
    /// Returns the holds after a position in the order of ends and ids, without settled ones.
    ///
    /// Each has its id, its end in µs since the epoch, and its units.
    pub(crate) fn live_after(
        &self,
        place: (u64, HoldId),
    ) -> impl Iterator<Item = (HoldId, u64, impl Iterator<Item = (Identity, u64)> + Clone)> {
        let live = self.records.after(place).filter(|(_, record)| record.is_live());
        live.map(|(id, record)| (id, record.until, record.units()))
    }

    /// Returns the number of waiters for permits.
    pub(crate) fn waiting_at(&self, now: u64) -> u64 {
        self.tickets().live(now) as u64
    }
}
