//! A replica of the service.

use std::sync::Arc;

use sluicegate::Registry;
use sluicegate::testing::ManualClock;
use sluicegate_conformance::suite::block_on;
use sluicegate_envoy::service::protos::{RateLimitQuotaResponse, RateLimitQuotaUsageReports};
use sluicegate_envoy::service::{QuotaStream, Quotas, Rights};

/// A replica of the service, which forgets everything when it is dropped.
pub(crate) struct Replica(Quotas);

/// A stream of a replica.
pub(crate) struct Stream(QuotaStream);

impl Replica {
    pub(crate) fn new(registry: &Registry, clock: &Arc<ManualClock>) -> Self {
        Self(Quotas::with_clock(registry.clone(), Arc::<ManualClock>::clone(clock)))
    }

    pub(crate) fn open(&self) -> Stream {
        Stream(self.0.open(Rights::new(false, |_| Ok(()))))
    }
}

impl Stream {
    /// Takes a report, and returns the answers.
    pub(crate) fn report(
        &mut self,
        report: RateLimitQuotaUsageReports,
    ) -> Vec<RateLimitQuotaResponse> {
        self.0.take(report).expect("the stream continues");
        let mut answers = Vec::new();
        while let Some(answer) = block_on(self.0.answer()).expect("the stream continues") {
            answers.push(answer.message);
        }
        answers
    }

    /// Returns what a timer of the service sends now.
    pub(crate) fn expire(&mut self, now: u64) -> Option<RateLimitQuotaResponse> {
        let is_due = self.0.expires_at().is_some_and(|at| at <= now);
        if is_due { self.0.expire().map(|answer| answer.message) } else { None }
    }
}
