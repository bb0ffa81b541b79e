//! Requests to the limit of a descriptor.

use std::sync::{Arc, OnceLock};

use sluicegate::question::{Question, ToDecide, batched};
use sluicegate::{Decision, Gate};
use sluicegate_core::{BoxFuture, HoldToken, MAX_EXACT, Span};

use super::numbers::policy;
use crate::incumbent::{Charge, Override};

/// A request to the limit of a descriptor.
pub(super) type Asked<'a> = Question<'a, Gate, ToDecide<'a>>;

/// Decides on all requests in one call of the store, in their order.
///
/// The box is one for all requests. A future that holds them itself couldn't be sent to another thread: the compiler
/// can't check it for every lifetime.
pub(super) fn decide<'a>(
    requests: impl Iterator<Item = Asked<'a>>,
) -> BoxFuture<'a, Vec<Result<Decision, sluicegate::Error>>> {
    Box::pin(batched(requests))
}

/// Returns the request to a limit about a key. `own` is the limit of a descriptor that brings one. Hits of 0 change
/// nothing.
pub(super) fn ask<'a>(
    gate: &'a Gate,
    key: &'a [u8],
    own: Option<Override>,
    charge: Charge,
) -> Asked<'a> {
    let question = match charge {
        Charge::Add(0) | Charge::Refund(0) | Charge::Skip => gate.peek(key),
        Charge::Add(hits) => gate.check(key).cost(hits.min(MAX_EXACT)),
        Charge::Refund(hits) => gate.refund(key).cost(hits.min(MAX_EXACT)),
    };
    // Each number and unit of the protocol is a policy.
    match own.and_then(|own| policy(own.requests_per_unit, own.unit).ok()) {
        Some(policy) => question.with([policy]),
        None => question,
    }
}

/// Charges hits unconditionally, also beyond the limit.
pub(super) async fn force(
    gate: &Gate,
    key: &[u8],
    hits: u64,
) -> Result<Decision, sluicegate::Error> {
    gate.charge(key).cost(hits.min(MAX_EXACT)).await
}

/// The token of a hold, once its request is answered.
pub(super) type Held = Arc<OnceLock<HoldToken>>;

/// Asks a limit about a key, and holds the hits for a time.
pub(super) async fn hold(
    gate: &Gate,
    key: &[u8],
    hits: u64,
    lasts: Span,
    held: Held,
) -> Result<Decision, sluicegate::Error> {
    let asked = gate.check(key).cost(hits.min(MAX_EXACT));
    let grant = asked.hold(lasts.into()).await?;
    if let Some(token) = grant.token() {
        held.get_or_init(|| token.clone());
    }
    Ok(grant.into_decision())
}
