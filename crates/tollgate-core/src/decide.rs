//! One request against all policies of a limit: all are judged, then all are charged or none.

use smallvec::SmallVec;

use crate::decision::{Decision, NEVER, Notes, Outcome, Source};
use crate::kernel::{Ask, Overflow, Rule, Times, bucket, counter, log, warm_up, window};
use crate::limit::Limit;
use crate::number::MAX_EXACT;
use crate::policy::{DeniedCharge, Enforcement, Policy};
use crate::request::{Costs, Operation};
use crate::store::{StoreError, StoreErrorKind};

/// A policy's state, brought to the time of judgement.
#[derive(Debug)]
#[non_exhaustive]
pub enum Standing<'a> {
    /// Of the bucket family.
    Bucket(bucket::Standing),
    /// Of a two-cell counter.
    Counter(counter::Standing),
    /// Of a log or ring that is at hand.
    Log {
        /// The state, restamped already if that was due.
        state: &'a mut log::State,
        /// The time of judgement.
        at: u64,
    },
    /// Of a log or ring that stays in the store, which judged it.
    Read(Reading),
    /// Of a warm-up.
    WarmUp(warm_up::Standing),
    /// Of a fixed window.
    Window(window::Standing),
}

/// What a store that judged a log by itself says of it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Whether the cost passes.
    pub ask: Ask,
    /// The strategies that refuse, as bits.
    pub violated: u32,
    /// The largest cost that would have been admitted before the decision.
    pub remaining_before: u64,
    /// The same after it.
    pub remaining: u64,
    /// The time until the last entry has left, in µs.
    pub reset_after: u64,
    /// The units that count now over the longest window.
    pub total: u64,
    /// The units in the current slice.
    pub current: u64,
}

/// A decision, and which states it changed.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The answer.
    pub decision: Decision,
    /// The policies whose state has to be kept, as bits in the order of the limit.
    pub changed: u64,
}

impl Evaluation {
    /// Whether the state of the policy at `index` has to be kept.
    #[must_use]
    pub const fn is_changed(&self, index: usize) -> bool {
        self.changed & (1 << index) != 0
    }
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
        let ask = ask(rule, standing, cost, within);
        let violated = match (ask, rule, standing) {
            (Ask::Refuse { .. }, Rule::Log(rule), Standing::Log { state, at }) => {
                rule.violated(state, *at, cost)
            }
            (Ask::Refuse { .. }, _, Standing::Read(reading)) => reading.violated,
            _ => 0,
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
            prepare(self.limit.members()[index].policy().rule(), &self.standings[index], charge)?;
        }
        for index in 0..self.standings.len() {
            let charge = charges(self, index);
            if !matches!(charge, Charge::None) {
                apply(
                    self.limit.members()[index].policy().rule(),
                    &mut self.standings[index],
                    charge,
                )?;
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
                let most = remaining_before(self.policy(index).rule(), &self.standings[index]);
                granted = granted.min(most).min(cost);
            }
        }
        for index in 0..self.standings.len() {
            let cost = cost_of(self.limit, costs, index);
            let rule = self.limit.members()[index].policy().rule();
            let shadow = self.policy(index).enforcement() == Enforcement::Shadow;
            let most = if shadow {
                remaining_before(rule, &self.standings[index]).min(cost)
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
            prepare(rule, &self.standings[index], charge)?;
        }
        for index in 0..self.standings.len() {
            let cost = self.verdicts[index].cost;
            if cost > 0 {
                let rule = self.limit.members()[index].policy().rule();
                apply(rule, &mut self.standings[index], Charge::Forced { cost })?;
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
                refund(
                    self.limit.members()[index].policy().rule(),
                    &mut self.standings[index],
                    cost,
                );
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

/// What a policy is charged.
#[derive(Clone, Copy)]
enum Charge {
    Admitted { cost: u64, wait: u64, act_in: u64 },
    Denied { cost: u64 },
    Forced { cost: u64 },
    None,
}

impl<'a> Standing<'a> {
    /// Whether there was a state: nothing can be given back to a key that was never used.
    fn is_known(&self) -> bool {
        match self {
            Self::Bucket(standing) => standing.is_known(),
            Self::Counter(standing) => standing.current() > 0,
            Self::Log { state, .. } => !state.entries.is_empty(),
            Self::Read(_) => true,
            Self::WarmUp(standing) => standing.is_known(),
            Self::Window(standing) => standing.is_open(),
        }
    }

    /// Brings the state of a policy that keeps no log to the time of judgement; `None` for one
    /// that does. The flag tells that the state was restamped.
    ///
    /// # Errors
    /// When the state can't be counted in the policy's present numbers.
    pub fn of(
        rule: &Rule,
        state: Option<&crate::packed::State>,
        times: Times,
    ) -> Result<Option<(Self, bool)>, Overflow> {
        use crate::packed::State;
        Ok(Some(match rule {
            Rule::Bucket(rule) => {
                let state = state.and_then(|state| {
                    if let State::Bucket(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times)?;
                (Self::Bucket(standing), restamped)
            }
            Rule::Counter(rule) => {
                let state = state.and_then(|state| {
                    if let State::Counter(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times)?;
                (Self::Counter(standing), restamped)
            }
            Rule::WarmUp(rule) => {
                let state = state.and_then(|state| {
                    if let State::WarmUp(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times)?;
                (Self::WarmUp(standing), restamped)
            }
            Rule::Window(rule) => {
                let state = state.and_then(|state| {
                    if let State::Window(state) = state { Some(*state) } else { None }
                });
                let (standing, restamped) = rule.stand(state, times);
                (Self::Window(standing), restamped)
            }
            Rule::Log(_) => return Ok(None),
        }))
    }

    /// Brings the state of a log or ring to the time of judgement; the flag tells that it was
    /// restamped.
    pub fn of_log(rule: &log::Log, state: &'a mut log::State, times: Times) -> (Self, bool) {
        let restamped = rule.needs_restamp(state, times);
        if restamped {
            rule.restamp(state, times.now);
        }
        let at = rule.at(state, times);
        (Self::Log { state, at }, restamped)
    }
}

fn ask(rule: &Rule, standing: &Standing<'_>, cost: u64, within: Option<u64>) -> Ask {
    match (rule, standing) {
        (Rule::Bucket(rule), Standing::Bucket(standing)) => rule.ask(standing, cost, within),
        (Rule::Counter(rule), Standing::Counter(standing)) => rule.ask(standing, cost),
        (Rule::Log(rule), Standing::Log { state, at }) => rule.ask(state, *at, cost),
        (Rule::WarmUp(rule), Standing::WarmUp(standing)) => rule.ask(standing, within),
        (Rule::Window(rule), Standing::Window(standing)) => rule.ask(standing, cost),
        (_, Standing::Read(reading)) => reading.ask,
        _ => mismatch(),
    }
}

/// Fails where [`apply`] would, without changing anything.
fn prepare(rule: &Rule, standing: &Standing<'_>, charge: Charge) -> Result<(), Overflow> {
    let (cost, denied) = match charge {
        Charge::Admitted { cost, .. } | Charge::Forced { cost } => (cost, false),
        Charge::Denied { cost } => (cost, true),
        Charge::None => return Ok(()),
    };
    match (rule, standing) {
        (Rule::Log(rule), Standing::Log { state, at }) => {
            let cost = if denied { cost.min(rule.limit()) } else { cost };
            rule.can_admit(state, *at, cost)
        }
        (Rule::Bucket(_), Standing::Bucket(standing)) => {
            apply(rule, &mut Standing::Bucket(*standing), charge)
        }
        (Rule::Counter(_), Standing::Counter(standing)) => {
            apply(rule, &mut Standing::Counter(*standing), charge)
        }
        (Rule::WarmUp(_), Standing::WarmUp(standing)) => {
            apply(rule, &mut Standing::WarmUp(*standing), charge)
        }
        (Rule::Window(_), Standing::Window(standing)) => {
            apply(rule, &mut Standing::Window(*standing), charge)
        }
        _ => Ok(()),
    }
}

fn apply(rule: &Rule, standing: &mut Standing<'_>, charge: Charge) -> Result<(), Overflow> {
    match (rule, standing, charge) {
        (
            Rule::Bucket(rule),
            Standing::Bucket(standing),
            Charge::Admitted { cost, wait, act_in },
        ) => rule.admit(standing, cost, wait, act_in),
        (Rule::Bucket(rule), Standing::Bucket(standing), Charge::Forced { cost }) => {
            rule.force(standing, cost)
        }
        (Rule::Bucket(rule), Standing::Bucket(standing), Charge::Denied { cost }) => {
            rule.charge_denied(standing, cost);
            Ok(())
        }
        (Rule::WarmUp(rule), Standing::WarmUp(standing), Charge::Admitted { cost, act_in, .. }) => {
            rule.admit(standing, cost, act_in)
        }
        (Rule::WarmUp(rule), Standing::WarmUp(standing), Charge::Forced { cost }) => {
            rule.admit(standing, cost, 0)
        }
        (Rule::WarmUp(rule), Standing::WarmUp(standing), Charge::Denied { cost }) => {
            rule.charge_denied(standing, cost);
            Ok(())
        }
        (Rule::Counter(rule), Standing::Counter(standing), Charge::Denied { cost }) => {
            rule.charge_denied(standing, cost);
            Ok(())
        }
        (
            Rule::Counter(rule),
            Standing::Counter(standing),
            Charge::Admitted { cost, .. } | Charge::Forced { cost },
        ) => rule.admit(standing, cost),
        (Rule::Window(rule), Standing::Window(standing), Charge::Denied { cost }) => {
            rule.charge_denied(standing, cost);
            Ok(())
        }
        (
            Rule::Window(rule),
            Standing::Window(standing),
            Charge::Admitted { cost, .. } | Charge::Forced { cost },
        ) => rule.admit(standing, cost),
        (Rule::Log(rule), Standing::Log { state, at }, Charge::Denied { cost }) => {
            rule.charge_denied(state, *at, cost)
        }
        (
            Rule::Log(rule),
            Standing::Log { state, at },
            Charge::Admitted { cost, .. } | Charge::Forced { cost },
        ) => rule.admit(state, *at, cost),
        (_, Standing::Read(_), _) | (_, _, Charge::None) => Ok(()),
        _ => mismatch(),
    }
}

fn refund(rule: &Rule, standing: &mut Standing<'_>, units: u64) {
    match (rule, standing) {
        (Rule::Bucket(rule), Standing::Bucket(standing)) => rule.refund(standing, units),
        (Rule::Counter(rule), Standing::Counter(standing)) => rule.refund(standing, units),
        (Rule::Log(rule), Standing::Log { state, at }) => rule.refund(state, *at, units),
        (Rule::WarmUp(rule), Standing::WarmUp(standing)) => rule.refund(standing, units),
        (Rule::Window(rule), Standing::Window(standing)) => rule.refund(standing, units),
        (_, Standing::Read(_)) => {}
        _ => mismatch(),
    }
}

fn remaining(rule: &Rule, standing: &Standing<'_>) -> u64 {
    match (rule, standing) {
        (Rule::Bucket(rule), Standing::Bucket(standing)) => rule.remaining(standing),
        (Rule::Counter(rule), Standing::Counter(standing)) => rule.remaining(standing),
        (Rule::Log(rule), Standing::Log { state, at }) => rule.remaining(state, *at),
        (Rule::WarmUp(rule), Standing::WarmUp(standing)) => rule.remaining(standing),
        (Rule::Window(rule), Standing::Window(standing)) => rule.remaining(standing),
        (_, Standing::Read(reading)) => reading.remaining,
        _ => mismatch(),
    }
}

fn remaining_before(rule: &Rule, standing: &Standing<'_>) -> u64 {
    match standing {
        Standing::Read(reading) => reading.remaining_before,
        standing => remaining(rule, standing),
    }
}

fn outcome(policy: &Policy, standing: &Standing<'_>, verdict: Verdict) -> Outcome {
    let rule = policy.rule();
    let reset = match (rule, standing) {
        (Rule::Bucket(rule), Standing::Bucket(standing)) => {
            rule.reset_after(standing).unwrap_or(NEVER)
        }
        (Rule::Counter(rule), Standing::Counter(standing)) => rule.reset_after(standing),
        (Rule::Log(rule), Standing::Log { state, at }) => rule.reset_after(state, *at),
        (Rule::WarmUp(rule), Standing::WarmUp(standing)) => {
            rule.reset_after(standing).unwrap_or(NEVER)
        }
        (Rule::Window(rule), Standing::Window(standing)) => rule.reset_after(standing),
        (_, Standing::Read(reading)) => reading.reset_after,
        _ => mismatch(),
    };
    let (admitted, wait, retry) = match verdict.ask {
        Ask::Pass { wait } => (true, wait, 0),
        Ask::Refuse { retry } => (false, 0, retry.unwrap_or(NEVER)),
    };
    let (total, current) = match (rule, standing) {
        (Rule::Log(rule), Standing::Log { state, at }) => {
            (rule.used(state, *at, rule.horizon()), rule.current(state, *at))
        }
        (_, Standing::Read(reading)) => (reading.total, reading.current),
        _ => (0, 0),
    };
    Outcome {
        limit: rule.limit(),
        remaining: remaining(rule, standing),
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

/// A store handed over the standing of another kernel.
#[cold]
fn mismatch() -> ! {
    #[expect(
        clippy::panic,
        reason = "a store builds each standing from the very rule it is judged by"
    )]
    {
        panic!("a standing belongs to another kernel than its rule")
    }
}
