//! Descriptors that the configuration of a registry assigns to its limits.

use sluicegate::config::{EnvoyDomain, Switch};
use sluicegate::question::batched;
use sluicegate::{Decision, Registry};
use sluicegate_core::BoxFuture;

use super::asking::ask;
use super::messages;
use super::numbers::policy;
use super::rights::Rights;
use super::rls::Answering;
use super::statuses::status;
use crate::incumbent::{Answer, Charge, Code, Descriptor, Request, Status};
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
    ) -> Result<RateLimitResponse, tonic::Status> {
        let request = messages::request(message)?;
        let config = self.registry.envoy();
        let unlimited = Status::of_nothing(Code::Ok, 0);
        let mut statuses = vec![unlimited; request.descriptors.len()];
        let Some(domain) = config.domains.get(request.domain) else {
            return Ok(response(statuses));
        };
        let refunds = request.descriptors.iter().any(|it| it.is_negative_hits);
        if refunds && !rights.may_refund() && domain.refunds == Switch::Off {
            return Err(tonic::Status::permission_denied(
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
            let decision = decision.map_err(|error| messages::failure(&error))?;
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

fn response(statuses: Vec<Status>) -> RateLimitResponse {
    let is_over = statuses.iter().any(|it| it.code == Code::OverLimit);
    let code = if is_over { Code::OverLimit } else { Code::Ok };
    let (response_headers, dynamic_metadata) = (Vec::new(), None);
    messages::response(Answer { code, statuses, response_headers, dynamic_metadata })
}
