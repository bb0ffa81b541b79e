//! Requests to the limit of a descriptor.

use sluicegate::{Decision, Gate};
use sluicegate_core::{MAX_EXACT, Policy};

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
