//! Random requests that hold units, and their settlements. Some have an id and are repeated.

use std::fmt;
use std::time::Duration;

use sluicegate_core::{
    Algorithm, Ban, Hold, HoldId, Idempotency, OnExpiry, Policy, Queued, Span, Ticket,
};

use super::ids::{Ask, Askers};
use super::requests::Walk;
use super::{Dice, Plan, bans, pauses, random_policies, renumber};
use crate::reference::{Answer, Costs, Listed, Model, Operation, Refusal, Repeat, Settlement};
use crate::times::micros;

/// A limit and a sequence of requests that hold units.
#[derive(Clone, Debug)]
pub struct HoldSchedule {
    /// The seed it was made from.
    pub seed: u64,
    /// The limit's initial policies.
    pub policies: Vec<Policy>,
    /// The limit's rule for bans.
    pub ban: Option<Ban>,
    /// The rule for holds that expire without being settled.
    pub on_expiry: OnExpiry,
    /// The steps, in order.
    pub steps: Vec<HoldStep>,
}

/// One step of a schedule with holds. Time never steps back, because expired records may have been
/// removed permanently.
#[derive(Clone, Debug)]
pub enum HoldStep {
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
        /// The hold for the taken units.
        hold: Option<Hold>,
        /// The ticket, if the request may wait.
        ticket: Option<Ticket>,
        /// The id of the request.
        once: Option<Idempotency>,
        /// The model's answer.
        expected: Result<Answer, Refusal>,
    },
    /// A settlement or renewal of a hold.
    Settle {
        /// Microseconds since the Unix epoch.
        now_us: u64,
        /// The key.
        key: Vec<u8>,
        /// The id of the hold.
        id: HoldId,
        /// The kind of change.
        how: Settling,
        /// The model's answer.
        expected: Result<Settlement, Refusal>,
    },
    /// A request for the list of requests in flight.
    List {
        /// Microseconds since the Unix epoch.
        now_us: u64,
        /// The key.
        key: Vec<u8>,
        /// The page size.
        size: u64,
        /// All that the model lists.
        expected: Vec<Listed>,
        /// The number of waiters.
        waiting: u64,
    },
}

/// A change of a hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Settling {
    /// A settlement: the used units of each policy; `None` means the charged units.
    Used(Vec<Option<u64>>),
    /// A renewal for this duration.
    Renewed(Span),
}

impl Plan {
    /// Returns the schedule with holds and request ids that a seed generates. Its time never steps
    /// back, and it has no leases.
    #[must_use]
    pub fn hold_schedule(&self, seed: u64) -> HoldSchedule {
        let plan = Self { may_step_back: false, ..self.clone() };
        let mut dice = Dice::new(seed);
        let count = if dice.one_in(2) { 1 } else { 1 + dice.below_len(plan.max_policies.max(1)) };
        let mut policies = random_policies(&mut dice, &plan.kinds, count);
        if plan.queues {
            crowd(&mut dice, &mut policies);
        }
        let ban = plan.ban(&mut dice);
        let on_expiry = plan.on_expiry;
        let returns = on_expiry == OnExpiry::Return;
        let model = Model::with_clock(policies.clone(), plan.clock).banning(ban);
        let mut model = model.returning(returns);
        let mut walk = Walk::new(&plan, &mut dice, &policies);
        let mut current = policies.clone();
        let (mut holders, mut askers) = (Holders::default(), Askers::default());
        // The lists use their own generator, so they don't change the rest of the schedule.
        let mut lists = Lists(Dice::new(seed ^ LISTS));
        let mut latest = None;
        let mut steps = Vec::with_capacity(plan.steps);
        for _ in 0..plan.steps {
            if plan.may_renumber && dice.one_in(20) {
                current = current.iter().map(|policy| renumber(&mut dice, policy)).collect();
                if plan.queues {
                    crowd(&mut dice, &mut current);
                }
                model.set_policies(current.clone());
                steps.push(HoldStep::SetPolicies(current.clone()));
                continue;
            }
            let mut end = holders.end(&mut dice, if returns { 3 } else { 12 });
            if plan.queues && !dice.one_in(6) {
                // Many requests arrive while others still wait.
                end = end.or(latest.map(|latest| latest + dice.pick(&[0, 0, 1, 1_000, 20_000])));
            }
            let end = end.or_else(|| askers.end(&mut dice));
            let end = end.or_else(|| bans::edge(&mut dice, &model));
            let end = end.or_else(|| pauses::edge(&mut dice, &model));
            let (now_us, mut key, mut operation) = walk.next(&mut dice, &current, end);
            latest = Some(now_us);
            if plan.queues && dice.one_in(2) {
                let costs = Costs::Each(current.iter().map(|_| dice.between(1, 2)).collect());
                (key, operation) = (b"a".to_vec(), Operation::Check { costs });
            }
            if let Some((key, id)) = holders.somebody(&mut dice) {
                let how = Settling::random(&mut dice, current.len(), longest_hold(&current));
                let expected = how.by(&mut model, now_us, &key, id);
                let list = lists.after(&model, &current, now_us, &key);
                steps.push(HoldStep::Settle { now_us, key, id, how, expected });
                steps.extend(list);
                continue;
            }
            let longest = longest_hold(&current);
            let hold = holders.hold(&mut dice, &operation, &key, longest);
            let ask = Ask { key, operation, hold, once: None };
            let ask = match holders.waits_on(&mut dice, longest) {
                Some((key, hold, operation)) => {
                    Ask { key, operation, hold: Some(hold), once: None }
                }
                None if plan.queues && !dice.one_in(4) => ask,
                None => askers.ask(&mut dice, ask, longest),
            };
            let ticket = random_ticket(&mut dice, &ask, &current);
            let Ask { key, operation, hold, once } = &ask;
            let expected = match (hold, once, &ticket) {
                (_, Some(_), Some(_)) => Err(Refusal::WaitsUnderAnId),
                (_, Some(once), None) => {
                    model.apply_once(now_us, key, operation, hold.as_ref(), *once)
                }
                (Some(hold), None, Some(ticket)) => {
                    model.apply_waiting(now_us, key, operation, hold, ticket)
                }
                (Some(hold), None, None) => model.apply_holding(now_us, key, operation, hold),
                (None, None, _) => model.apply(now_us, key, operation),
            };
            walk.learn(&expected);
            askers.learn(now_us, &ask, &expected);
            let Ask { key, operation, hold, once } = ask;
            if let Some(hold) = &hold {
                holders.learn(now_us, &key, (hold, &operation), ticket.as_ref(), &expected);
            }
            let list = lists.after(&model, &current, now_us, &key);
            steps.push(HoldStep::Ask { now_us, key, operation, hold, ticket, once, expected });
            steps.extend(list);
        }
        HoldSchedule { seed, policies, ban, on_expiry, steps }
    }
}

impl Settling {
    fn random(dice: &mut Dice, policies: usize, longest: Option<Duration>) -> Self {
        if dice.one_in(6) {
            return Self::Renewed(random_life(dice, longest).into());
        }
        if dice.one_in(6) {
            return Self::Used(vec![None; policies]);
        }
        let used = |dice: &mut Dice| match dice.below(8) {
            0 | 1 => None,
            2 | 3 => Some(0),
            7 => Some(dice.below(1_000)),
            _ => Some(dice.below(5)),
        };
        Self::Used(if dice.one_in(3) {
            vec![Some(0); policies]
        } else {
            (0..policies).map(|_| used(dice)).collect()
        })
    }

    fn by(
        &self,
        model: &mut Model,
        now_us: u64,
        key: &[u8],
        id: HoldId,
    ) -> Result<Settlement, Refusal> {
        match self {
            Self::Used(used) => model.settle(now_us, key, id, used),
            Self::Renewed(lasts) => model.renew(now_us, key, id, lasts.as_micros()),
        }
    }
}

/// The requests that hold something or did, and those that wait.
#[derive(Default)]
struct Holders(Vec<(Vec<u8>, HoldId, u64)>, Vec<(Vec<u8>, Hold, Operation)>);

impl Holders {
    /// Returns a waiting request to repeat, in 1 of 2 cases.
    fn waits_on(
        &self,
        dice: &mut Dice,
        longest: Option<Duration>,
    ) -> Option<(Vec<u8>, Hold, Operation)> {
        if self.1.is_empty() || !dice.one_in(2) {
            return None;
        }
        let index = dice.below_len(self.1.len().min(6));
        let (key, hold, operation) = self.1[self.1.len() - 1 - index].clone();
        let lasts = hold.lasts.min(longest.unwrap_or(hold.lasts));
        Some((key, Hold { lasts, ..hold }, operation))
    }

    /// Returns the end of a hold or 1 µs before it, in 1 of `odds` cases.
    fn end(&self, dice: &mut Dice, odds: u64) -> Option<u64> {
        if self.0.is_empty() || !dice.one_in(odds) {
            return None;
        }
        let (_, _, until) = &self.0[dice.below_len(self.0.len())];
        Some(*until - dice.below(2))
    }

    fn somebody(&self, dice: &mut Dice) -> Option<(Vec<u8>, HoldId)> {
        if self.0.is_empty() || !dice.one_in(3) {
            return None;
        }
        // Usually one of the latest 3.
        let late = self.0.len() - 1 - dice.below_len(self.0.len().min(3));
        let index = if dice.one_in(4) { dice.below_len(self.0.len()) } else { late };
        let (key, id, _) = &self.0[index];
        Some((key.clone(), *id))
    }

    /// Returns a hold for a request, if it can have one.
    fn hold(
        &self,
        dice: &mut Dice,
        operation: &Operation,
        key: &[u8],
        longest: Option<Duration>,
    ) -> Option<Hold> {
        use Operation::{Charge, Check, Take};
        // Without permits, 1 of 3 requests has no hold; with permits, 1 of 20.
        let forgets = dice.one_in(if longest.is_none() { 3 } else { 20 });
        if !matches!(operation, Check { .. } | Charge { .. } | Take { .. }) || forgets {
            return None;
        }
        let taken = self.0.iter().filter(|(holder, ..)| holder == key);
        let taken: Vec<HoldId> = taken.map(|(_, id, _)| *id).collect();
        let id = if !taken.is_empty() && dice.one_in(12) {
            dice.pick(&taken)
        } else {
            let (one, two) = (dice.next(), dice.next());
            HoldId::from_bytes((u128::from(one) << 64 | u128::from(two)).to_be_bytes())
        };
        Some(Hold { id, lasts: random_life(dice, longest) })
    }

    fn learn(
        &mut self,
        now_us: u64,
        key: &[u8],
        (hold, operation): (&Hold, &Operation),
        ticket: Option<&Ticket>,
        answer: &Result<Answer, Refusal>,
    ) {
        self.1.retain(|(waiting, other, _)| waiting != key || other.id != hold.id);
        if let (Some(ticket), Ok(Answer { queued: Some(Queued::Waits { .. }), .. })) =
            (ticket, answer)
        {
            self.1.push((key.to_vec(), *hold, operation.clone()));
            // A ticket expires like a hold and is settled like one.
            self.0.push((key.to_vec(), hold.id, now_us + ticket.lives.as_micros()));
        }
        if answer.as_ref().is_ok_and(|answer| answer.holds && answer.repeat == Repeat::No) {
            self.0.push((key.to_vec(), hold.id, now_us + micros(hold.lasts)));
        }
    }
}

/// Changes a seed, so that the lists get other random numbers.
const LISTS: u64 = 0x6c69_7374;

/// A client that sometimes lists the requests in flight.
struct Lists(Dice);

impl Lists {
    fn after(
        &mut self,
        model: &Model,
        policies: &[Policy],
        now_us: u64,
        key: &[u8],
    ) -> Option<HoldStep> {
        let dice = &mut self.0;
        longest_hold(policies).filter(|_| dice.one_in(4))?;
        let (expected, waiting) = model.list(now_us, key);
        let size = dice.pick(&[1, 2, 3, 1_000]);
        Some(HoldStep::List { now_us, key: key.to_vec(), size, expected, waiting })
    }
}

/// Gives the first policy 1 to 4 permits, and usually removes the queues of the others.
fn crowd(dice: &mut Dice, policies: &mut [Policy]) {
    for (index, policy) in policies.iter_mut().enumerate() {
        let Algorithm::Concurrency { permits, hold, queue } = *policy.algorithm() else { continue };
        let has_others = dice.one_in(8);
        let algorithm = if index == 0 {
            Algorithm::Concurrency { permits: dice.between(1, 4), hold, queue }
        } else {
            Algorithm::Concurrency { permits, hold, queue: queue.filter(|_| has_others) }
        };
        if let Ok(crowded) = policy.with_algorithm(algorithm) {
            *policy = crowded;
        }
    }
}

/// Returns a ticket for a check with a hold, if it may wait.
fn random_ticket(
    dice: &mut Dice,
    Ask { operation, hold, once, .. }: &Ask,
    policies: &[Policy],
) -> Option<Ticket> {
    let is_queued = policies
        .iter()
        .any(|policy| matches!(policy.algorithm(), Algorithm::Concurrency { queue: Some(_), .. }));
    let may_wait = hold.is_some() && matches!(operation, Operation::Check { .. });
    let odds = if is_queued { 6 } else { 60 };
    // A request with an id can't wait. 1 of 20 tries to.
    let forgets = once.is_some() && !dice.one_in(20);
    if !may_wait || forgets || is_queued == dice.one_in(odds) {
        return None;
    }
    let lives = dice.pick(&[1_000, 30_000, 700_001, 10_000_000, 60_000_000, 60_000_000]);
    let lives = Span::from_micros(lives).unwrap_or(Ticket::MAX_LIVES);
    Some(Ticket { priority: dice.pick(&[0, 0, 1, 2, 15]), lives })
}

fn random_life(dice: &mut Dice, longest: Option<Duration>) -> Duration {
    let micros = dice.pick(&[1_000, 30_000, 1_000_000, 60_000_000, 86_400_000_000]);
    Duration::from_micros(micros).min(longest.unwrap_or(Hold::MAX_LASTS))
}

/// Returns the longest permitted hold.
fn longest_hold(policies: &[Policy]) -> Option<Duration> {
    let holds = policies.iter().filter_map(|policy| match policy.algorithm() {
        Algorithm::Concurrency { hold, .. } => Some(*hold),
        _ => None,
    });
    holds.min()
}

impl fmt::Display for HoldSchedule {
    /// Writes the policies as specs and one line per step, for a failing test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specs = |policies: &[Policy]| {
            policies.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ")
        };
        writeln!(f, "seed {}: {}, {}", self.seed, specs(&self.policies), self.on_expiry)?;
        for (index, step) in self.steps.iter().enumerate() {
            match step {
                HoldStep::SetPolicies(policies) => writeln!(f, "{index}: {}", specs(policies))?,
                HoldStep::Ask { now_us, key, operation, hold, ticket, once, expected } => {
                    let hold = hold.map(|hold| (hold.id, hold.lasts, ticket));
                    let once = once.map(|once| (once.id, once.lasts));
                    let said = expected.as_ref().map(|answer| {
                        let left = answer.policies.iter().map(|policy| policy.remaining);
                        let refused = (answer.ban, answer.pause);
                        let said = (answer.allowed, answer.repeat, answer.queued, refused);
                        (said, left.collect::<Vec<_>>())
                    });
                    let key = key.escape_ascii();
                    writeln!(
                        f,
                        "{index}: at {now_us} `{key}` {operation:?} {hold:?} {once:?} -> {said:?}"
                    )?;
                }
                HoldStep::Settle { now_us, key, id, how, expected } => {
                    let said = expected.as_ref().map(|settled| {
                        let policies = settled.answer.policies.iter();
                        let left: Vec<_> = policies.map(|policy| policy.remaining).collect();
                        (settled.found, settled.given.clone(), left)
                    });
                    let key = key.escape_ascii();
                    writeln!(f, "{index}: at {now_us} `{key}` {id} {how:?} -> {said:?}")?;
                }
                HoldStep::List { now_us, key, size, expected, waiting } => {
                    let key = key.escape_ascii();
                    writeln!(
                        f,
                        "{index}: at {now_us} `{key}` in pages of {size} -> {expected:?}, {waiting} wait"
                    )?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use sluicegate_core::HoldFound;

    use super::*;
    use crate::schedules::Kind;

    #[test]
    fn schedules_list_pages_of_who_holds_and_who_waits() {
        let mut seen = [0; 4];
        for seed in 0..60 {
            let kinds = Kind::QUEUED.to_vec();
            let plan = Plan { kinds, max_policies: 3, queues: true, ..Plan::default() };
            for step in plan.hold_schedule(seed).steps {
                let HoldStep::List { size, expected, waiting, .. } = step else { continue };
                seen[0] += usize::from(expected.is_empty());
                seen[1] += usize::from(expected.len() as u64 > size);
                seen[2] += usize::from(expected.iter().any(|listed| listed.units.len() > 1));
                seen[3] += usize::from(waiting > 1);
            }
        }
        assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
    }

    /// Checks that the schedules with queues give waiters every kind of answer.
    #[test]
    fn schedules_reach_every_kind_of_answer_to_who_waits() {
        let mut seen = [0; 11];
        for seed in 0..200 {
            let (kinds, bans) = (Kind::QUEUED.to_vec(), seed % 3 == 0);
            let plan = Plan { kinds, bans, max_policies: 3, queues: true, ..Plan::default() };
            let mut waits: HashSet<HoldId> = HashSet::new();
            for step in plan.hold_schedule(seed).steps {
                let (hold, ticket, expected) = match step {
                    HoldStep::Ask { hold, ticket, expected, .. } => (hold, ticket, expected),
                    HoldStep::Settle { expected: Ok(settled), .. } => {
                        seen[0] += usize::from(settled.found == HoldFound::Waited);
                        continue;
                    }
                    _ => continue,
                };
                let (Some(hold), Some(_)) = (hold, ticket) else { continue };
                let Ok(answer) = expected else {
                    seen[1] += usize::from(expected == Err(Refusal::NoQueue));
                    seen[2] += usize::from(expected == Err(Refusal::NothingToWaitFor));
                    seen[9] += usize::from(expected == Err(Refusal::WaitsUnderAnId));
                    continue;
                };
                if answer.ban.is_some_and(|ban| !ban.begins) {
                    seen[10] += 1;
                    continue;
                }
                let has_waited = !waits.insert(hold.id);
                match answer.queued {
                    Some(Queued::Waits { ahead, .. }) => {
                        seen[3] += usize::from(has_waited);
                        seen[4] += usize::from(ahead > 0);
                        seen[5] += usize::from(ahead > 1 && has_waited);
                    }
                    Some(_) => seen[6] += 1,
                    None if answer.allowed => seen[7] += usize::from(has_waited),
                    None => seen[8] += 1,
                }
            }
        }
        assert!(seen.iter().all(|count| *count > 4), "{seen:?}");
    }
}
