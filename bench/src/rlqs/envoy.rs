//! An Envoy with the filter of the rate limit quota service, as version 1.40 behaves.

use std::net::SocketAddr;
use std::ops::{AddAssign, Range};
use std::time::Duration;

use anyhow::{Context as _, Result};
use sluicegate_envoy::service::protos::rate_limit_quota_response::bucket_action::BucketAction as Action;
use sluicegate_envoy::service::protos::rate_limit_quota_service_client::RateLimitQuotaServiceClient;
use sluicegate_envoy::service::protos::rate_limit_quota_usage_reports::BucketQuotaUsage;
use sluicegate_envoy::service::protos::rate_limit_strategy::Strategy;
use sluicegate_envoy::service::protos::{
    BucketId, RateLimitQuotaResponse, RateLimitQuotaUsageReports,
};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Endpoint;

use super::DOMAIN;
use crate::embedded::next;

/// The time between two reports.
pub const TICK: Duration = Duration::from_secs(5);

/// A simulated Envoy.
pub struct Envoy {
    buckets: Vec<Bucket>,
    /// The state of its random generator.
    random: u64,
}

/// A bucket of a tenant.
struct Bucket {
    id: BucketId,
    /// Requests per second.
    demand: f64,
    /// The assigned requests per second, and the end of the assignment.
    share: Option<(f64, Instant)>,
}

/// The work of a service for Envoys in the measured time.
#[derive(Debug, Default)]
pub struct Outcome {
    pub reports: u64,
    pub assignments: u64,
    /// Buckets with a share at the end.
    pub shares: u64,
}

impl AddAssign for Outcome {
    fn add_assign(&mut self, other: Self) {
        self.reports += other.reports;
        self.assignments += other.assignments;
        self.shares += other.shares;
    }
}

impl Envoy {
    /// Makes an Envoy with a bucket for each demand, in requests per second.
    pub fn new(number: u32, demands: &[f64]) -> Self {
        let bucket = |(tenant, demand): (usize, &f64)| {
            let id = [("tenant".to_owned(), format!("tenant-{tenant:05}"))];
            Bucket { id: BucketId { bucket: id.into() }, demand: *demand, share: None }
        };
        let buckets = demands.iter().enumerate().map(bucket).collect();
        Self { buckets, random: u64::from(number) }
    }

    /// Opens a stream at an instant, and keeps it until the end of the measured time.
    pub async fn run(
        mut self,
        service: SocketAddr,
        opens: Instant,
        measured: Range<Instant>,
    ) -> Result<Outcome> {
        sleep_until(opens).await;
        let channel = Endpoint::from_shared(format!("http://{service}"))?.connect().await?;
        let mut client = RateLimitQuotaServiceClient::new(channel);
        let (sender, reports) = mpsc::channel(self.buckets.len());
        let answers = client.stream_rate_limit_quotas(ReceiverStream::new(reports)).await?;
        let mut answers = answers.into_inner();
        // The first request to each bucket is denied, and reported alone.
        for bucket in &self.buckets {
            sender.send(message(vec![bucket.usage(Duration::ZERO, 0, 1)])).await?;
        }
        let mut ticks = interval_at(Instant::now() + TICK, TICK);
        let mut outcome = Outcome::default();
        loop {
            tokio::select! {
                () = sleep_until(measured.end) => break,
                _ = ticks.tick() => {
                    let usages = self.usages();
                    if Instant::now() >= measured.start {
                        outcome.reports += usages.len() as u64;
                    }
                    sender.send(message(usages)).await?;
                }
                answer = answers.message() => {
                    let assignments = self.receive(answer?.context("the service ended a stream")?)?;
                    if Instant::now() >= measured.start {
                        outcome.assignments += assignments;
                    }
                }
            }
        }
        outcome.shares = self.buckets.iter().filter(|it| it.share() > 0.0).count() as u64;
        Ok(outcome)
    }

    /// Returns the usage of each bucket since the last tick. Its demand varies by up to a tenth.
    fn usages(&mut self) -> Vec<BucketQuotaUsage> {
        let seconds = TICK.as_secs_f64();
        let usage = |bucket: &Bucket| {
            let part = (next(&mut self.random) % 2_001) as f64 / 10_000.0 + 0.9;
            let requests = (bucket.demand * part * seconds).ceil();
            let allowed = requests.min((bucket.share() * seconds).floor());
            bucket.usage(TICK, allowed as u64, (requests - allowed) as u64)
        };
        self.buckets.iter().map(usage).collect()
    }

    /// Applies an answer, and returns the number of assigned shares in it.
    fn receive(&mut self, answer: RateLimitQuotaResponse) -> Result<u64> {
        let mut assignments = 0;
        for action in answer.bucket_action {
            let known =
                self.buckets.iter_mut().find(|it| Some(&it.id) == action.bucket_id.as_ref());
            let bucket = known.context("an answer is for an unknown bucket")?;
            bucket.share = None;
            let Some(Action::QuotaAssignmentAction(assigned)) = action.bucket_action else {
                continue;
            };
            let strategy = assigned.rate_limit_strategy.and_then(|it| it.strategy);
            if let Some(Strategy::TokenBucket(share)) = strategy {
                let lasts = assigned.assignment_time_to_live.context("it has no end")?;
                let interval = share.fill_interval.context("it has no interval")?;
                let rate = f64::from(share.tokens_per_fill.unwrap_or(1)) / interval.seconds as f64;
                let ends = Instant::now() + Duration::from_secs(lasts.seconds.unsigned_abs());
                bucket.share = Some((rate, ends));
                assignments += 1;
            }
        }
        Ok(assignments)
    }
}

impl Bucket {
    /// Returns the requests per second that it admits now.
    fn share(&self) -> f64 {
        self.share.map_or(0.0, |(rate, ends)| if Instant::now() < ends { rate } else { 0.0 })
    }

    fn usage(&self, elapsed: Duration, allowed: u64, denied: u64) -> BucketQuotaUsage {
        BucketQuotaUsage {
            bucket_id: Some(self.id.clone()),
            time_elapsed: elapsed.try_into().ok(),
            num_requests_allowed: allowed,
            num_requests_denied: denied,
        }
    }
}

fn message(bucket_quota_usages: Vec<BucketQuotaUsage>) -> RateLimitQuotaUsageReports {
    RateLimitQuotaUsageReports { domain: DOMAIN.to_owned(), bucket_quota_usages }
}
