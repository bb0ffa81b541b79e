//! A bound on what happens within a second.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of decisions of a second that may still be kept.
#[derive(Debug)]
pub(super) struct Budget {
    a_second: u64,
    /// The second in the upper half, and the number taken of it in the lower one.
    state: AtomicU64,
}

impl Budget {
    /// Returns a budget of `a_second` for each second; a larger one than 2^32 − 1 counts as that.
    pub(super) fn new(a_second: u64) -> Self {
        Self { a_second: a_second.min(Self::TAKEN), state: AtomicU64::new(0) }
    }

    const TAKEN: u64 = (1 << 32) - 1;

    /// Takes one of a second. Returns `false` if there are none left.
    pub(super) fn take(&self, second: u64) -> bool {
        let next = |state: u64| {
            // A thread that is late takes from the newest second.
            let second = (second & Self::TAKEN).max(state >> 32);
            let taken = if state >> 32 == second { state & Self::TAKEN } else { 0 };
            (taken < self.a_second).then(|| second << 32 | (taken + 1))
        };
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_second_the_first_are_taken() {
        let budget = Budget::new(1_000);
        let taken = |second| (0..2_000).filter(|_| budget.take(second)).count();
        assert_eq!([taken(0), taken(0), taken(1), taken(7)], [1_000, 0, 1_000, 1_000]);
        assert!(!Budget::new(0).take(3));
    }
}
