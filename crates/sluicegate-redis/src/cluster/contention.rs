//! The slots with conflicts between decisions over several slots.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::time::Instant;

use crate::slot::SLOTS;

/// Seconds for which slots are asked one by one after a conflict.
const SECONDS: u32 = 10;

/// The slots with recent conflicts: some took units that others refused. If requests for such slots ask them
/// all at the same time, they keep taking units from each other that they then give back. If they ask in the
/// order of slots, one request gets through.
#[derive(Debug)]
pub(crate) struct Contention {
    start: Instant,
    /// For each slot the last second, from the start, in which it counts, or 0. Allocated at the first
    /// conflict.
    until: OnceLock<Box<[AtomicU32]>>,
}

impl Contention {
    /// Returns a value without conflicts.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), until: OnceLock::new() }
    }

    /// Returns whether a request should ask these slots one by one.
    pub(crate) fn has(&self, slots: impl IntoIterator<Item = u16>) -> bool {
        let Some(until) = self.until.get() else { return false };
        let now = self.now();
        slots.into_iter().all(|slot| {
            until.get(usize::from(slot)).is_some_and(|until| until.load(Ordering::Relaxed) > now)
        })
    }

    /// Makes requests with these slots ask one by one for 10 s.
    pub(crate) fn add(&self, slots: impl IntoIterator<Item = u16>) {
        let new = || (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
        let until = self.until.get_or_init(new);
        let then = self.now().saturating_add(SECONDS);
        for slot in slots {
            if let Some(until) = until.get(usize::from(slot)) {
                until.store(then, Ordering::Relaxed);
            }
        }
    }

    fn now(&self) -> u32 {
        u32::try_from(self.start.elapsed().as_secs()).unwrap_or(u32::MAX - SECONDS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slots_count_together_and_for_ten_seconds() {
        let contention = Contention::new();
        assert!(!contention.has([1, 2]));
        contention.add([1, 2]);
        assert!(contention.has([1, 2]) && contention.has([2]));
        assert!(!contention.has([1, 2, 3]), "a request that goes elsewhere too may get through");
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(contention.has([1, 2]));
        contention.add([1, 3]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(contention.has([1, 3]) && !contention.has([1, 2]));
        contention.add([SLOTS - 1, SLOTS]);
        assert!(contention.has([SLOTS - 1]) && !contention.has([SLOTS]));
    }
}
