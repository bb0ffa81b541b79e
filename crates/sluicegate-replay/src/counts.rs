//! Counts of requests, in total and over time.

use serde::Serialize;
use sluicegate_core::Timestamp;

use crate::timeline::Timeline;

/// The requests over time, in buckets of equal length.
#[derive(Debug, Serialize)]
pub(crate) struct Offered {
    /// Start of the first bucket.
    pub(crate) from: String,
    /// Length of a bucket in µs.
    pub(crate) bucket_us: u64,
    /// Requests of each bucket.
    pub(crate) offered: Vec<u64>,
    #[serde(skip)]
    pub(crate) buckets: Timeline,
}

/// The results of a policy or a limit.
#[derive(Debug, Serialize)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) keys: u64,
    pub(crate) keys_denied: u64,
    /// Requests without a decision, neither allowed nor denied: no state can hold their cost.
    pub(crate) errors: u64,
    pub(crate) worst_minute: Option<WorstMinute>,
    pub(crate) denied_most: Vec<DeniedKey>,
    pub(crate) timeline: Decided,
}

/// The decisions of a limit compared with those in the log.
#[derive(Debug, Serialize)]
pub(crate) struct Then {
    pub(crate) denied_then: u64,
    pub(crate) newly_denied: u64,
    pub(crate) newly_allowed: u64,
}

/// The results for each bucket of the report's timeline.
#[derive(Debug, Serialize)]
pub(crate) struct Decided {
    pub(crate) allowed: Vec<u64>,
    pub(crate) denied: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct WorstMinute {
    /// Start of the minute.
    pub(crate) time: String,
    pub(crate) denied: u64,
    #[serde(skip)]
    pub(crate) at: Timestamp,
}

#[derive(Debug, Serialize)]
pub(crate) struct DeniedKey {
    pub(crate) key: String,
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) worst_minute: WorstMinute,
    /// Spec that would have admitted all requests of the key; for a limit, the specs of the
    /// policies that need other numbers. `None` if no number would.
    pub(crate) needed: Option<String>,
}
