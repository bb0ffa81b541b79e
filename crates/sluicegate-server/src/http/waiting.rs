//! A bound on the requests that wait for units at the same time.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Lets a bounded number of requests wait. Each keeps a connection, and waiting requests must not
/// use all connections.
#[derive(Debug)]
pub(crate) struct Waiting {
    most: usize,
    free: Semaphore,
}

impl Waiting {
    /// Creates `most` places to wait, limited to half of the connections.
    pub(crate) fn new(most: usize, connections: usize) -> Self {
        let most = most.min(connections / 2).min(Semaphore::MAX_PERMITS);
        Self { most, free: Semaphore::new(most) }
    }

    /// Returns a place to wait, which is free again when dropped; `None` if all are taken.
    pub(super) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire().ok()
    }

    /// Returns the number of places.
    pub(super) const fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of taken places.
    pub(super) fn taken(&self) -> usize {
        self.most.saturating_sub(self.free.available_permits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_and_leave_half_of_the_connections() {
        let waiting = Waiting::new(2, 100);
        let both = [waiting.place(), waiting.place()];
        assert!(both.iter().all(Option::is_some) && waiting.place().is_none());
        assert_eq!(waiting.taken(), 2);
        drop(both);
        assert_eq!((waiting.taken(), waiting.place().is_some()), (0, true));
        let few = Waiting::new(1_000, 3);
        assert!(few.place().is_some_and(|_place| few.place().is_none()));
        assert!(Waiting::new(1_000, 1).place().is_none());
    }
}
