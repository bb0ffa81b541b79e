//! The numbers that would have admitted every request of a key.
//!
//! A policy with the largest number that its algorithm allows admits everything. The units used
//! after a request are the number that this request needs. The maximum over a key's requests is the
//! number that the key needs. With that number all requests are admitted too, so the states are the
//! same.

use std::collections::HashMap;

use sluicegate_core::{Algorithm, LogTier, MAX_EXACT, Policy};

/// The policies of a limit, in its order, with numbers that admit every request of a key; by key
/// number. `None` for a policy without such a number.
pub(crate) type Needs = HashMap<u32, Vec<Option<Policy>>>;

/// Splits a policy into parts of one number each: one for each tier of a log, otherwise the policy
/// itself.
///
/// Returns no parts if no number is responsible for refusals: smooth and warm-up policies admit a
/// cost of any size, at the rate.
pub(crate) fn widest(policy: &Policy) -> Vec<Policy> {
    let parts = match policy.algorithm() {
        Algorithm::SlidingLog { tiers } => {
            let alone = |&tier| Algorithm::SlidingLog { tiers: vec![tier] };
            tiers.iter().map(alone).collect()
        }
        algorithm => vec![algorithm.clone()],
    };
    let largest = |part: &Algorithm| {
        // The largest number depends on the rate; a number within a factor of 2 of it is enough.
        let numbers = (0..53).map(|halvings| MAX_EXACT >> halvings);
        numbers.filter_map(|number| policy.with_algorithm(with_number(part, number)?).ok()).next()
    };
    parts.iter().map(largest).collect::<Option<_>>().unwrap_or_default()
}

/// Raises the numbers of a policy to at least `needs`, which has one for each part of [`widest`].
/// Returns `None` if the policy can't have such a number.
pub(crate) fn raised(policy: &Policy, needs: &[u64]) -> Option<Policy> {
    let algorithm = match policy.algorithm() {
        Algorithm::SlidingLog { tiers } => {
            let raised = tiers
                .iter()
                .zip(needs)
                .map(|(tier, &need)| LogTier { limit: tier.limit.max(need), ..*tier });
            Algorithm::SlidingLog { tiers: raised.collect() }
        }
        algorithm => with_number(algorithm, number(algorithm)?.max(*needs.first()?))?,
    };
    policy.with_algorithm(algorithm).ok()
}

/// Returns the number of units that a fresh key can take.
fn number(algorithm: &Algorithm) -> Option<u64> {
    Some(match algorithm {
        Algorithm::TokenBucket { burst: number, .. }
        | Algorithm::Gcra { burst: number, .. }
        | Algorithm::LeakyBucket { capacity: number, .. }
        | Algorithm::FixedWindow { limit: number, .. }
        | Algorithm::SlidingWindow { limit: number, .. }
        | Algorithm::SlidingCounter { limit: number, .. }
        | Algorithm::Concurrency { permits: number, .. } => *number,
        Algorithm::Shaper { queue, .. } => queue + 1,
        _ => return None,
    })
}

/// Replaces the [`number`] of an algorithm; returns `None` if it has none, or several.
pub(crate) fn with_number(algorithm: &Algorithm, number: u64) -> Option<Algorithm> {
    let mut algorithm = algorithm.clone();
    match &mut algorithm {
        Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst, .. } => *burst = number,
        Algorithm::LeakyBucket { capacity, .. } => *capacity = number,
        Algorithm::Shaper { queue, .. } => *queue = number.checked_sub(1)?,
        Algorithm::FixedWindow { limit, .. }
        | Algorithm::SlidingWindow { limit, .. }
        | Algorithm::SlidingCounter { limit, .. } => *limit = number,
        Algorithm::Concurrency { permits, .. } => *permits = number,
        Algorithm::SlidingLog { tiers } => match &mut tiers[..] {
            [tier] => tier.limit = number,
            _ => return None,
        },
        _ => return None,
    }
    Some(algorithm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_raised_and_never_lowered() {
        for (spec, needs, expected) in [
            ("fixed_window 10/h aligned", &[7][..], Some("fixed_window 10/h aligned")),
            ("token_bucket 1/s burst 3 cost 2", &[9], Some("token_bucket 1/s burst 9 cost 2")),
            ("shaper 5/s queue 2", &[9], Some("shaper 5/s queue 8")),
            ("sliding_log 2/s and 9/h", &[5, 3], Some("sliding_log 5/s and 9/h")),
            ("sliding_log 2/s", &[65_537], None),
            ("smooth 1/s", &[1], None),
        ] {
            let raised = raised(&spec.parse().unwrap(), needs).map(|policy| policy.to_string());
            assert_eq!(raised.as_deref(), expected, "{spec}");
        }
    }

    #[test]
    fn every_policy_with_a_number_has_a_widest_form() {
        for (spec, parts) in [
            ("token_bucket 7/h burst 3", 1),
            ("sliding_counter 7/w", 1),
            ("sliding_window 7/h slices 60", 1),
            ("fixed_window 1/month calendar UTC", 1),
            ("sliding_log 1/s and 5/min and 9/h", 3),
            ("concurrency 2 hold 30s", 1),
            ("smooth 1/s", 0),
            ("warmup 1/s over 10s", 0),
        ] {
            assert_eq!(widest(&spec.parse().unwrap()).len(), parts, "{spec}");
        }
    }
}
