//! What the model answers.

use sluicegate_core::Queued;
use sluicegate_core::for_stores::Lease;

use crate::algorithms::Retry;

/// One decision. All durations count from the time of judgement.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Whether every enforced policy admits.
    pub allowed: bool,
    /// On a denial, the enforced policy with the longest retry-after, the first of equals.
    pub binding: Option<usize>,
    /// On an allow, the microseconds until the caller may act.
    pub wait_us: u64,
    /// When the same request would pass.
    pub retry: Retry,
    /// For "take up to n": how many units were granted.
    pub granted: Option<u64>,
    /// What was taken ahead for who asked.
    pub lease: Option<Lease>,
    /// Whether it left a record of what it took, for who asked for one.
    pub holds: bool,
    /// What became of a request that was to wait.
    pub queued: Option<Queued>,
    /// Whether it was given before, to a request with the same id.
    pub repeat: Repeat,
    /// The ban that refuses the request, or begins with it. Where one refuses, no policy is asked.
    pub ban: Option<Banned>,
    /// Whether anything lay so far ahead of the clock that it was restamped to now.
    pub restamped: bool,
    /// One answer per policy, in their order.
    pub policies: Vec<PolicyAnswer>,
}

/// A ban, as an answer names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Banned {
    /// When it ends, from the time of judgement.
    pub ends_in_us: u64,
    /// Whether it begins with this answer.
    pub begins: bool,
}

/// Whether an answer is one that was given before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// It is not.
    No,
    /// It is, by the numbers that the policies have.
    Same,
    /// It is, and the policies have other numbers now: what it says of them may be by either.
    Renumbered,
}

/// What one policy says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyAnswer {
    /// Whether this policy admits the request.
    pub admitted: bool,
    /// The largest cost a fresh key admits; `None` when there is no bound.
    pub limit: Option<u64>,
    /// The largest cost that would be admitted after this decision; `None` when there is no bound.
    pub remaining: Option<u64>,
    /// This policy's own wait in microseconds, if it admits.
    pub wait_us: u64,
    /// When this policy would admit the request.
    pub retry: Retry,
    /// Microseconds until the state equals a fresh key's; `None` when it never will.
    pub reset: Option<u64>,
    /// The tiers of a log or ring that refused, in the order given.
    pub violated: Vec<usize>,
    /// For a ring of slices: the count of the current slice.
    pub current_slice: Option<u64>,
    /// For a ring of slices: the count of the whole window.
    pub total: Option<u64>,
    /// Whether the state lay so far ahead of the clock that it was restamped to now.
    pub restamped: bool,
}
