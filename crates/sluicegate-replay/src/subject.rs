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
    /// Returns the heading: the spec of a policy, or `limit` and the name of the limit.
    #[must_use]
    pub fn heading(&self) -> &str {
        &self.heading
    }

    /// Returns `true` for a shadow policy, which is reported as if it were enforced alone but
    /// denies nothing.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.is_shadow
    }

    /// Returns the number of requests in the log.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.counts.requests
    }

    /// Returns the number of allowed requests.
    #[must_use]
    pub const fn allowed(&self) -> u64 {
        self.counts.allowed
    }

    /// Returns the number of denied requests.
    #[must_use]
    pub const fn denied(&self) -> u64 {
        self.counts.denied
    }

    /// Returns the number of requests without a decision, because no state can hold their cost.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.counts.errors
    }

    /// Returns the number of keys in the log.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.counts.keys
    }

    /// Returns the number of keys with a denied request.
    #[must_use]
    pub const fn keys_denied(&self) -> u64 {
        self.counts.keys_denied
    }
}
