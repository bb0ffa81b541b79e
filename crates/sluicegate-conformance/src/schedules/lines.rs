//! Random reservations that wait and are cancelled.

use std::fmt;

use sluicegate_core::{HoldId, Policy};

use super::requests::Walk;
use super::{Dice, Plan, pauses, random_policies, renumber};
use crate::reference::{Answer, Costs, Model, Operation, Refusal, Reserved};

/// A limit and a sequence of reservations.
#[derive(Clone, Debug)]
pub struct LineSchedule {
    /// The seed it was made from.
    pub seed: u64,
    /// The limit's initial policies.
    pub policies: Vec<Policy>,
    /// The steps, in order.
    pub steps: Vec<LineStep>,
}

/// One step of a schedule with reservations.
#[derive(Clone, Debug)]
pub enum LineStep {
    /// New numbers for the policies. Their names, algorithms and windows don't change.
    SetPolicies(Vec<Policy>),
    /// A request.
    Ask {
        /// Microseconds since the Unix epoch.
        now_us: u64,
        /// The key.
        key: Vec<u8>,
        /// The operation.
        operation: Operation,
        /// The id of a reservation's queue position.
        id: Option<HoldId>,
        /// The model's answer.
        expected: Box<Result<Answer, Refusal>>,
    },
    /// A cancellation of an earlier step's reservation.
    Cancel {
        /// Microseconds since the Unix epoch.
        now_us: u64,
        /// The index of the step that reserved.
        reserved_at: usize,
        /// Whether anything was given back.
        expected: bool,
    },
}

impl Plan {
    /// Returns the schedule of reservations that a seed generates.
    ///
    /// Reservations are often cancelled: in the middle of the queue, at its end, twice, and too
    /// late. If time steps back, a store may have removed positions whose instant has passed.
    #[must_use]
    pub fn line_schedule(&self, seed: u64) -> LineSchedule {
        let mut dice = Dice::new(seed);
        let count = if dice.one_in(2) { 1 } else { 1 + dice.below_len(self.max_policies.max(1)) };
        let policies = random_policies(&mut dice, &self.kinds, count);
        let mut model = Model::with_clock(policies.clone(), self.clock);
        let mut walk = Walk::new(self, &mut dice, &policies);
        let mut current = policies.clone();
        let mut reserved: Vec<(usize, u64, Reserved)> = Vec::new();
        let mut steps = Vec::with_capacity(self.steps);
        for _ in 0..self.steps {
            if self.may_renumber && dice.one_in(30) {
                current = current.iter().map(|policy| renumber(&mut dice, policy)).collect();
                model.set_policies(current.clone());
                steps.push(LineStep::SetPolicies(current.clone()));
                continue;
            }
            let end = next_instant(&mut dice, &reserved);
            let end = end.or_else(|| pauses::edge(&mut dice, &model));
            let (now_us, key, operation) = walk.next(&mut dice, &current, end);
            if !reserved.is_empty() && dice.one_in(3) {
                // Usually one of the newest; older ones were cancelled or have acted.
                let back = if dice.one_in(4) { reserved.len() } else { reserved.len().min(4) };
                let index = reserved.len() - 1 - dice.below_len(back);
                let (reserved_at, made, what) = reserved[index].clone();
                // Usually before its turn.
                let is_soon = dice.one_in(4) || what.acts_at().is_none_or(|at| at > now_us);
                let now_us = if is_soon || !self.may_step_back { now_us } else { made };
                let expected = model.cancel(now_us, &what);
                steps.push(LineStep::Cancel { now_us, reserved_at, expected });
                continue;
            }
            let (operation, key) = more_reservations(&mut dice, operation, key);
            let mut id = None;
            let expected = if let Operation::Reserve { .. } = operation {
                id = (!dice.one_in(5)).then(|| new_id(&mut dice));
                let answered = model.reserve(now_us, &key, &operation, id);
                answered.map(|(answer, what)| {
                    reserved.extend(what.map(|what| (steps.len(), now_us, what)));
                    answer
                })
            } else {
                model.apply(now_us, &key, &operation)
            };
            walk.learn(&expected);
            let expected = Box::new(expected);
            steps.push(LineStep::Ask { now_us, key, operation, id, expected });
        }
        LineSchedule { seed, policies, steps }
    }
}

/// Returns a time close to a reservation's start or instant, in about 5 of 8 cases.
fn next_instant(dice: &mut Dice, reserved: &[(usize, u64, Reserved)]) -> Option<u64> {
    if reserved.is_empty() {
        return None;
    }
    let (_, made, what) = &reserved[reserved.len() - 1 - dice.below_len(reserved.len().min(6))];
    match dice.below(8) {
        0 => what.acts_at().map(|at| at + dice.below(3) - 1),
        1..5 => Some(*made + dice.below(3)),
        _ => None,
    }
}

/// Turns most requests into reservations that wait.
fn more_reservations(dice: &mut Dice, operation: Operation, key: Vec<u8>) -> (Operation, Vec<u8>) {
    let is_rare = matches!(operation, Operation::Reserve { .. }) || dice.one_in(3);
    if is_rare {
        return (operation, key);
    }
    let costs = match operation {
        Operation::Check { costs } | Operation::Take { costs } => costs,
        _ => Costs::Unsaid,
    };
    let within_us = dice.pick(&[1_000_000, 10_000_000, 3_600_000_000, 86_400_000_000 * 40]);
    (Operation::Reserve { costs, within_us }, if dice.one_in(8) { key } else { b"a".to_vec() })
}

fn new_id(dice: &mut Dice) -> HoldId {
    let (one, two) = (dice.next(), dice.next());
    HoldId::from_bytes((u128::from(one) << 64 | u128::from(two)).to_be_bytes())
}

impl fmt::Display for LineSchedule {
    /// Writes the policies as specs and one line per step, for a failing test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specs = |policies: &[Policy]| {
            policies.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
        };
        writeln!(f, "seed {}: {}", self.seed, specs(&self.policies))?;
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                LineStep::SetPolicies(policies) => writeln!(f, "{index}: {}", specs(policies))?,
                LineStep::Ask { now_us, key, operation, id, expected } => {
                    let said = (**expected).as_ref().map(|answer| (answer.allowed, answer.wait_us));
                    let (key, is_named) = (key.escape_ascii(), id.is_some());
                    writeln!(
                        f,
                        "{index}: at {now_us} `{key}` {operation:?} {is_named} -> {said:?}"
                    )?;
                }
                LineStep::Cancel { now_us, reserved_at, expected } => {
                    writeln!(f, "{index}: at {now_us} cancel {reserved_at} -> {expected}")?;
                }
            }
        }
        Ok(())
    }
}
