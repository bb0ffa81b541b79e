//! A policy or limit in a report.

use crate::counts::Counts;

/// A policy or a limit that decided the requests.
#[derive(Clone, Debug)]
pub struct Subject<'r> {
    pub(crate) heading: String,
    pub(crate) is_shadow: bool,
    pub(crate) counts: &'r Counts,
}

impl Subject<'_> {
    /// What to call it: the spec of a policy, or `limit` and the name of the limit.
    #[must_use]
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// Whether it is reported as if it were enforced alone, but denies nothing.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// The requests of the log.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// How many of them it allowed.
    #[must_use]
    pub const fn allowed(&self) -> u64 {
        self.counts.allowed
    }

    /// How many of them it denied.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.counts.denied
    }

    /// Requests without a decision, because no state can hold their cost.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.counts.errors
    }

    /// The keys of the log.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.counts.keys
    }

    /// How many of them had a request that it denied.
    #[must_use]
    pub const fn keys_denied(&self) -> u64 {
        self.counts.keys_denied
    }
}
