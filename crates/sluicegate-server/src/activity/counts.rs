//! Numbers of decisions by their outcome.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Numbers of decisions by their outcome.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    /// The part of the allowed ones that a shadow policy would have denied.
    pub(crate) shadow_denied: u64,
}

/// Counts decisions in many threads.
#[derive(Debug, Default)]
pub(super) struct Counters([AtomicU64; 3]);

impl Counts {
    pub(crate) const fn is_zero(self) -> bool {
        self.allowed == 0 && self.denied == 0 && self.shadow_denied == 0
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            allowed: self.allowed.saturating_add(other.allowed),
            denied: self.denied.saturating_add(other.denied),
            shadow_denied: self.shadow_denied.saturating_add(other.shadow_denied),
        }
    }

    pub(crate) const fn minus(self, earlier: Self) -> Self {
        Self {
            allowed: self.allowed.saturating_sub(earlier.allowed),
            denied: self.denied.saturating_sub(earlier.denied),
            shadow_denied: self.shadow_denied.saturating_sub(earlier.shadow_denied),
        }
    }

    /// Returns the counts per second, if they are those of some milliseconds.
    pub(crate) fn per_second(self, millis: u64) -> Self {
        let rate = |count: u64| {
            let rate = u128::from(count) * 1_000 / u128::from(millis.max(1));
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        let Self { allowed, denied, shadow_denied } = self;
        Self { allowed: rate(allowed), denied: rate(denied), shadow_denied: rate(shadow_denied) }
    }
}

impl Counters {
    /// Adds counts. Zeros cost nothing.
    #[inline]
    pub(super) fn add(&self, counts: Counts) {
        let Counts { allowed, denied, shadow_denied } = counts;
        for (counter, count) in self.0.iter().zip([allowed, denied, shadow_denied]) {
            if count > 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn get(&self) -> Counts {
        let [allowed, denied, shadow_denied] =
            [0, 1, 2].map(|index| self.0.get(index).map_or(0, |it| it.load(Ordering::Relaxed)));
        Counts { allowed, denied, shadow_denied }
    }
}
