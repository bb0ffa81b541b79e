//! The model's answers.

use sluicegate_core::Queued;
use sluicegate_core::for_stores::Lease;

use crate::algorithms::Retry;

/// One decision. All durations count from the evaluation time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Answer {
    /// Whether every enforced policy admits.
    pub allowed: bool,
    /// On a denial, the enforced policy with the longest retry-after, the first of equals.
    pub binding: Option<usize>,
    /// On an allow, the microseconds until the caller may act.
    pub wait_us: u64,
    /// The time at which an equal request would pass.
    pub retry: Retry,
    /// For a take, the number of granted units.
    pub granted: Option<u64>,
    /// The units taken ahead for a lease holder.
    pub lease: Option<Lease>,
    /// Whether the decision left the hold record that the request asked for.
    pub holds: bool,
    /// The outcome of a request that may wait.
    pub queued: Option<Queued>,
    /// Whether an earlier request with this id got this answer.
    pub repeat: Repeat,
    /// The ban that refuses the request or begins with it. A ban that refuses leaves no policy
    /// evaluated.
    pub ban: Option<Banned>,
    /// The longest pause that refuses the request, or the pause that it has set. A pause that
    /// refuses leaves no policy evaluated.
    pub pause: Option<Paused>,
    /// For a request that ends pauses, whether there was one.
    pub resumed: Option<bool>,
    /// Whether any state was so far ahead of the clock that it was restamped to now.
    pub restamped: bool,
    /// One answer per policy, in order.
    pub policies: Vec<PolicyAnswer>,
}

/// A ban, as an answer names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Banned {
    /// Time until the end, from the evaluation time.
    pub ends_in_us: u64,
    /// Whether it begins with this answer.
    pub begins: bool,
}

/// A pause, as an answer names it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Paused {
    /// The index of the paused policy; `None` for the whole limit.
    pub policy: Option<usize>,
    /// Time until the end, from the evaluation time.
    pub ends_in_us: u64,
}

/// Whether an answer repeats an earlier one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// A first answer.
    No,
    /// A repeated answer, under unchanged policy numbers.
    Same,
    /// A repeated answer under new policy numbers. Its policies may show either numbers.
    Renumbered,
}

/// The answer of one policy.
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
    /// The time at which this policy would admit the request.
    pub retry: Retry,
    /// Microseconds until the state equals a fresh key's; `None` when it never will.
    pub reset: Option<u64>,
    /// The tiers of a log or ring that refused, in the order given.
    pub violated: Vec<usize>,
    /// For a ring of slices: the count of the current slice.
    pub current_slice: Option<u64>,
    /// For a fixed window, a log or a ring: the units used in the (longest) window.
    pub used: Option<u64>,
    /// Whether the state was so far ahead of the clock that it was restamped to now.
    pub restamped: bool,
}
