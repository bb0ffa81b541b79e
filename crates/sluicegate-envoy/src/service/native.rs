//! Descriptors that the configuration of a registry assigns to its limits.

use std::borrow::Cow;

use sluicegate::Registry;
use sluicegate::config::{DescriptorLimit, EnvoyDomain, Switch};

use super::asking::{ask, decide};
use super::messages;
use super::rights::Rights;
use super::rls::Answering;
use super::statuses::status;
use crate::incumbent::{Answer, Charge, Code, Descriptor, Status};
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
        let mut asked = Vec::with_capacity(statuses.len());
        for (status, descriptor) in statuses.iter_mut().zip(&request.descriptors) {
            let Some((line, key)) = find(domain, descriptor) else { continue };
            rights.ask(line.limit().as_str())?;
            let gate = self.registry.gate(line.limit().as_str());
            asked.push((status, gate, key, descriptor));
        }
        let questions = asked.iter().map(|(_, gate, key, descriptor)| {
            let hits = request.hits(descriptor);
            let charge =
                if descriptor.is_negative_hits { Charge::Refund(hits) } else { Charge::Add(hits) };
            ask(gate, key, descriptor.limit, charge)
        });
        let decisions = decide(questions).await;
        for ((status, ..), decision) in asked.into_iter().zip(decisions) {
            let decision = decision.map_err(|error| messages::failure(&error))?;
            *status = self::status(&decision);
        }
        Ok(response(statuses))
    }
}

/// Returns the limit that is assigned to a descriptor, and the key that it makes.
fn find<'c, 'e>(
    domain: &'c EnvoyDomain,
    descriptor: &Descriptor<'e>,
) -> Option<(&'c DescriptorLimit, Cow<'e, [u8]>)> {
    let mut lines = domain.descriptors.iter();
    lines.find_map(|line| Some((line, line.key_of(&descriptor.entries)?)))
}

fn response(statuses: Vec<Status>) -> RateLimitResponse {
    let is_over = statuses.iter().any(|it| it.code == Code::OverLimit);
    let code = if is_over { Code::OverLimit } else { Code::Ok };
    let (response_headers, dynamic_metadata) = (Vec::new(), None);
    messages::response(Answer { code, statuses, response_headers, dynamic_metadata })
}
