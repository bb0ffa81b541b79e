//! How many requests wait for units at once.

use tokio::sync::{Semaphore, SemaphorePermit};

/// Lets a bounded number of requests wait. Each keeps a connection, and a crowd that waits must not
/// take all of them.
#[derive(Debug)]
pub(super) struct Waiting {
    most: usize,
    free: Semaphore,
}

impl Waiting {
    /// At most so many wait, and at most every second of so many connections.
    pub(super) fn new(most: usize, connections: usize) -> Self {
        let most = most.min(connections / 2).min(Semaphore::MAX_PERMITS);
        Self { most, free: Semaphore::new(most) }
    }

    /// A place to wait at, which is free again when it is dropped; `None` if all are taken.
    pub(super) fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.free.try_acquire().ok()
    }

    /// How many places are taken.
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
