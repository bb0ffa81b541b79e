//! Requests with an id, and their remembered answers.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_core::{Hold, Idempotency, RequestId};

use super::answer::{Answer, Repeat};
use super::{Model, Named, Operation, Refusal};
use crate::times::micros;

/// The remembered requests, by key and id.
pub(super) type Known = HashMap<(Vec<u8>, RequestId), Remembered>;

/// An allowed request that is remembered.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    until: u64,
    asked: Asked,
    answer: Answer,
    policies: Vec<Named>,
}

/// The content of a request: the operation, the units of each policy, and the duration of the hold.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Asked(std::mem::Discriminant<Operation>, Vec<(String, u64)>, Option<Duration>);

impl Model {
    /// Decides a request with an id, as [`Model::apply`] or [`Model::apply_holding`] do.
    ///
    /// # Errors
    /// Returns the errors of these, and an error if a different request had this id.
    pub fn apply_once(
        &mut self,
        now_us: u64,
        key: &[u8],
        operation: &Operation,
        hold: Option<&Hold>,
        once: Idempotency,
    ) -> Result<Answer, Refusal> {
        if hold.is_none() && self.needs_hold(operation) {
            return Err(Refusal::NeedsHold);
        }
        let units = self.policies.iter().enumerate().map(|(index, named)| {
            (named.name.clone(), operation.units_for(index, named.policy.cost().get()))
        });
        let asked = Asked(
            std::mem::discriminant(operation),
            units.filter(|(_, units)| *units > 0).collect(),
            hold.map(|hold| hold.lasts),
        );
        let place = (key.to_vec(), once.id);
        if let Some(known) = self.known.get(&place).filter(|known| known.until > now_us) {
            if known.asked != asked {
                return Err(Refusal::AsksOtherwise);
            }
            let is_same = known.policies == self.policies;
            let repeat = if is_same { Repeat::Same } else { Repeat::Renumbered };
            return Ok(Answer { repeat, ..known.answer.clone() });
        }
        let answer = self.decide(now_us, key, operation, None, hold, None)?;
        if answer.allowed {
            let until = now_us + micros(once.lasts);
            let policies = self.policies.clone();
            let known = Remembered { until, asked, answer: answer.clone(), policies };
            self.known.insert(place, known);
        }
        Ok(answer)
    }
}
