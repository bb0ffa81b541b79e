//! One request against all policies of a limit: all are judged, then all are charged or none.

use smallvec::SmallVec;

use crate::decision::{Decision, NEVER, Notes, Outcome, Source};
use crate::kernel::{Ask, Overflow, Rule};
use crate::limit::Limit;
use crate::number::MAX_EXACT;
use crate::policy::{DeniedCharge, Enforcement, Policy};
use crate::request::{Costs, Operation, Request};
use crate::standing::{Charge, Standing};
use crate::store::{StoreError, StoreErrorKind};

/// A decision, and which states it changed.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The answer.
    pub decision: Decision,
    /// The policies whose state has to be kept, as bits in the order of the limit.
    pub changed: u64,
}

/// What one policy is asked, and what it says.
#[derive(Clone, Copy)]
struct Verdict {
    /// 0: not judged, not charged.
    cost: u64,
    ask: Ask,
    /// Of a log: the strategies that refuse, as bits.
    violated: u32,
}

impl Verdict {
    const fn passed(cost: u64) -> Self {
        Self { cost, ask: Ask::Pass { wait: 0 }, violated: 0 }
    }

    fn of(rule: &Rule, standing: &Standing<'_>, cost: u64, within: Option<u64>) -> Self {
        if cost == 0 {
            return Self::passed(0);
        }
        let ask = standing.ask(rule, cost, within);
        let violated = match ask {
            Ask::Refuse { .. } => standing.violated(rule, cost),
            Ask::Pass { .. } => 0,
        };
        Self { cost, ask, violated }
    }
}

/// Judges a request against every policy of a limit and charges the standings accordingly.
///
/// `standings` are in the order of the limit. On an error nothing was charged.
///
/// # Errors
/// [`StoreErrorKind::InvalidRequest`] for costs out of range, [`StoreErrorKind::Unsupported`] for
/// a reservation the policies can't offer, [`StoreErrorKind::Overflow`] for a cost or debt that a
/// state can't hold.
pub fn evaluate(
    limit: &Limit,
    standings: &mut [Standing<'_>],
    operation: Operation,
    costs: Costs<'_>,
) -> Result<Evaluation, StoreError> {
    check_request(limit, operation, costs)?;
    let evaluator = Evaluator { limit, standings, verdicts: SmallVec::new(), changed: 0 };
    match operation {
        Operation::Check => evaluator.check(costs, None, true),
        Operation::Peek => evaluator.check(costs, None, false),
        Operation::Reserve { within } => evaluator.check(costs, Some(within.as_micros()), true),
        Operation::TakeUpTo => evaluator.take_up_to(costs),
        Operation::Charge => evaluator.charge(costs),
        Operation::Refund => evaluator.refund(costs),
        Operation::Reset => evaluator.reset(costs),
    }
}

/// The answer to a check that a store has admitted and charged by itself, from the states after
/// the charge: every policy admitted, and none makes the caller wait.
pub fn admitted(limit: &Limit, standings: &mut [Standing<'_>], costs: Costs<'_>) -> Decision {
    let mut evaluator = Evaluator { limit, standings, verdicts: SmallVec::new(), changed: 0 };
    for index in 0..evaluator.standings.len() {
        evaluator.verdicts.push(Verdict::passed(cost_of(limit, costs, index)));
    }
    let granted = evaluator.granted(costs);
    evaluator.finish(true, granted).decision
}

/// The cost a request has under the policy at `index`.
#[must_use]
pub fn cost_of(limit: &Limit, costs: Costs<'_>, index: usize) -> u64 {
    match costs {
        Costs::Own => limit.members()[index].policy().cost().get(),
        Costs::Same(cost) => cost.get(),
        Costs::Each(each) => each[index],
    }
}

/// Refuses a question that a limit can't answer, whatever its states.
///
/// # Errors
/// [`StoreErrorKind::InvalidRequest`] for costs that don't fit the limit,
/// [`StoreErrorKind::Unsupported`] for a reservation the policies can't offer.
pub fn check_request(
    limit: &Limit,
    operation: Operation,
    costs: Costs<'_>,
) -> Result<(), StoreError> {
    if matches!(operation, Operation::Reserve { .. }) && !limit.can_reserve() {
        return Err(StoreError::new(
            StoreErrorKind::Unsupported,
            format!(
                "limit `{}` can't be reserved: every policy has to be of the bucket family \
                 (token_bucket, gcra, leaky_bucket, shaper, smooth, warmup)",
                limit.name()
            ),
        ));
    }
    let Costs::Each(each) = costs else {
        return Ok(());
    };
    if each.len() != limit.members().len() {
        return Err(StoreError::new(
            StoreErrorKind::InvalidRequest,
            format!(
                "{} costs were given for the {} policies of limit `{}`",
                each.len(),
                limit.members().len(),
                limit.name()
            ),
        ));
    }
    match each.iter().find(|&&cost| cost > MAX_EXACT) {
        Some(cost) => Err(StoreError::new(
            StoreErrorKind::InvalidRequest,
            format!("cost is {cost}, but must be a whole number from 0 to {MAX_EXACT}"),
        )),
        None => Ok(()),
    }
}

/// Refuses a request that hasn't a subject for each part of its limit.
///
/// # Errors
/// [`StoreErrorKind::InvalidRequest`].
#[inline]
pub fn check_subjects(limit: &Limit, request: &Request<'_>) -> Result<(), StoreError> {
    if request.also.len() + 1 == limit.parts().len() {
        Ok(())
    } else {
        Err(wrong_subjects(limit, request.also.len() + 1))
    }
}

#[cold]
fn wrong_subjects(limit: &Limit, count: usize) -> StoreError {
    StoreError::new(
        StoreErrorKind::InvalidRequest,
        format!(
            "limit `{}` needs {} subjects, one for each of its parts, but {count} were given",
            limit.name(),
            limit.parts().len()
        ),
    )
}

struct Evaluator<'e, 's> {
    limit: &'e Limit,
    standings: &'e mut [Standing<'s>],
    verdicts: SmallVec<[Verdict; 16]>,
    changed: u64,
}

impl Evaluator<'_, '_> {
    fn check(
        mut self,
        costs: Costs<'_>,
        within: Option<u64>,
        charge: bool,
    ) -> Result<Evaluation, StoreError> {
        let mut allowed = true;
        let mut act_in = 0;
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            let policy = self.policy(index);
            let verdict = Verdict::of(policy.rule(), &self.standings[index], cost, within);
            if policy.enforcement() == Enforcement::Enforced {
                match verdict.ask {
                    Ask::Pass { wait } => act_in = act_in.max(wait),
                    Ask::Refuse { .. } => allowed = false,
                }
            }
            self.verdicts.push(verdict);
        }
        if charge {
            self.settle(allowed, act_in)?;
        }
        let granted = if allowed { self.granted(costs) } else { 0 };
        Ok(self.finish(allowed, granted))
    }

    /// Charges what passed, and what is charged although it did not.
    fn settle(&mut self, allowed: bool, act_in: u64) -> Result<(), Overflow> {
        let charges = |evaluator: &Self, index: usize| {
            let policy = evaluator.policy(index);
            let Verdict { cost, ask, .. } = evaluator.verdicts[index];
            let shadow = policy.enforcement() == Enforcement::Shadow;
            let denied = if shadow { matches!(ask, Ask::Refuse { .. }) } else { !allowed };
            match (cost, ask) {
                (0, _) => Charge::None,
                (cost, Ask::Pass { wait }) if !denied => {
                    Charge::Admitted { cost, wait, act_in: if shadow { wait } else { act_in } }
                }
                (cost, _) if policy.denied_charge() == DeniedCharge::Charged => {
                    Charge::Denied { cost }
                }
                _ => Charge::None,
            }
        };
        // A log changes in place: make sure that nothing can fail before anything has changed.
        for index in 0..self.standings.len() {
            let charge = charges(self, index);
            self.standings[index].prepare(self.limit.members()[index].policy().rule(), charge)?;
        }
        for index in 0..self.standings.len() {
            let charge = charges(self, index);
            if !matches!(charge, Charge::None) {
                self.standings[index].apply(self.limit.members()[index].policy().rule(), charge)?;
                self.changed |= 1 << index;
            }
        }
        Ok(())
    }

    fn take_up_to(mut self, costs: Costs<'_>) -> Result<Evaluation, StoreError> {
        let mut granted = u64::MAX;
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            if cost > 0 && self.policy(index).enforcement() == Enforcement::Enforced {
                let most = self.standings[index].remaining_before(self.policy(index).rule());
                granted = granted.min(most).min(cost);
            }
        }
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            let rule = self.limit.members()[index].policy().rule();
            let shadow = self.policy(index).enforcement() == Enforcement::Shadow;
            let most = if shadow {
                self.standings[index].remaining_before(rule).min(cost)
            } else {
                granted
            };
            // When there is nothing at all: say when a single unit would pass.
            let cost = if cost == 0 { 0 } else { most.max(1) };
            self.verdicts.push(Verdict::of(rule, &self.standings[index], cost, None));
        }
        let allowed = granted > 0;
        let act_in = self.longest_wait();
        self.settle(allowed, act_in)?;
        let granted = if allowed { self.granted(costs) } else { 0 };
        Ok(self.finish(allowed, granted))
    }

    fn charge(mut self, costs: Costs<'_>) -> Result<Evaluation, StoreError> {
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            self.verdicts.push(Verdict::passed(cost));
            let rule = self.limit.members()[index].policy().rule();
            let charge = if cost == 0 { Charge::None } else { Charge::Forced { cost } };
            self.standings[index].prepare(rule, charge)?;
        }
        for index in 0..self.standings.len() {
            let cost = self.verdicts[index].cost;
            if cost > 0 {
                let rule = self.limit.members()[index].policy().rule();
                self.standings[index].apply(rule, Charge::Forced { cost })?;
                self.changed |= 1 << index;
            }
        }
        let granted = self.granted(costs);
        Ok(self.finish(true, granted))
    }

    fn refund(mut self, costs: Costs<'_>) -> Result<Evaluation, StoreError> {
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            self.verdicts.push(Verdict::passed(cost));
            if cost > 0 && self.standings[index].is_known() {
                self.standings[index].refund(self.limit.members()[index].policy().rule(), cost);
                self.changed |= 1 << index;
            }
        }
        Ok(self.finish(true, 0))
    }

    /// The answer of a subject that was just forgotten: the standings are fresh ones.
    fn reset(mut self, costs: Costs<'_>) -> Result<Evaluation, StoreError> {
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            self.verdicts.push(Verdict::passed(cost));
        }
        Ok(self.finish(true, 0))
    }

    fn finish(self, allowed: bool, granted: u64) -> Evaluation {
        let mut binding: Option<(u8, u64)> = None;
        let mut wait = 0;
        let mut policies = SmallVec::new();
        for (index, (standing, verdict)) in self.standings.iter().zip(&self.verdicts).enumerate() {
            let policy = self.policy(index);
            let outcome = outcome(policy, standing, *verdict);
            if !outcome.shadow {
                wait = wait.max(outcome.wait);
                if !outcome.admitted && binding.is_none_or(|(_, longest)| outcome.retry > longest) {
                    binding = Some((u8::try_from(index).unwrap_or(u8::MAX), outcome.retry));
                }
            }
            policies.push(outcome);
        }
        let decision = Decision {
            allowed,
            source: Source::Store,
            notes: Notes::default(),
            binding: binding.filter(|_| !allowed).map(|(index, _)| index),
            granted,
            wait: if allowed { wait } else { 0 },
            retry: binding.filter(|_| !allowed).map_or(0, |(_, retry)| retry),
            policies,
        };
        Evaluation { decision, changed: self.changed }
    }

    fn policy(&self, index: usize) -> &Policy {
        self.limit.members()[index].policy()
    }

    /// What an allowed request was granted. Where nothing is enforced, that is all it asked for;
    /// shadows take what they like.
    fn granted(&self, costs: Costs<'_>) -> u64 {
        let enforced = |index: &usize| self.policy(*index).enforcement() == Enforcement::Enforced;
        let indices = 0..self.verdicts.len();
        let granted = indices
            .clone()
            .filter(enforced)
            .map(|index| self.verdicts[index].cost)
            .max()
            .unwrap_or(0);
        let asked =
            || indices.clone().map(|index| cost_of(self.limit, costs, index)).max().unwrap_or(0);
        if granted > 0 { granted } else { asked() }
    }

    fn longest_wait(&self) -> u64 {
        let enforced = |index: &usize| self.policy(*index).enforcement() == Enforcement::Enforced;
        (0..self.verdicts.len())
            .filter(enforced)
            .map(|index| match self.verdicts[index].ask {
                Ask::Pass { wait } => wait,
                Ask::Refuse { .. } => 0,
            })
            .max()
            .unwrap_or(0)
    }
}

fn outcome(policy: &Policy, standing: &Standing<'_>, verdict: Verdict) -> Outcome {
    let rule = policy.rule();
    let reset = standing.reset_after(rule);
    let (admitted, wait, retry) = match verdict.ask {
        Ask::Pass { wait } => (true, wait, 0),
        Ask::Refuse { retry } => (false, 0, retry.unwrap_or(NEVER)),
    };
    let (total, current) = standing.counts(rule);
    Outcome {
        limit: rule.limit(),
        remaining: standing.remaining(rule),
        wait,
        retry,
        reset,
        total,
        current,
        violated: verdict.violated,
        admitted,
        shadow: policy.enforcement() == Enforcement::Shadow,
    }
}
