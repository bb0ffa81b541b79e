//! Requests to the limit of a descriptor.

use std::sync::{Arc, OnceLock};

use sluicegate::{Decision, Gate};
use sluicegate_core::{HoldToken, MAX_EXACT, Policy, Span};

use crate::incumbent::Charge;

/// Asks a limit about a key. `numbers` are the policies of a request that brings its own. Hits of 0 change nothing.
pub(super) async fn ask(
    gate: &Gate,
    key: &[u8],
    numbers: Option<Policy>,
    charge: Charge,
) -> Result<Decision, sluicegate::Error> {
    macro_rules! asked {
        ($question:expr) => {
            match numbers {
                Some(numbers) => $question.with([numbers]).await,
                None => $question.await,
            }
        };
    }
    match charge {
        Charge::Add(0) | Charge::Refund(0) | Charge::Skip => asked!(gate.peek(key)),
        Charge::Add(hits) => asked!(gate.check(key).cost(hits.min(MAX_EXACT))),
        Charge::Refund(hits) => asked!(gate.refund(key).cost(hits.min(MAX_EXACT))),
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
