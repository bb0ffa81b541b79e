//! A decision as JSON, for HTTP and the command line.

use std::borrow::Cow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sluicegate_core::{Algorithm, Decision, HoldFound, Limit, Outcome, Queued, Source, Span};

/// A decision for scripts. Optional fields (a wait, a shadow, violated tiers) appear only if they
/// apply. Each time appears twice: in milliseconds, rounded up, and exactly, in microseconds.
#[derive(Debug, Deserialize, Serialize)]
pub struct Answer<'a> {
    /// Whether the request may proceed.
    pub allowed: bool,
    /// Name of the limit; for several limits, their names joined with ` + `.
    pub limit: Cow<'a, str>,
    /// Origin of the decision: `store`, `fallback`, `lease`, `deny-cache` or `bypass`.
    pub source: Cow<'a, str>,
    /// Name of the binding policy.
    pub binding: Option<Cow<'a, str>>,
    /// Name of the binding policy's limit; only for a list of limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding_limit: Option<Cow<'a, str>>,
    /// Time until a retry can pass, in milliseconds: 0 when not refused, `null` for never.
    pub retry_after_ms: Option<u64>,
    /// Exact retry time, in microseconds.
    pub retry_after_us: Option<u64>,
    /// Time that the caller must wait before it acts, under a shaper, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait_ms: u64,
    /// Exact wait, in microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait_us: u64,
    /// Units that the caller may use; only for a take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted: Option<u64>,
    /// Whether the request is a repeat: the answer is that of the first request.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeat: bool,
    /// Whether the key had a state that is now removed; only for a reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<bool>,
    /// State of the hold under a token; only for requests with a token.
    ///
    /// `live` if it was held, `settled` if it was settled before, or `waited` if it has now left a
    /// queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Cow<'a, str>>,
    /// Whether the units were returned; only for a cancelled reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<bool>,
    /// Hold of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldAnswer<'a>>,
    /// Ban that refuses the request, or starts with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban: Option<BanAnswer<'a>>,
    /// Pause that refuses the request, or that the request has set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseAnswer<'a>>,
    /// Reason for a denial without a binding policy: `store_full` or `paused`. For a denied acquire, the reason
    /// that it stopped waiting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Cow<'a, str>>,
    /// Tickets ahead at the last attempt; only for a request that has waited in a queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u64>,
    /// Whether a state's time was too far ahead, and was reset to now.
    #[serde(default, skip_serializing_if = "is_false")]
    pub restamped: bool,
    /// Outcome of each policy, in the order of the configuration.
    pub policies: Vec<PolicyAnswer<'a>>,
}

/// A hold and its remaining lifetime.
#[derive(Debug, Deserialize, Serialize)]
pub struct HoldAnswer<'a> {
    /// Token that settles, cancels, renews or releases the hold.
    pub token: Cow<'a, str>,
    /// Time until the hold expires, in milliseconds.
    pub expires_in_ms: u64,
    /// Exact time until the hold expires, in microseconds.
    pub expires_in_us: u64,
}

/// A ban: the limit that bans, and when the ban ends.
#[derive(Debug, Deserialize, Serialize)]
pub struct BanAnswer<'a> {
    /// Name of the limit that bans.
    pub limit: Cow<'a, str>,
    /// Time until the ban ends, in milliseconds.
    pub ends_in_ms: u64,
    /// Exact time until the ban ends, in microseconds.
    pub ends_in_us: u64,
    /// Whether the ban starts with this answer.
    pub begins: bool,
}

/// A pause: the limit or the policy that is paused, and when the pause ends.
#[derive(Debug, Deserialize, Serialize)]
pub struct PauseAnswer<'a> {
    /// Name of the limit.
    pub limit: Cow<'a, str>,
    /// Name of the paused policy; absent if the whole limit is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Cow<'a, str>>,
    /// Time until the pause ends, in milliseconds.
    pub ends_in_ms: u64,
    /// Exact time until the pause ends, in microseconds.
    pub ends_in_us: u64,
}

/// The outcome of one policy.
#[derive(Debug, Deserialize, Serialize)]
pub struct PolicyAnswer<'a> {
    /// Name of the policy.
    pub name: Cow<'a, str>,
    /// Name of the policy's limit; only for a list of limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_name: Option<Cow<'a, str>>,
    /// Limit of the policy; `null` if unbounded.
    pub limit: Option<u64>,
    /// Remaining units; `null` if unbounded.
    pub remaining: Option<u64>,
    /// Time until the same request can pass, in milliseconds: 0 when not refused, `null` for never.
    pub retry_after_ms: Option<u64>,
    /// Exact retry time, in microseconds.
    pub retry_after_us: Option<u64>,
    /// Time until the policy is reset, in milliseconds; `null` if nothing flows back.
    pub reset_after_ms: Option<u64>,
    /// Exact reset time, in microseconds.
    pub reset_after_us: Option<u64>,
    /// Time that this policy makes the caller wait, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait_ms: u64,
    /// Exact wait, in microseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub wait_us: u64,
    /// Whether the policy admits the request.
    pub allowed: bool,
    /// Units that a refund or a settlement returned to this policy; absent if it left the policy
    /// unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_back: Option<u64>,
    /// Units used in the window of a fixed window, or in the longest one of a sliding window or log.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub window_total: u64,
    /// Units in the current slice of the window.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub current_slice: u64,
    /// Whether the policy is a shadow.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shadow: bool,
    /// Indices of the tiers that refused; only for a log with several tiers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violated: Vec<usize>,
}

impl<'a> Answer<'a> {
    /// Returns the answer of the limit called `name`.
    #[must_use]
    pub fn new(name: &'a str, decision: &'a Decision) -> Self {
        let (retry_after, wait) = (decision.retry_after(), Span::from(decision.wait()));
        Self {
            allowed: decision.is_allowed(),
            limit: name.into(),
            source: decision.source().as_str().into(),
            binding: decision.binding().map(|binding| binding.name().as_str().into()),
            binding_limit: None,
            retry_after_ms: retry_after.as_millis_ceil(),
            retry_after_us: retry_after.as_micros(),
            wait_ms: wait.as_millis_ceil(),
            wait_us: wait.as_micros(),
            granted: None,
            repeat: decision.is_repeat(),
            forgotten: decision.forgotten(),
            found: decision.hold_found().map(|found| found_word(found).into()),
            cancelled: None,
            hold: None,
            ban: decision.ban().zip(decision.banned_by()).map(|(ban, limit)| BanAnswer {
                limit: limit.as_str().into(),
                ends_in_ms: Span::from(ban.ends_in).as_millis_ceil(),
                ends_in_us: Span::from(ban.ends_in).as_micros(),
                begins: ban.begins,
            }),
            pause: decision.pause().zip(decision.paused_by()).map(|(pause, limit)| PauseAnswer {
                limit: limit.as_str().into(),
                policy: decision.paused_policy().map(|policy| policy.as_str().into()),
                ends_in_ms: Span::from(pause.ends_in).as_millis_ceil(),
                ends_in_us: Span::from(pause.ends_in).as_micros(),
            }),
            code: code(decision).map(Into::into),
            ahead: None,
            restamped: decision.warnings().restamped,
            policies: decision.policies().map(PolicyAnswer::new).collect(),
        }
    }

    /// Adds the name of its limit to each policy.
    #[must_use]
    pub fn naming_limits(mut self, decision: &'a Decision) -> Self {
        let name_of = |outcome: Outcome<'_>| {
            let parts = decision.limit().map_or(&[][..], Limit::parts);
            Some(parts.get(outcome.member().part())?.as_str().into())
        };
        self.binding_limit = decision.binding().and_then(name_of);
        for (policy, outcome) in self.policies.iter_mut().zip(decision.policies()) {
            policy.limit_name = name_of(outcome);
        }
        self
    }

    /// Adds the number of units that a take lets the caller use. If nothing was counted,
    /// this is the whole request, `whole`.
    #[must_use]
    pub fn granting(mut self, decision: &Decision, whole: impl FnOnce() -> u64) -> Self {
        let is_counted = decision.is_denied() || decision.policies().len() > 0;
        self.granted = Some(if is_counted { decision.granted() } else { whole() });
        self
    }

    /// Returns the answer to the cancellation of a reservation under the limit called `name`.
    #[must_use]
    pub fn of_cancellation(name: &'a str, is_given_back: bool) -> Self {
        Self {
            source: Source::Store.as_str().into(),
            cancelled: Some(is_given_back),
            retry_after_ms: Some(0).filter(|_| is_given_back),
            retry_after_us: Some(0).filter(|_| is_given_back),
            allowed: is_given_back,
            limit: name.into(),
            binding: None,
            binding_limit: None,
            wait_ms: 0,
            wait_us: 0,
            granted: None,
            repeat: false,
            forgotten: None,
            found: None,
            hold: None,
            ban: None,
            pause: None,
            code: None,
            ahead: None,
            restamped: false,
            policies: Vec::new(),
        }
    }

    /// Adds the request's hold, as a token and its lifetime.
    #[must_use]
    pub fn holding(mut self, held: Option<(String, Duration)>) -> Self {
        self.hold = held.map(|(token, lasts)| {
            let lasts = Span::from(lasts);
            HoldAnswer {
                token: token.into(),
                expires_in_ms: lasts.as_millis_ceil(),
                expires_in_us: lasts.as_micros(),
            }
        });
        self
    }

    /// Adds the reason that a denied request stopped waiting.
    #[must_use]
    pub fn ending(mut self, ended: Option<WaitEnded>) -> Self {
        if let Some(ended) = ended {
            self.code = Some(ended.code().into());
        }
        if let Some(WaitEnded::TimedOut { ahead }) = ended {
            self.ahead = Some(ahead);
        }
        self
    }

    /// Sets the waits to zero, after the caller has waited.
    #[must_use]
    pub fn waited_out(mut self) -> Self {
        (self.wait_ms, self.wait_us) = (0, 0);
        for policy in &mut self.policies {
            (policy.wait_ms, policy.wait_us) = (0, 0);
        }
        self
    }
}

/// Error code of a denial because the embedded store is full.
pub const STORE_FULL: &str = "store_full";

/// Error code of a denial because the key is paused.
pub const PAUSED: &str = "paused";

/// Returns the reason for a denial without a binding policy, if there is a code for it.
fn code(decision: &Decision) -> Option<&'static str> {
    match decision.is_denied() {
        true if decision.is_store_full() => Some(STORE_FULL),
        true if decision.pause().is_some() => Some(PAUSED),
        _ => None,
    }
}

/// The reason that a wait ended without an admission.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WaitEnded {
    /// The caller's turn can't come in time, or ever.
    Hopeless,
    /// The limit's queue is full.
    QueueFull,
    /// The time is up, and the queue position is given up.
    TimedOut {
        /// Tickets ahead at the end.
        ahead: u64,
    },
    /// The service already has the maximum number of waiting requests.
    TooManyWaiting,
    /// The embedded store has no capacity for the key.
    StoreFull,
}

impl WaitEnded {
    /// Returns why a denied request stopped waiting, or `None` if no store denied it.
    #[must_use]
    pub fn of(decision: &Decision, has_place: bool) -> Option<Self> {
        let is_decided = !matches!(decision.source(), Source::Bypass | Source::Fallback);
        (decision.is_denied() && is_decided).then(|| match decision.queued() {
            _ if decision.is_store_full() => Self::StoreFull,
            _ if !has_place => Self::TooManyWaiting,
            Some(Queued::Waits { ahead, .. }) => Self::TimedOut { ahead },
            Some(_) => Self::QueueFull,
            None => Self::Hopeless,
        })
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Hopeless => "hopeless",
            Self::QueueFull => "queue_full",
            Self::TimedOut { .. } => "timed_out",
            Self::TooManyWaiting => "too_many_waiting",
            Self::StoreFull => STORE_FULL,
        }
    }
}

impl<'a> PolicyAnswer<'a> {
    fn new(outcome: Outcome<'a>) -> Self {
        let (retry_after, wait) = (outcome.retry_after(), Span::from(outcome.wait()));
        let reset_after = outcome.reset_after().map(Span::from);
        let violated = match outcome.member().policy().algorithm() {
            Algorithm::SlidingLog { tiers } if tiers.len() > 1 => outcome.violated().collect(),
            _ => Vec::new(),
        };
        Self {
            name: outcome.name().as_str().into(),
            limit_name: None,
            limit: outcome.limit(),
            remaining: outcome.remaining(),
            retry_after_ms: retry_after.as_millis_ceil(),
            retry_after_us: retry_after.as_micros(),
            reset_after_ms: reset_after.map(Span::as_millis_ceil),
            reset_after_us: reset_after.map(Span::as_micros),
            wait_ms: wait.as_millis_ceil(),
            wait_us: wait.as_micros(),
            allowed: outcome.is_admitted(),
            given_back: outcome.given_back(),
            window_total: outcome.used().unwrap_or(0),
            current_slice: outcome.current_slice(),
            shadow: outcome.is_shadow(),
            violated,
        }
    }
}

/// Returns the state of the hold that a token names, as a word.
const fn found_word(found: HoldFound) -> &'static str {
    match found {
        HoldFound::Live => "live",
        HoldFound::Settled => "settled",
        HoldFound::Waited => "waited",
        _ => "unknown",
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
    use sluicegate_core::for_stores::DecisionForStores as _;

    fn json(policies: &[&str], cost: u64) -> String {
        let limit = Limit::new("l", policies).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), limit);
        let decision = limiter.peek(Ask::new("k").cost(cost)).now().unwrap();
        serde_json::to_string(&Answer::new("l", &decision)).unwrap()
    }

    #[test]
    fn a_limit_that_was_not_asked_has_no_policies() {
        assert_eq!(
            serde_json::to_string(&Answer::new("l", &Decision::bypass(true))).unwrap(),
            r#"{"allowed":true,"limit":"l","source":"bypass","binding":null,"retry_after_ms":0,"retry_after_us":0,"policies":[]}"#
        );
    }

    #[test]
    fn the_fields_stand_in_the_order_of_the_contract() {
        assert_eq!(
            json(&["token_bucket 10/s burst 20"], 1),
            r#"{"allowed":true,"limit":"l","source":"store","binding":null,"retry_after_ms":0,"retry_after_us":0,"policies":[{"name":"token_bucket","limit":20,"remaining":20,"retry_after_ms":0,"retry_after_us":0,"reset_after_ms":0,"reset_after_us":0,"allowed":true}]}"#
        );
    }

    #[test]
    fn never_and_unbounded_are_null() {
        assert_eq!(
            json(&["gcra 1/s burst 2", "smooth 1/s start full", "gcra 1/s shadow as s"], 3),
            r#"{"allowed":false,"limit":"l","source":"store","binding":"gcra","retry_after_ms":null,"retry_after_us":null,"policies":[{"name":"gcra","limit":2,"remaining":2,"retry_after_ms":null,"retry_after_us":null,"reset_after_ms":0,"reset_after_us":0,"allowed":false},{"name":"smooth","limit":null,"remaining":null,"retry_after_ms":0,"retry_after_us":0,"reset_after_ms":0,"reset_after_us":0,"allowed":true},{"name":"s","limit":1,"remaining":1,"retry_after_ms":null,"retry_after_us":null,"reset_after_ms":0,"reset_after_us":0,"allowed":false,"shadow":true}]}"#
        );
    }

    #[test]
    fn the_tiers_that_refused_are_named() {
        assert!(json(&["sliding_log 2/s and 5/h"], 3).contains(r#""violated":[0]"#));
        assert!(json(&["sliding_log 9/d and 2/s and 5/h"], 6).contains(r#""violated":[1,2]"#));
        for alone in ["sliding_log 2/s", "sliding_window 2/s"] {
            assert!(!json(&[alone], 3).contains("violated"));
        }
    }

    #[test]
    fn an_answer_reads_as_it_was_written() {
        for (policies, cost) in [
            (&["shaper 1/s queue 9", "gcra 1/s burst 9 cost 2 shadow as s"][..], 1),
            (&["sliding_log 9/d and 2/s and 5/h", "smooth 1/s start full"], 6),
        ] {
            let written = json(policies, cost);
            let read: Answer<'_> = serde_json::from_str(&written).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), written);
        }
    }

    #[test]
    fn a_wait_is_told_exactly_and_not_once_it_is_over() {
        let limiter =
            Limiter::new(MemoryStore::new(), Limit::new("l", ["shaper 3/s queue 9"]).unwrap());
        let _ = limiter.check("k").now().unwrap();
        let decision = limiter.check("k").now().unwrap();
        let micros = Span::from(decision.wait()).as_micros();
        let answer = serde_json::to_value(Answer::new("l", &decision)).unwrap();
        for said in [&answer, &answer["policies"][0]] {
            assert_eq!(
                (&said["wait_us"], &said["wait_ms"]),
                (&micros.into(), &micros.div_ceil(1_000).into())
            );
        }
        let answer = Answer::new("l", &decision).waited_out();
        assert!(!serde_json::to_string(&answer).unwrap().contains("wait"));
    }

    #[test]
    fn a_denial_of_a_full_store_has_its_code_and_no_policy_to_blame() {
        let mut options = sluicegate::store::StoreOptions::default();
        options.memory.max_keys = Some(std::num::NonZeroUsize::MIN);
        options.memory.overflow = sluicegate::config::Overflow::Deny;
        let store = sluicegate::config::StoreUrl::Memory.open(&options).unwrap();
        let limit = Limit::new("l", ["token_bucket 0/s burst 20"]).unwrap();
        let limiter = Limiter::new(store, limit);
        assert!(limiter.check("a").now().unwrap().is_allowed());
        let denied = limiter.check("b").now().unwrap();
        let ended = Answer::new("l", &denied).ending(WaitEnded::of(&denied, true));
        for answer in [Answer::new("l", &denied), ended] {
            let answer = serde_json::to_value(answer).unwrap();
            assert_eq!(
                (&answer["allowed"], &answer["code"]),
                (&false.into(), &"store_full".into())
            );
            let null = serde_json::Value::Null;
            assert_eq!((&answer["binding"], &answer["retry_after_ms"]), (&null, &null));
            assert_eq!(answer["policies"][0]["allowed"], true);
        }
    }

    #[test]
    fn policies_of_several_limits_name_theirs() {
        let limit = |name: &str| Limit::new(name, ["gcra 1/s"]).unwrap();
        let both = Limit::together([limit("one"), limit("two")]).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), both);
        let ask = Ask::new("k").and(Ask::new("j").cost(2));
        let decision = limiter.check(ask).now().unwrap();
        let answer = Answer::new("one + two", &decision).naming_limits(&decision);
        let answer = serde_json::to_value(answer).unwrap();
        assert_eq!((&answer["binding"], &answer["binding_limit"]), (&"gcra".into(), &"two".into()));
        let names = [0, 1].map(|index| answer["policies"][index]["limit_name"].clone());
        assert_eq!(names, ["one", "two"]);
    }

    #[test]
    fn where_nothing_is_counted_the_whole_cost_is_granted() {
        let granted =
            |decision: &Decision| Answer::new("l", decision).granting(decision, || 7).granted;
        assert_eq!(granted(&Decision::bypass(true)), Some(7));
        assert_eq!(granted(&Decision::bypass(false)), Some(0));
        let limit = Limit::new("l", ["gcra 1/s burst 5"]).unwrap();
        assert_eq!(granted(&Decision::fallback(&limit, true)), Some(7));
        let limiter = Limiter::new(MemoryStore::new(), limit);
        assert_eq!(granted(&limiter.take(Ask::new("k").cost(7)).now().unwrap()), Some(5));
    }
}
