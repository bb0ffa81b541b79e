//! Requests to limits, and their answers.

use sluicegate::decision::Holding;
use sluicegate::question::{Question, ToHold};
use sluicegate::store::Operation;
use sluicegate::{Ask, Error, Gate, Grant, Usage};
use sluicegate_resp::{Cost, Decide, Held, Output, Throttle, Verb, write_decision};

use super::problem::Problem;
use crate::access::Call;
use crate::http::ApiError;

/// A request that makes one decision, and waits for no units.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Decide(Decide<'a>),
    Throttle(Throttle<'a>),
}

impl<'a> Asked<'a> {
    /// Returns the kind of the call, for the rights of its caller.
    pub(super) const fn call(&self) -> Call {
        let decide = match self {
            Self::Decide(decide) => decide,
            Self::Throttle(_) => return Call::Take,
        };
        match decide.verb {
            Verb::Check if decide.hold.is_some() => Call::Hold,
            Verb::Check => Call::Take,
            Verb::Peek => Call::Peek,
            Verb::Charge | Verb::Refund | Verb::Reset => Call::Administer,
        }
    }

    /// Returns the request to the gate of its limit.
    pub(super) fn question<'q>(&self, gate: &'q Gate) -> Question<'q, Gate, ToHold<'q>>
    where
        'a: 'q,
    {
        match self {
            Self::Decide(decide) => question(decide, gate),
            Self::Throttle(Throttle { key, quantity, .. }) => {
                let question = match quantity {
                    0 => gate.decide(Operation::Peek, *key),
                    units => gate.decide(Operation::Check, *key).cost(*units),
                };
                question.holding(Holding::as_needed())
            }
        }
    }

    /// Writes the answer.
    pub(super) fn write(&self, gate: &Gate, answer: &Result<Grant, Error>, output: &mut Output) {
        let decided = answer.as_ref().map_err(Problem::from).and_then(|grant| decided(gate, grant));
        match (decided, self) {
            (Err(problem), _) => problem.write(output),
            (Ok(grant), Self::Decide(decide)) => write_grant(decide, grant, output),
            (Ok(grant), Self::Throttle(throttle)) => throttle.write(grant, output),
        }
    }
}

/// Returns the request to the gate of its limit.
pub(super) fn question<'q>(decide: &Decide<'q>, gate: &'q Gate) -> Question<'q, Gate, ToHold<'q>> {
    let ask = match decide.cost {
        Cost::Own => Ask::new(decide.key),
        Cost::Units(units) => Ask::new(decide.key).cost(units),
        Cost::Each(each) => each
            .iter()
            .fold(Ask::new(decide.key), |ask, (policy, units)| ask.cost_of(policy, units)),
    };
    let holding = decide.hold.map_or(Holding::as_needed(), Holding::lasting);
    gate.decide(decide.verb.operation(), ask).holding(holding)
}

/// Returns the usage for settling a hold.
pub(super) fn usage(used: Cost<'_>) -> Usage<'_> {
    match used {
        Cost::Own => Usage::as_charged(),
        Cost::Units(units) => Usage::of_every(units),
        Cost::Each(each) => {
            each.iter().fold(Usage::as_charged(), |usage, (policy, units)| usage.and(policy, units))
        }
    }
}

/// Returns a grant, unless the store failed and the limit denies requests then.
fn decided<'g>(gate: &Gate, grant: &'g Grant) -> Result<&'g Grant, Problem> {
    if grant.is_denied() && grant.is_assumed() {
        return Err(ApiError::failed_closed(gate.name()).into());
    }
    Ok(grant)
}

/// Writes a decision, with its hold if the command wants one or the limit has permits.
fn write_grant(decide: &Decide<'_>, grant: &Grant, output: &mut Output) {
    let held = grant.hold().zip(grant.token());
    let held = held.map(|(hold, token)| (token.to_string(), hold.lasts));
    let held = held.as_ref().map(|(token, lasts)| Held { token, lasts: *lasts });
    let has_hold = held.is_some() || decide.hold.is_some();
    write_decision(grant, has_hold.then_some(held), output);
}
