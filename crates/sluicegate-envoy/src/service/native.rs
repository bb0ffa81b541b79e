//! Descriptors that the configuration of a registry assigns to its limits.

use std::time::Duration;

use sluicegate::config::{EnvoyDomain, Switch};
use sluicegate::question::batched;
use sluicegate::{Decision, Registry};
use sluicegate_core::{BoxFuture, Outcome, Policy, RetryAfter};
use tonic::Status;

use super::asking::ask;
use super::messages;
use super::rights::Rights;
use super::rls::Answering;
use super::rule_limits::policy;
use crate::incumbent::{Charge, Descriptor, Request, Unit};
use crate::protos::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// The limits of a registry, for the descriptors that its configuration assigns to them (`envoy`).
#[derive(Clone, Debug)]
pub struct NativeLimits {
    registry: Registry,
}

impl NativeLimits {
    /// Makes the limits of a registry. They follow its configuration.
    #[must_use]
    pub const fn new(registry: Registry) -> Self {
        Self { registry }
    }

    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Returns the request for a descriptor, with the key that it makes.
    fn ask(
        &self,
        (limit, key): (&str, Vec<u8>),
        request: &Request<'_>,
        descriptor: &Descriptor<'_>,
    ) -> Option<BoxFuture<'static, Result<Decision, sluicegate::Error>>> {
        let gate = self.registry.gate(limit);
        let own = descriptor.limit.map(|own| policy(own.requests_per_unit, own.unit));
        // Each number and unit of the protocol is a policy.
        let own = own.transpose().ok()?;
        let hits = request.hits(descriptor);
        let charge =
            if descriptor.is_negative_hits { Charge::Refund(hits) } else { Charge::Add(hits) };
        Some(Box::pin(async move { ask(&gate, &key, own, charge).await }))
    }
}

#[tonic::async_trait]
impl Answering for NativeLimits {
    async fn answer(
        &self,
        message: &RateLimitRequest,
        rights: &Rights,
    ) -> Result<RateLimitResponse, Status> {
        let request = messages::request(message)?;
        let config = self.registry.envoy();
        let mut statuses: Vec<DescriptorStatus> =
            request.descriptors.iter().map(|_| unlimited()).collect();
        let Some(domain) = config.domains.get(request.domain) else {
            return Ok(response(statuses));
        };
        let refunds = request.descriptors.iter().any(|it| it.is_negative_hits);
        if refunds && !rights.may_refund() && domain.refunds == Switch::Off {
            return Err(Status::permission_denied(
                "negative hits return units: the client needs the right `admin`, or the domain `refunds: true`",
            ));
        }
        let found: Vec<_> = request.descriptors.iter().map(|it| find(domain, it)).collect();
        for (limit, _) in found.iter().flatten() {
            rights.ask(limit)?;
        }
        let asked = found.into_iter().zip(&request.descriptors).enumerate();
        let asked = asked.filter_map(|(index, (found, descriptor))| {
            Some((index, self.ask(found?, &request, descriptor)?))
        });
        let (indices, asked): (Vec<usize>, Vec<_>) = asked.unzip();
        for (index, decision) in indices.into_iter().zip(batched(asked).await) {
            let decision = decision.map_err(|error| Status::unavailable(error.to_string()))?;
            statuses[index] = status(&decision);
        }
        Ok(response(statuses))
    }
}

/// Returns the limit that is assigned to a descriptor, and the key that it makes.
fn find<'d>(domain: &'d EnvoyDomain, descriptor: &Descriptor<'_>) -> Option<(&'d str, Vec<u8>)> {
    let mut lines = domain.descriptors.iter();
    lines.find_map(|line| Some((line.limit().as_str(), line.key_of(&descriptor.entries)?)))
}

fn response(statuses: Vec<DescriptorStatus>) -> RateLimitResponse {
    let is_over = statuses.iter().any(|it| it.code == i32::from(Code::OverLimit));
    let overall = if is_over { Code::OverLimit } else { Code::Ok };
    RateLimitResponse { overall_code: overall.into(), statuses, ..RateLimitResponse::default() }
}

/// Returns the status of a descriptor without a limit.
fn unlimited() -> DescriptorStatus {
    DescriptorStatus { code: Code::Ok.into(), ..DescriptorStatus::default() }
}

fn status(decision: &Decision) -> DescriptorStatus {
    let code = if decision.is_allowed() { Code::Ok } else { Code::OverLimit };
    let fewest = || decision.policies().min_by_key(|it| it.remaining().unwrap_or(u64::MAX));
    let Some(shown) = decision.binding().or_else(fewest) else {
        // A list or a switch decided.
        return DescriptorStatus { code: code.into(), ..DescriptorStatus::default() };
    };
    let seconds = until(decision, &shown).map(|until| prost_types::Duration {
        // Envoy drops fractions, and a client that comes earlier is denied again.
        seconds: i64::try_from(until.as_millis().div_ceil(1_000)).unwrap_or(i64::MAX),
        nanos: 0,
    });
    DescriptorStatus {
        code: code.into(),
        current_limit: shown.limit().map(|limit| RateLimit {
            requests_per_unit: u32::try_from(limit).unwrap_or(u32::MAX),
            unit: unit(shown.member().policy()),
            name: decision.limit().map_or_else(String::new, |limit| limit.name().to_string()),
        }),
        limit_remaining: u32::try_from(shown.remaining().unwrap_or(u64::MAX)).unwrap_or(u32::MAX),
        duration_until_reset: seconds,
    }
}

/// Returns the time until the request can pass, or until everything is available again. Envoy writes it to `Retry-After`
/// and `x-ratelimit-reset`.
fn until(decision: &Decision, shown: &Outcome<'_>) -> Option<Duration> {
    match decision.retry_after() {
        RetryAfter::After(wait) if decision.is_denied() => Some(wait),
        _ => shown.reset_after(),
    }
}

/// Returns the number of the unit over which the quota is granted; else 0, for which Envoy shows the numbers without a
/// window.
fn unit(policy: &Policy) -> i32 {
    let window = policy.quota().window;
    let is_window = |unit: &Unit| window == Some(Duration::from_secs(unit.seconds()));
    Unit::ALL.into_iter().find(is_window).map_or(0, Unit::number)
}
