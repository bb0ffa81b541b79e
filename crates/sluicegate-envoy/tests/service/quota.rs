//! Shares of limits for Envoys, over gRPC and by a driven clock.

mod envoys;
mod hostile;
mod shares;

use std::sync::Arc;
use std::time::Duration;

use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::service::protos::rate_limit_quota_response::bucket_action::BucketAction as Action;
use sluicegate_envoy::service::protos::rate_limit_quota_usage_reports::BucketQuotaUsage;
use sluicegate_envoy::service::protos::rate_limit_strategy::Strategy;
use sluicegate_envoy::service::protos::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use sluicegate_envoy::service::{QuotaStream, Quotas, Rights};

/// Quotas in the embedded store, with one clock for both.
struct Service {
    registry: Registry,
    quotas: Quotas,
    clock: Arc<ManualClock>,
}

/// The answer for a bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Told {
    /// A token bucket: its size, its tokens per second, and its seconds.
    Share {
        max: u64,
        rate: u64,
        seconds: i64,
    },
    AllowAll(i64),
    DenyAll(i64),
    Abandon,
}

const LIMITS: &str = "\
limits:
  fleet: {policies: [token_bucket 1000/s burst 10000], block: [mallory], allow: [admin]}
  day: {policies: [fixed_window 100/d]}
envoy:
  domains:
    edge:
      - {match: {name: all}, limit: fleet, key: everybody}
      - {match: {user: \"*\"}, limit: fleet}
      - {match: {day: \"*\"}, limit: day}
";

impl Service {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(1 << 50)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let config = Config::parse(LIMITS, "limits.yaml").expect("it is valid");
        let registry = Registry::builder(store).config(&config).build();
        Self { quotas: Quotas::with_clock(registry.clone(), clock.clone()), registry, clock }
    }

    /// Returns a service after a restart: it has the store, and no memory of its predecessor.
    fn restarted(&self) -> Self {
        let quotas = Quotas::with_clock(self.registry.clone(), self.clock.clone());
        Self { quotas, registry: self.registry.clone(), clock: Arc::clone(&self.clock) }
    }

    fn open(&self) -> QuotaStream {
        self.quotas.open(Rights::new(false, |_| Ok(())))
    }

    fn pass(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

/// Returns a report about a bucket with one entry.
fn usage(id: (&str, &str), allowed: u64, denied: u64, seconds: i64) -> BucketQuotaUsage {
    let bucket = [(id.0.to_owned(), id.1.to_owned())].into();
    BucketQuotaUsage {
        bucket_id: Some(BucketId { bucket }),
        time_elapsed: Some(prost_types::Duration { seconds, nanos: 0 }),
        num_requests_allowed: allowed,
        num_requests_denied: denied,
    }
}

fn reports(usages: impl Into<Vec<BucketQuotaUsage>>) -> RateLimitQuotaUsageReports {
    RateLimitQuotaUsageReports { domain: "edge".to_owned(), bucket_quota_usages: usages.into() }
}

/// Sends reports, and returns the answers to all buckets.
async fn ask(
    stream: &mut QuotaStream,
    usages: impl Into<Vec<BucketQuotaUsage>>,
) -> Vec<(BucketId, Told)> {
    stream.take(reports(usages)).expect("it is valid");
    let mut told = Vec::new();
    while let Some(answer) = stream.answer().await.expect("the client has all rights") {
        told.extend(read(answer.message));
    }
    told
}

/// Sends a report about the bucket of all requests, and returns the answer.
async fn ask_one(
    stream: &mut QuotaStream,
    allowed: u64,
    denied: u64,
    seconds: i64,
) -> Option<Told> {
    let told = ask(stream, [usage(("name", "all"), allowed, denied, seconds)]).await;
    assert!(told.len() <= 1, "{told:?}");
    told.first().map(|(_, told)| *told)
}

fn read(message: RateLimitQuotaResponse) -> Vec<(BucketId, Told)> {
    let actions = message.bucket_action.into_iter();
    let told = actions.map(|action| {
        let told = match action.bucket_action.expect("an action") {
            Action::AbandonAction(_) => Told::Abandon,
            Action::QuotaAssignmentAction(assigned) => {
                let seconds = assigned.assignment_time_to_live.expect("a time").seconds;
                let strategy = assigned.rate_limit_strategy.expect("a strategy");
                match strategy.strategy.expect("a strategy") {
                    Strategy::BlanketRule(0) => Told::AllowAll(seconds),
                    Strategy::BlanketRule(_) => Told::DenyAll(seconds),
                    Strategy::TokenBucket(bucket) => {
                        let interval = bucket.fill_interval.expect("an interval").seconds;
                        assert_eq!(interval, 1);
                        let rate = bucket.tokens_per_fill.expect("a fill").into();
                        Told::Share { max: bucket.max_tokens.into(), rate, seconds }
                    }
                }
            }
        };
        (action.bucket_id.expect("an id"), told)
    });
    told.collect()
}
