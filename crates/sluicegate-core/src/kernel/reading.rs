//! The report of a store about a log that it evaluated itself.

use super::{Report, Verdict};

/// The report of a store about a log or ring that is too large to transfer, which the store
/// evaluated and charged itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    /// The evaluation time, in µs since the epoch.
    pub judged_at: u64,
    /// Whether the cost passes.
    pub verdict: Verdict,
    /// The tiers that refuse, as bits.
    pub violated: u32,
    /// Whether the state was stamped too far ahead of now and was restamped.
    pub restamped: bool,
    /// The largest cost that would have passed before the decision.
    pub remaining_before: u64,
    /// The largest cost that would pass after it.
    pub remaining: u64,
    /// The time until the last entry leaves the longest window, in µs.
    pub reset_after: u64,
    /// The units that count within the longest window.
    pub used: u64,
    /// The units in the current slice.
    pub current: u64,
    /// The units that a refund gave back.
    pub given_back: u64,
}

impl Reading {
    /// Returns a summary of the log.
    pub(super) const fn report(&self) -> Report {
        Report {
            evaluated_at: self.judged_at,
            remaining: self.remaining,
            reset: self.reset_after,
            used: self.used,
            current: self.current,
        }
    }
}
