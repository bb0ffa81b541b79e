//! The evaluation and charge of all policies of a limit together.

use smallvec::SmallVec;

use super::{PerPolicy, open};
use crate::decision::{Decision, Numbers, Said};
use crate::kernel::leased::{self, Leased};
use crate::kernel::opened::Opened;
use crate::kernel::slot::{self, Slot};
use crate::kernel::{
    Account, Charge, NEVER, Now, Overflow, Report, Rule, Second, State, Taken, Verdict,
};
use crate::limit::{Identity, Limit};
use crate::line::Place;
use crate::policy::{DeniedCharge, Enforcement, Policy};
use crate::request::{Costs, Operation};
use crate::stored::Stored;

/// The cost under one policy, and its verdict.
#[derive(Clone, Copy)]
pub(super) struct Judgement {
    /// With a cost of 0 the policy is neither evaluated nor charged.
    cost: u64,
    verdict: Verdict,
    /// The tiers of a log that refuse, as bits.
    violated: u32,
    /// The units that a refund gave back.
    given_back: Option<u64>,
}

impl Judgement {
    const fn passed(cost: u64) -> Self {
        Self { cost, verdict: Verdict::Pass { wait: 0 }, violated: 0, given_back: None }
    }

    fn of(account: &Account<'_>, slots: &[Slot], cost: u64, within: Option<u64>) -> Self {
        if cost == 0 {
            return Self::passed(0);
        }
        let verdict = if slots.is_empty() {
            account.judge(cost, within)
        } else {
            leased::judge(account, slots, cost, within)
        };
        let violated = match verdict {
            Verdict::Refuse { .. } => account.violated(cost),
            Verdict::Pass { .. } => 0,
        };
        Self { cost, verdict, violated, given_back: None }
    }
}

/// All policies of a limit, with the states of one request's subjects. It is large, for many
/// policies, and is never moved: a move takes longer than evaluating one policy.
pub(super) struct Judge<'l> {
    limit: &'l Limit,
    pub(super) accounts: PerPolicy<Account<'l>>,
    judgements: PerPolicy<Judgement>,
    /// The outstanding units of each policy; empty if no policy has any.
    outstanding: Vec<Outstanding<'l>>,
    /// The original state of each policy, except for those in `in_place`.
    originals: PerPolicy<Option<Stored>>,
    /// The logs whose accounts own the original state. A log can be long, so it is copied only if
    /// advancing it to the evaluation time changes it.
    in_place: u64,
    pub(super) changed: u64,
    pub(super) restamped: u64,
}

/// The outstanding units of one policy.
#[derive(Default)]
pub(super) struct Outstanding<'l> {
    /// The leased units.
    pub(super) slots: Vec<Slot>,
    /// A second upper bound of the used units, while units are held.
    pub(super) bound: Option<Second<'l>>,
}

impl<'l> Judge<'l> {
    #[inline(always)]
    pub(super) fn new(limit: &'l Limit) -> Self {
        Self {
            limit,
            accounts: SmallVec::new(),
            judgements: SmallVec::new(),
            outstanding: Vec::new(),
            originals: SmallVec::new(),
            in_place: 0,
            changed: 0,
            restamped: 0,
        }
    }

    /// Takes the states, and advances them to the evaluation time.
    pub(super) fn open(&mut self, now: Now, held: &mut [Option<Stored>]) -> Result<(), Overflow> {
        for (index, member) in self.limit.members().iter().enumerate() {
            let original = match &held[index] {
                Some(Stored::State(State::Log(state))) if !now.is_exceeded_by(state.newest) => {
                    self.in_place |= 1 << index;
                    None
                }
                held => held.clone(),
            };
            match open(member.policy().rule(), held[index].take(), now) {
                Ok(Opened { account, slots, bound, restamped }) => {
                    if !slots.is_empty() || bound.is_some() {
                        *self.outstanding_mut(index) = Outstanding { slots, bound };
                    }
                    self.restamped |= u64::from(restamped) << index;
                    self.accounts.push(account);
                    self.originals.push(original);
                }
                Err(overflow) => {
                    held[index] = original;
                    self.close(held, 0);
                    return Err(overflow);
                }
            }
        }
        Ok(())
    }

    /// Returns `true` if a policy has refused.
    pub(super) fn is_refused_by(&self, index: usize) -> bool {
        matches!(self.judgements[index].verdict, Verdict::Refuse { .. })
    }

    /// Puts the new states back if they changed, and the original ones otherwise.
    pub(super) fn close(&mut self, held: &mut [Option<Stored>], changed: u64) {
        let mut outstanding = std::mem::take(&mut self.outstanding);
        let opened = self.accounts.drain(..).zip(self.originals.drain(..));
        for (index, (held, (account, original))) in held.iter_mut().zip(opened).enumerate() {
            let has_state = !matches!(account, Account::Read(_));
            let is_account_s = (changed | self.in_place) & (1 << index) != 0;
            *held = if has_state && is_account_s {
                let outstanding = outstanding.get_mut(index).map(std::mem::take);
                let Outstanding { slots, bound } = outstanding.unwrap_or_default();
                let bound = bound.and_then(Second::into_bound);
                account.into_state().map(|state| match slots.is_empty() && bound.is_none() {
                    true => Stored::State(state),
                    false => Stored::Leased(Box::new(Leased { state, slots, bound })),
                })
            } else {
                original
            };
        }
    }

    pub(super) fn check(&mut self, costs: Costs<'_>) -> Result<(bool, u64), Overflow> {
        let (allowed, act_in) = self.judge_all(costs, None);
        self.charge_if_allowed(allowed, act_in, costs)
    }

    pub(super) fn peek(&mut self, costs: Costs<'_>) -> (bool, u64) {
        let (allowed, _) = self.judge_all(costs, None);
        (allowed, if allowed { self.granted(costs) } else { 0 })
    }

    /// Makes a reservation, unless `take_turn` finds a turn.
    ///
    /// `take_turn` gets the longest wait in µs for the turn, and returns the wait until it.
    pub(super) fn reserve(
        &mut self,
        costs: Costs<'_>,
        within: u64,
        take_turn: impl FnOnce(u64, &Self) -> Option<u64>,
    ) -> Result<(bool, u64), Overflow> {
        let (allowed, act_in) = self.judge_all(costs, Some(within));
        let longest = if allowed { act_in } else { within };
        let turn = if self.is_hopeless() { None } else { take_turn(longest, self) };
        let Some(wait) = turn else { return self.charge_if_allowed(allowed, act_in, costs) };
        for index in 0..self.accounts.len() {
            if self.is_enforced(index) && self.judgements[index].cost > 0 {
                self.judgements[index].verdict = Verdict::Pass { wait };
            }
        }
        Ok((true, self.granted(costs)))
    }

    /// Returns `true` if a policy would refuse permanently.
    fn is_hopeless(&self) -> bool {
        let refused_for_good = |index: usize| {
            let verdict = self.judgements[index].verdict;
            self.is_enforced(index) && matches!(verdict, Verdict::Refuse { retry: None })
        };
        (0..self.accounts.len()).any(refused_for_good)
    }

    /// Returns `true` if a turn has enough units for all policies that are charged.
    pub(super) fn suffices(&self, turn: &Place) -> bool {
        self.wanted().all(|(identity, units)| units <= turn.units_of(identity))
    }

    /// Returns the cost under each enforced policy that is charged.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (Identity, u64)> {
        let members = self.limit.members().iter().zip(&self.judgements).enumerate();
        members
            .filter(|(index, (_, judgement))| self.is_enforced(*index) && judgement.cost > 0)
            .map(|(_, (member, judgement))| (member.identity(), judgement.cost))
    }

    /// Evaluates all policies, and returns whether they admit the request, with the longest wait.
    fn judge_all(&mut self, costs: Costs<'_>, within: Option<u64>) -> (bool, u64) {
        let mut allowed = true;
        let mut act_in = 0;
        for index in 0..self.accounts.len() {
            let cost = costs.of(self.limit, index);
            let judgement = Judgement::of(&self.accounts[index], self.slots(index), cost, within);
            if self.is_enforced(index) {
                match judgement.verdict {
                    Verdict::Pass { wait } => act_in = act_in.max(wait),
                    Verdict::Refuse { .. } => allowed = false,
                }
            }
            self.judgements.push(judgement);
        }
        (allowed, act_in)
    }

    /// Charges the policies of an allowed request. For a denied one, charges those that charge
    /// denied requests.
    fn charge_if_allowed(
        &mut self,
        allowed: bool,
        act_in: u64,
        costs: Costs<'_>,
    ) -> Result<(bool, u64), Overflow> {
        let charge_of = |judge: &Self, index: usize| {
            let policy = judge.policy(index);
            let Judgement { cost, verdict, .. } = judge.judgements[index];
            let shadow = policy.enforcement() == Enforcement::Shadow;
            // A denied request isn't in flight, regardless of a shadow's verdict.
            let stands_alone = shadow && !matches!(policy.rule(), Rule::Permits(_));
            let refused = matches!(verdict, Verdict::Refuse { .. });
            let denied = if stands_alone { refused } else { !allowed || shadow && refused };
            match (cost, verdict) {
                (0, _) => None,
                (cost, Verdict::Pass { wait }) if !denied => {
                    let act_in = if shadow { wait } else { act_in };
                    Some(Charge::Admitted { cost, act_in })
                }
                (cost, _) => match policy.denied_charge() {
                    DeniedCharge::Free => None,
                    DeniedCharge::Charged => Some(Charge::Denied { cost }),
                    DeniedCharge::Counted => Some(Charge::Counted { cost }),
                },
            }
        };
        self.charge_all(charge_of)?;
        Ok((allowed, if allowed { self.granted(costs) } else { 0 }))
    }

    /// Charges all policies, or none if one of them can't be charged.
    pub(super) fn charge_all(
        &mut self,
        charge_of: impl Fn(&Self, usize) -> Option<Charge>,
    ) -> Result<(), Overflow> {
        for index in 0..self.accounts.len() {
            if let Some(charge) = charge_of(self, index) {
                self.can_charge(index, charge)?;
            }
        }
        for index in 0..self.accounts.len() {
            if let Some(charge) = charge_of(self, index) {
                self.charge_one(index, charge)?;
            }
        }
        Ok(())
    }

    /// Checks that [`Judge::charge_one`] would succeed.
    pub(super) fn can_charge(&self, index: usize, charge: Charge) -> Result<(), Overflow> {
        if let Some(bound) = self.bound(index) {
            bound.can_charge(charge, slot::total(self.slots(index)))?;
        }
        self.accounts[index].can_charge(charge)
    }

    /// Charges one policy.
    pub(super) fn charge_one(&mut self, index: usize, charge: Charge) -> Result<(), Overflow> {
        self.accounts[index].charge(charge)?;
        self.changed |= 1 << index;
        let leased = slot::total(self.slots(index));
        self.bound_mut(index).map_or(Ok(()), |bound| bound.charge(charge, leased))
    }

    pub(super) fn take(&mut self, costs: Costs<'_>) -> Result<(bool, u64), Overflow> {
        let mut granted = u64::MAX;
        for index in 0..self.accounts.len() {
            let cost = costs.of(self.limit, index);
            if cost > 0 && self.is_enforced(index) {
                granted = granted.min(self.accounts[index].remaining_before()).min(cost);
            }
        }
        for index in 0..self.accounts.len() {
            let cost = costs.of(self.limit, index);
            let account = &self.accounts[index];
            let most = if self.is_enforced(index) {
                granted
            } else {
                account.remaining_before().min(cost)
            };
            // No unit is available: report when a single unit would pass.
            let cost = if cost == 0 { 0 } else { most.max(1) };
            let judgement = Judgement::of(account, self.slots(index), cost, None);
            self.judgements.push(judgement);
        }
        let allowed = granted > 0;
        let act_in = self.longest_wait();
        self.charge_if_allowed(allowed, act_in, costs)
    }

    pub(super) fn charge(&mut self, costs: Costs<'_>) -> Result<(bool, u64), Overflow> {
        self.pass_all(costs);
        self.charge_all(|judge, index| match judge.judgements[index].cost {
            0 => None,
            cost => Some(Charge::at_once(cost)),
        })?;
        Ok((true, self.granted(costs)))
    }

    /// Gives the costs back with `give`, which returns the number of units if it changed the
    /// account.
    pub(super) fn refund(
        &mut self,
        costs: Costs<'_>,
        give: impl Fn(&mut Account<'l>, u64) -> Option<u64>,
    ) -> (bool, u64) {
        self.pass_all(costs);
        for (index, account) in self.accounts.iter_mut().enumerate() {
            let judgement = &mut self.judgements[index];
            if judgement.cost == 0 {
                continue;
            }
            let mut nothing = Outstanding::default();
            let outstanding = self.outstanding.get_mut(index).unwrap_or(&mut nothing);
            let leased = slot::total(&outstanding.slots);
            let given = give_to(account, leased, |account| give(account, judgement.cost));
            if let Some(bound) = &mut outstanding.bound {
                give(&mut bound.account, judgement.cost);
                bound.pin(leased);
            }
            judgement.given_back = Some(given.unwrap_or(0));
            self.changed |= u64::from(given.is_some()) << index;
        }
        (true, 0)
    }

    /// Gives units back to one policy, and returns their number if its account changed.
    pub(super) fn give_back(&mut self, index: usize, taken: Taken) -> Option<u64> {
        let leased = slot::total(self.slots(index));
        give_to(&mut self.accounts[index], leased, |account| account.give_back(taken))
    }

    /// Returns the units that an allowed request has charged to a policy; `None` for none.
    pub(super) fn taken(&self, index: usize, operation: Operation<'_>) -> Option<u64> {
        let Judgement { cost, verdict, .. } = self.judgements[index];
        let passes = operation == Operation::Charge
            || self.is_enforced(index)
            || matches!(verdict, Verdict::Pass { .. });
        Some(cost).filter(|cost| passes && operation.takes() && *cost > 0)
    }

    /// Returns `true` if any enforced policy of a part refused.
    pub(super) fn refuses(&self, part: usize) -> bool {
        let judged = self.limit.members().iter().zip(&self.judgements).enumerate();
        let mut own = judged.filter(|(_, (member, _))| member.part() == part);
        own.any(|(index, (_, judgement))| {
            self.is_enforced(index) && matches!(judgement.verdict, Verdict::Refuse { .. })
        })
    }

    /// Returns the outcome for a subject that is forgotten, except for its outstanding units.
    pub(super) fn reset(&mut self, costs: Costs<'_>, now: Now) -> Result<(bool, u64), Overflow> {
        self.pass_all(costs);
        for index in 0..self.accounts.len() {
            if self.originals[index].is_some() {
                let (mut account, _) = Account::open(self.policy(index).rule(), None, now)?;
                let slots = self.slots(index);
                if !slots.is_empty() {
                    account.pin(slot::total(slots));
                }
                self.accounts[index] = account;
            }
        }
        Ok((true, 0))
    }

    pub(super) fn pass_all(&mut self, costs: Costs<'_>) {
        for index in 0..self.accounts.len() {
            self.judgements.push(Judgement::passed(costs.of(self.limit, index)));
        }
    }

    /// Returns the decision. `takes` is `true` if an allowed request takes units.
    pub(super) fn decision(&self, allowed: bool, granted: u64, takes: bool) -> Decision {
        let mut binding: Option<(u8, u64)> = None;
        let mut policies = SmallVec::with_capacity(self.accounts.len());
        for (index, (account, judgement)) in self.accounts.iter().zip(&self.judgements).enumerate()
        {
            let numbers = numbers(account, self.slots(index), *judgement);
            if self.is_enforced(index) {
                let binds = binding.is_none_or(|(_, longest)| numbers.amount > longest);
                if numbers.said == Said::Refuses && binds {
                    binding = Some((u8::try_from(index).unwrap_or(u8::MAX), numbers.amount));
                }
            }
            policies.push(numbers);
        }
        let binding = binding.filter(|_| !allowed);
        let evaluated = self.judged_at();
        let instant = match binding {
            Some((_, retry)) => retry,
            None if takes && allowed => evaluated,
            None => NEVER,
        };
        let binding = binding.map(|(index, _)| index);
        Decision::new(self.limit.clone(), policies, allowed, granted, instant, binding)
            .evaluated_at_micros(evaluated)
    }

    /// Returns the evaluation time. If policies differ in it, returns the earliest.
    fn judged_at(&self) -> u64 {
        self.accounts.iter().map(Account::judged_at).min().unwrap_or(NEVER)
    }

    /// Returns how long the states of each part must be kept: the longest retention of its
    /// policies.
    pub(super) fn lives(&self, now: Now, changed: u64) -> SmallVec<[u64; 4]> {
        let mut lives = SmallVec::from_elem(0, self.limit.parts().len());
        for (index, (account, member)) in self.accounts.iter().zip(self.limit.members()).enumerate()
        {
            let is_kept = (changed | self.in_place) & (1 << index) != 0;
            if is_kept || self.originals[index].is_some() {
                let life = &mut lives[member.part()];
                let kept = match self.slots(index) {
                    [] => account.keep_for(now),
                    slots => leased::keep_for(account, slots, now),
                };
                *life = kept.max(*life);
            }
        }
        lives
    }

    /// Returns the outstanding units of a policy.
    pub(super) fn slots(&self, index: usize) -> &[Slot] {
        self.outstanding.get(index).map_or(&[], |outstanding| &outstanding.slots)
    }

    /// Returns the second upper bound of a policy with held units.
    pub(super) fn bound(&self, index: usize) -> Option<&Second<'l>> {
        self.outstanding.get(index)?.bound.as_ref()
    }

    pub(super) fn bound_mut(&mut self, index: usize) -> Option<&mut Second<'l>> {
        self.outstanding.get_mut(index)?.bound.as_mut()
    }

    pub(super) fn take_bound(&mut self, index: usize) -> Option<Second<'l>> {
        self.outstanding.get_mut(index)?.bound.take()
    }

    pub(super) fn outstanding_mut(&mut self, index: usize) -> &mut Outstanding<'l> {
        if self.outstanding.is_empty() {
            self.outstanding.resize_with(self.limit.members().len(), Outstanding::default);
        }
        &mut self.outstanding[index]
    }

    pub(super) const fn limit(&self) -> &'l Limit {
        self.limit
    }

    fn policy(&self, index: usize) -> &'l Policy {
        self.limit.members()[index].policy()
    }

    fn is_enforced(&self, index: usize) -> bool {
        self.policy(index).enforcement() == Enforcement::Enforced
    }

    /// Returns the units granted to an allowed request. If no policy is enforced, this is its whole
    /// cost, regardless of the shadows' charges.
    pub(super) fn granted(&self, costs: Costs<'_>) -> u64 {
        let indices = 0..self.judgements.len();
        let enforced = indices.clone().filter(|&index| self.is_enforced(index));
        let granted = enforced.map(|index| self.judgements[index].cost).max().unwrap_or(0);
        let asked = || indices.map(|index| costs.of(self.limit, index)).max().unwrap_or(0);
        if granted > 0 { granted } else { asked() }
    }

    pub(super) fn longest_wait(&self) -> u64 {
        let waits =
            (0..self.judgements.len()).filter(|&index| self.is_enforced(index)).map(|index| {
                match self.judgements[index].verdict {
                    Verdict::Pass { wait } => wait,
                    Verdict::Refuse { .. } => 0,
                }
            });
        waits.max().unwrap_or(0)
    }
}

/// Gives units back to an account, except for outstanding ones, and returns their number if it
/// changed.
fn give_to<'l>(
    account: &mut Account<'l>,
    outstanding: u64,
    give: impl FnOnce(&mut Account<'l>) -> Option<u64>,
) -> Option<u64> {
    let used = account.used_beyond(outstanding);
    let given = give(account);
    if outstanding == 0 || given.is_none() {
        return given;
    }
    account.pin(outstanding);
    Some(used - account.used_beyond(outstanding))
}

fn numbers(account: &Account<'_>, slots: &[Slot], judgement: Judgement) -> Numbers {
    let (said, amount) = match judgement.given_back {
        Some(units) => (Said::GaveBack, units),
        None => Said::of(judgement.verdict),
    };
    let Report { remaining, reset, used, current, .. } = account.report();
    Numbers {
        remaining,
        reset: match slots {
            [] => reset,
            slots => leased::reset_ticks(account, slots),
        },
        amount,
        used,
        current,
        violated: judgement.violated,
        said,
    }
}
