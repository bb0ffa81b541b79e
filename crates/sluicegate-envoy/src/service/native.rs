//! Descriptors that the configuration of a registry assigns to its limits.

use std::borrow::Cow;

use sluicegate::config::Switch;
use sluicegate::http::{Key, OnMissingKey};
use sluicegate::{Decision, Error, Gate, Registry};
use sluicegate_core::for_stores::DecisionForStores as _;

use super::asking::{Asked, ask, decide};
use super::assigned::{find, missing_key};
use super::messages;
use super::quotas::Quotas;
use super::rights::Rights;
use super::rls::Answering;
use super::statuses::status;
use crate::incumbent::{Answer, Charge, Code, Override, Status};
use crate::protos::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// The limits of a registry, for the descriptors that its configuration assigns to them (`envoy`).
#[derive(Clone, Debug)]
pub struct NativeLimits {
    registry: Registry,
    quotas: Quotas,
}

impl NativeLimits {
    /// Makes the limits of a registry. They follow its configuration.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self::with_quotas(Quotas::new(registry))
    }

    /// Makes the limits of the registry that these quotas have.
    #[must_use]
    pub fn with_quotas(quotas: Quotas) -> Self {
        Self { registry: quotas.registry().clone(), quotas }
    }

    /// Returns the quotas of the limits.
    #[must_use]
    pub const fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    pub(super) const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Decides on descriptors in one call of the store, in their order.
    ///
    /// A client chooses values. So a key that doesn't fit the limit, such as an empty one, counts as a missing key, as in
    /// middleware. An error instead would be a way around the limit, because Envoy lets failed calls pass.
    async fn decide(&self, asked: &mut [About<'_>]) -> Vec<Result<Decision, Error>> {
        let mut decisions = decide(asked.iter().map(About::ask)).await;
        let mut shared = Vec::new();
        for (index, (about, decision)) in asked.iter_mut().zip(&mut decisions).enumerate() {
            let Err(error) = &*decision else { continue };
            let Some(missing) = missing_key(&self.registry, about.gate.name(), error) else {
                continue;
            };
            match missing {
                OnMissingKey::Refuse => *decision = Ok(Decision::bypass(false)),
                OnMissingKey::Skip => *decision = Ok(Decision::bypass(true)),
                _ => {
                    about.key = Key::shared().as_bytes().to_vec().into();
                    shared.push(index);
                }
            }
        }
        if !shared.is_empty() {
            let again = decide(shared.iter().map(|index| asked[*index].ask())).await;
            for (index, decision) in shared.into_iter().zip(again) {
                decisions[index] = decision;
            }
        }
        decisions
    }
}

/// The request about a descriptor.
struct About<'e> {
    gate: Gate,
    key: Cow<'e, [u8]>,
    own: Option<Override>,
    charge: Charge,
}

impl About<'_> {
    fn ask(&self) -> Asked<'_> {
        ask(&self.gate, &self.key, self.own, self.charge)
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
            let Some((line, key)) = find(domain, &descriptor.entries) else { continue };
            rights.ask(line.limit().as_str())?;
            let gate = self.registry.gate(line.limit().as_str());
            let hits = request.hits(descriptor);
            let charge =
                if descriptor.is_negative_hits { Charge::Refund(hits) } else { Charge::Add(hits) };
            let about = About { gate, key, own: descriptor.limit, charge };
            asked.push((status, about));
        }
        let (statuses_of_asked, mut asked): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
        let decisions = self.decide(&mut asked).await;
        for (status, decision) in statuses_of_asked.into_iter().zip(decisions) {
            let decision = decision.map_err(|error| messages::failure(&error))?;
            *status = self::status(&decision);
        }
        Ok(response(statuses))
    }
}

fn response(statuses: Vec<Status>) -> RateLimitResponse {
    let is_over = statuses.iter().any(|it| it.code == Code::OverLimit);
    let code = if is_over { Code::OverLimit } else { Code::Ok };
    let (response_headers, dynamic_metadata) = (Vec::new(), None);
    messages::response(Answer { code, statuses, response_headers, dynamic_metadata })
}
