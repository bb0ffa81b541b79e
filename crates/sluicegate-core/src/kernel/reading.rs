//! What a store says of a log that it judged itself.

use super::Verdict;

/// What a store says of a log or ring that stays where it is: too large to be handed over, it was
/// judged and charged there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    /// Whether the cost passes.
    pub verdict: Verdict,
    /// The strategies that refuse, as bits.
    pub violated: u32,
    /// Whether the state was stamped too far ahead of now and was restamped.
    pub restamped: bool,
    /// The largest cost that would have been admitted before the decision.
    pub remaining_before: u64,
    /// The same after it.
    pub remaining: u64,
    /// The time until the last entry has left, in µs.
    pub reset_after: u64,
    /// The units that count now over the longest window.
    pub total: u64,
    /// The units in the current slice.
    pub current: u64,
}
