//! The results of a simulation as JSON.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use sluicegate_client::json::key_fields;
use sluicegate_core::Timestamp;
use sluicegate_replay::{ComparedKey, Comparison};

/// The results of a simulation.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Simulation {
    /// The time that the decisions cover.
    pub(crate) covers_ms: u64,
    /// `recorder` or `log`.
    pub(crate) from: String,
    /// Number of decisions that were read, of all limits.
    pub(crate) decisions: u64,
    /// Number of decisions that are known to be missing.
    pub(crate) left_out: u64,
    pub(crate) sampled: bool,
    pub(crate) estimated: bool,
    pub(crate) limits: Vec<LimitAnswer>,
}

/// The results of a limit.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct LimitAnswer {
    pub(crate) limit: String,
    pub(crate) requests: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) was_denied: u64,
    pub(crate) newly_denied: u64,
    pub(crate) newly_allowed: u64,
    /// Number of keys with newly denied requests.
    pub(crate) keys_newly_denied: u64,
    /// Policies that a simulation can't play.
    pub(crate) unplayed: Vec<String>,
    pub(crate) keys: Vec<KeyAnswer>,
    pub(crate) timeline: TimelineAnswer,
}

/// The results of a key.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct KeyAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The bytes of a key that isn't text, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_bytes: Option<String>,
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    pub(crate) newly_denied: u64,
    pub(crate) newly_allowed: u64,
    pub(crate) first_denied_ms_ago: Option<u64>,
    pub(crate) last_denied_ms_ago: Option<u64>,
}

/// Requests over time, the oldest first.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct TimelineAnswer {
    pub(crate) step_ms: u64,
    pub(crate) denied: Vec<u64>,
    pub(crate) newly_denied: Vec<u64>,
    pub(crate) was_denied: Vec<u64>,
}

impl LimitAnswer {
    /// Returns the results of a limit without requests.
    pub(super) fn empty(name: &str, unplayed: Vec<String>) -> Self {
        Self::new(name, &Comparison::default(), unplayed, 0)
    }

    /// Returns the results. `now` is in µs since the epoch.
    pub(super) fn new(
        name: &str,
        comparison: &Comparison,
        unplayed: Vec<String>,
        now: u64,
    ) -> Self {
        let Comparison { requests, denied, errors, .. } = *comparison;
        Self {
            limit: name.to_owned(),
            requests,
            allowed: requests.saturating_sub(denied).saturating_sub(errors),
            denied,
            was_denied: comparison.was_denied,
            newly_denied: comparison.newly_denied,
            newly_allowed: comparison.newly_allowed,
            keys_newly_denied: comparison.keys_newly_denied,
            unplayed,
            keys: comparison.keys.iter().map(|key| KeyAnswer::new(key, now)).collect(),
            timeline: TimelineAnswer {
                step_ms: comparison.bucket_us.div_ceil(1_000),
                denied: comparison.denied_in.clone(),
                newly_denied: comparison.newly_denied_in.clone(),
                was_denied: comparison.was_denied_in.clone(),
            },
        }
    }
}

impl KeyAnswer {
    /// Maximum number of keys of a limit.
    pub(super) const MOST: usize = 100;

    fn new(compared: &ComparedKey, now: u64) -> Self {
        let (key, key_bytes) = key_fields(Some(&compared.key));
        let ago = |at: Timestamp| now.saturating_sub(at.as_micros()) / 1_000;
        Self {
            key: key.map(Cow::into_owned),
            key_bytes,
            requests: compared.requests,
            denied: compared.denied,
            newly_denied: compared.newly_denied,
            newly_allowed: compared.newly_allowed,
            first_denied_ms_ago: compared.first_denied.map(ago),
            last_denied_ms_ago: compared.last_denied.map(ago),
        }
    }
}
