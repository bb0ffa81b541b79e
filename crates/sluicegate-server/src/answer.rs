//! A decision as JSON: the same over HTTP and on the command line.

use serde::Serialize;
use sluicegate::{Algorithm, Decision, Span};

/// A decision for scripts. Optional fields (a wait, a shadow, violated strategies) appear only if
/// they have something to say.
#[derive(Debug, Serialize)]
pub(crate) struct Answer<'a> {
    allowed: bool,
    limit: &'a str,
    source: &'static str,
    /// The name of the policy that binds.
    binding: Option<&'a str>,
    /// 0 when not refused, `null` for never.
    retry_after_ms: Option<u64>,
    /// How long the caller has to wait before it acts, under a shaper.
    #[serde(skip_serializing_if = "is_zero")]
    wait_ms: u64,
    /// Of a reset: whether there was a state, which is forgotten now.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<bool>,
    policies: Vec<PolicyAnswer<'a>>,
}

#[derive(Debug, Serialize)]
struct PolicyAnswer<'a> {
    name: &'a str,
    /// `null` if unbounded.
    limit: Option<u64>,
    remaining: Option<u64>,
    retry_after_ms: Option<u64>,
    /// `null` if nothing flows back.
    reset_after_ms: Option<u64>,
    allowed: bool,
    /// Of a refund: the units that it gave back; absent where it left the policy alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    given_back: Option<u64>,
    /// Whether the policy is a shadow.
    #[serde(skip_serializing_if = "is_false")]
    shadow: bool,
    /// The indices of the strategies that refused, for a log with several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violated: Vec<usize>,
}

impl<'a> Answer<'a> {
    /// The answer of the limit called `name`.
    #[must_use]
    pub(crate) fn new(name: &'a str, decision: &'a Decision) -> Self {
        let policies = decision
            .policies()
            .map(|outcome| PolicyAnswer {
                name: outcome.name().as_str(),
                limit: outcome.limit(),
                remaining: outcome.remaining(),
                retry_after_ms: outcome.retry_after().as_millis_ceil(),
                reset_after_ms: outcome.reset_after().map(Span::as_millis_ceil),
                allowed: outcome.is_admitted(),
                given_back: outcome.given_back(),
                shadow: outcome.is_shadow(),
                violated: match outcome.member().policy().algorithm() {
                    Algorithm::SlidingLog { strategies } if strategies.len() > 1 => {
                        outcome.violated().collect()
                    }
                    _ => Vec::new(),
                },
            })
            .collect();
        Self {
            allowed: decision.is_allowed(),
            limit: name,
            source: decision.source().as_str(),
            binding: decision.binding().map(|binding| binding.name().as_str()),
            retry_after_ms: decision.retry_after().as_millis_ceil(),
            wait_ms: decision.wait().as_millis_ceil(),
            forgotten: decision.forgotten(),
            policies,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use sluicegate::{Ask, Limiter, MemoryStore};

    use super::*;

    fn json(policies: &[&str], cost: u64) -> String {
        let limit = sluicegate::limit("l", policies).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), limit);
        let decision = limiter.peek_now(Ask::new("k").cost(cost)).unwrap();
        serde_json::to_string(&Answer::new("l", &decision)).unwrap()
    }

    #[test]
    fn a_limit_that_was_not_asked_has_no_policies() {
        assert_eq!(
            serde_json::to_string(&Answer::new("l", &Decision::bypass(true))).unwrap(),
            r#"{"allowed":true,"limit":"l","source":"bypass","binding":null,"retry_after_ms":0,"policies":[]}"#
        );
    }

    #[test]
    fn the_fields_stand_in_the_order_of_the_contract() {
        assert_eq!(
            json(&["token_bucket 10/s burst 20"], 1),
            r#"{"allowed":true,"limit":"l","source":"store","binding":null,"retry_after_ms":0,"policies":[{"name":"token_bucket","limit":20,"remaining":20,"retry_after_ms":0,"reset_after_ms":0,"allowed":true}]}"#
        );
    }

    #[test]
    fn never_and_unbounded_are_null() {
        assert_eq!(
            json(&["gcra 1/s burst 2", "smooth 1/s start full", "gcra 1/s shadow as s"], 3),
            r#"{"allowed":false,"limit":"l","source":"store","binding":"gcra","retry_after_ms":null,"policies":[{"name":"gcra","limit":2,"remaining":2,"retry_after_ms":null,"reset_after_ms":0,"allowed":false},{"name":"smooth","limit":null,"remaining":null,"retry_after_ms":0,"reset_after_ms":0,"allowed":true},{"name":"s","limit":1,"remaining":1,"retry_after_ms":null,"reset_after_ms":0,"allowed":false,"shadow":true}]}"#
        );
    }

    #[test]
    fn the_strategies_that_refused_are_named() {
        assert!(json(&["sliding_log 2/s and 5/h"], 3).contains(r#""violated":[0]"#));
        assert!(json(&["sliding_log 9/d and 2/s and 5/h"], 6).contains(r#""violated":[1,2]"#));
        for alone in ["sliding_log 2/s", "sliding_window 2/s"] {
            assert!(!json(&[alone], 3).contains("violated"));
        }
    }
}
