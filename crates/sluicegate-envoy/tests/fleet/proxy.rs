//! An Envoy with the filter of the rate limit quota service, as version 1.40 behaves.
//!
//! It has one bucket. Without an assignment, and after it has expired, it denies. It reports every 5 s and whenever its
//! bucket is new. A changed assignment starts full, as in older versions.

use std::collections::BTreeMap;

use sluicegate_envoy::service::protos::rate_limit_quota_response::bucket_action::BucketAction as Action;
use sluicegate_envoy::service::protos::rate_limit_quota_usage_reports::BucketQuotaUsage;
use sluicegate_envoy::service::protos::rate_limit_strategy::{BlanketRule, Strategy};
use sluicegate_envoy::service::protos::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports, TokenBucket,
};

/// The time between two reports, in µs.
pub(crate) const TICK: u64 = 5_000_000;
const SECOND: u64 = 1_000_000;

/// A simulated Envoy.
pub(crate) struct Proxy {
    id: BTreeMap<String, String>,
    next_tick: u64,
    /// Whether the bucket is known. It isn't before the first request, and after an abandon.
    is_known: bool,
    assignment: Option<Assignment>,
    reported_at: u64,
    admitted: u64,
    denied: u64,
    /// When the wait for something began, while requests were denied without an assignment.
    waits_since: Option<u64>,
    /// The longest such wait, in µs.
    pub(crate) longest_wait: u64,
}

#[derive(Clone, Copy)]
struct Assignment {
    rule: Rule,
    ends: u64,
}

#[derive(Clone, Copy)]
enum Rule {
    Blanket(bool),
    /// Its tokens at an instant, in millionths.
    Bucket {
        bucket: TokenBucket,
        tokens: u64,
        at: u64,
    },
}

impl Proxy {
    /// Makes an Envoy with a bucket of this id, which reports at `first_tick` and every 5 s after that.
    pub(crate) fn new(id: &[(&str, &str)], first_tick: u64) -> Self {
        let id = id.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self {
            id: id.collect(),
            next_tick: first_tick,
            is_known: false,
            assignment: None,
            reported_at: 0,
            admitted: 0,
            denied: 0,
            waits_since: None,
            longest_wait: 0,
        }
    }

    /// Decides requests that arrive now. Returns the number of admitted ones, and a report if the bucket is new.
    pub(crate) fn ask(
        &mut self,
        now: u64,
        requests: u64,
    ) -> (u64, Option<RateLimitQuotaUsageReports>) {
        if requests == 0 {
            return (0, None);
        }
        let admitted = self.admit(now, requests);
        self.admitted += admitted;
        self.denied += requests - admitted;
        if self.live(now).is_none() {
            let since = *self.waits_since.get_or_insert(now);
            self.longest_wait = self.longest_wait.max(now - since);
        }
        let is_new = !self.is_known;
        self.is_known = true;
        if is_new {
            self.reported_at = now;
        }
        (admitted, is_new.then(|| self.report(now)))
    }

    /// Returns the periodic report, if it is time for one.
    pub(crate) fn tick(&mut self, now: u64) -> Option<RateLimitQuotaUsageReports> {
        if now < self.next_tick {
            return None;
        }
        self.next_tick += TICK;
        self.is_known.then(|| self.report(now))
    }

    /// Applies an answer.
    pub(crate) fn receive(&mut self, now: u64, answer: &RateLimitQuotaResponse) {
        for action in &answer.bucket_action {
            let id = &action.bucket_id.as_ref().expect("an answer names its bucket").bucket;
            assert_eq!(id, &self.id, "ids are echoed");
            match action.bucket_action.expect("an answer has an action") {
                Action::AbandonAction(_) => {
                    self.assignment = None;
                    (self.is_known, self.admitted, self.denied) = (false, 0, 0);
                }
                Action::QuotaAssignmentAction(assigned) => {
                    let lasts = assigned.assignment_time_to_live.expect("it has a time to live");
                    assert!(lasts.seconds > 0 && lasts.nanos == 0, "whole seconds: {lasts:?}");
                    let strategy = assigned.rate_limit_strategy.expect("it has a strategy");
                    let strategy = strategy.strategy.expect("it has a strategy");
                    let ends = now + lasts.seconds.unsigned_abs() * SECOND;
                    self.assignment = Some(Assignment { rule: self.rule(now, strategy), ends });
                    self.waits_since = None;
                }
            }
        }
    }

    fn rule(&self, now: u64, strategy: Strategy) -> Rule {
        match strategy {
            Strategy::BlanketRule(rule) => Rule::Blanket(rule == BlanketRule::AllowAll as i32),
            Strategy::TokenBucket(bucket) => {
                assert!(bucket.max_tokens > 0, "{bucket:?}");
                let (tokens, interval) = fill(&bucket);
                assert!(tokens > 0 && interval >= SECOND, "{bucket:?}");
                match self.live(now) {
                    // An equal assignment carries on.
                    Some(Rule::Bucket { bucket: same, tokens, at }) if same == bucket => {
                        Rule::Bucket { bucket, tokens, at }
                    }
                    _ => {
                        let tokens = u64::from(bucket.max_tokens) * SECOND;
                        Rule::Bucket { bucket, tokens, at: now }
                    }
                }
            }
        }
    }

    fn live(&self, now: u64) -> Option<Rule> {
        self.assignment.filter(|assignment| now < assignment.ends).map(|assignment| assignment.rule)
    }

    fn admit(&mut self, now: u64, requests: u64) -> u64 {
        let Some(assignment) = self.assignment.as_mut().filter(|it| now < it.ends) else {
            return 0;
        };
        match &mut assignment.rule {
            Rule::Blanket(admits) => {
                if *admits {
                    requests
                } else {
                    0
                }
            }
            Rule::Bucket { bucket, tokens, at } => {
                let (filled, interval) = fill(bucket);
                let full = u64::from(bucket.max_tokens) * SECOND;
                let more = u128::from(now - *at) * u128::from(filled) * u128::from(SECOND)
                    / u128::from(interval);
                *tokens = full.min(*tokens + u64::try_from(more).unwrap());
                *at = now;
                let admitted = requests.min(*tokens / SECOND);
                *tokens -= admitted * SECOND;
                admitted
            }
        }
    }

    fn report(&mut self, now: u64) -> RateLimitQuotaUsageReports {
        // Whole seconds are all that Envoy reports.
        let seconds = (now - self.reported_at) / SECOND;
        self.reported_at = now;
        let usage = BucketQuotaUsage {
            bucket_id: Some(BucketId { bucket: self.id.clone() }),
            time_elapsed: Some(prost_types::Duration { seconds: seconds.cast_signed(), nanos: 0 }),
            num_requests_allowed: std::mem::take(&mut self.admitted),
            num_requests_denied: std::mem::take(&mut self.denied),
        };
        RateLimitQuotaUsageReports { domain: "edge".to_owned(), bucket_quota_usages: vec![usage] }
    }
}

/// Returns the tokens of a fill, and its interval in µs.
fn fill(bucket: &TokenBucket) -> (u64, u64) {
    let interval = bucket.fill_interval.expect("it has an interval");
    assert_eq!(interval.nanos, 0, "whole seconds");
    (
        bucket.tokens_per_fill.expect("it has tokens").into(),
        interval.seconds.unsigned_abs() * SECOND,
    )
}
