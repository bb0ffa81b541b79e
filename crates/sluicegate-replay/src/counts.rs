//! Counts of requests, in all and over time.

use serde::Serialize;
use sluicegate_core::Timestamp;

use crate::timeline::Timeline;

/// The requests over time, in buckets of equal length.
#[derive(Debug, Serialize)]
pub(crate) struct Offered {
    /// When the first bucket begins.
    pub(crate) from: String,
    /// The µs of a bucket.
    pub(crate) bucket_us: u64,
    /// The requests of each bucket.
    pub(crate) offered: Vec<u64>,
    #[serde(skip)]
    pub(crate) buckets: Timeline,
}

/// What a policy or a limit made of the requests.
#[derive(Debug, Serialize)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) keys: u64,
    pub(crate) keys_denied: u64,
    /// Denied requests whose cost is beyond what the policy's state can hold.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) beyond: u64,
    pub(crate) worst_minute: Option<WorstMinute>,
    pub(crate) denied_most: Vec<DeniedKey>,
    pub(crate) timeline: Decided,
}

/// What came of the requests of each bucket of the report's timeline.
#[derive(Debug, Serialize)]
pub(crate) struct Decided {
    pub(crate) allowed: Vec<u64>,
    pub(crate) denied: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub(crate) struct WorstMinute {
    /// When the minute begins.
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
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
