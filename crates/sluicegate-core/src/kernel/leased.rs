//! States with outstanding units, which are leased and may still be unspent.
//!
//! A leased unit is charged immediately and stays charged until its lease ends. Used units drain,
//! but never below the outstanding ones, because those may be spent at any moment. When a lease
//! ends, its units are no longer outstanding. None is credited, because they may have been spent. A
//! state stores how many units are outstanding until which time. It has at most
//! [`Leased::MAX_SLOTS`] slots for any number of holders. `docs/leases.md` explains why this admits
//! no more than the limit in any interval.
//!
//! A slot can also have a share of the rate, which its holders spend all the time. The bucket then
//! drains only by the rest of the rate.

use smallvec::SmallVec;

use super::slot::{Slot, WHOLE, booked, bring_near, drained_for, drained_until, total};
use super::{Account, Bound, NEVER, Now, Overflow, Rule, State, Verdict};
use crate::number::MAX_EXACT;
use crate::time::Span;

/// A state and its outstanding units.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Leased {
    /// The state, in which the outstanding units are charged.
    pub state: State,
    /// The slots of the outstanding units, in the order in which they end.
    pub slots: Vec<Slot>,
    /// A second upper bound of the used units, while units are held.
    pub bound: Option<Bound>,
}

impl Leased {
    /// The maximum number of slots of a state.
    pub const MAX_SLOTS: usize = 16;
    /// The longest time for which units are outstanding. Slots that lie further ahead, because the
    /// clock was set back, are moved to that time.
    pub const LONGEST: Span = Span::MINUTE;

    /// Reads a state from its numbers; `None` if they aren't a valid state.
    ///
    /// These are the numbers of the state without leases. Each slot then has its end, its units,
    /// its tag and its share.
    #[must_use]
    pub fn read(rule: &Rule, numbers: &[u64]) -> Option<Self> {
        let (state, slots) = numbers.split_at_checked(rule.numbers())?;
        let state = rule.read(state)?;
        let slots = read_slots(slots, &state, Self::MAX_SLOTS)?;
        (!slots.is_empty()).then_some(Self { state, slots, bound: None })
    }

    /// Reads a state with held units from its numbers.
    ///
    /// These are the numbers of the state, the deficit of the second bound, and the number of lease
    /// slots. The lease slots and the other slots follow, as in [`Leased::read`].
    #[must_use]
    pub fn read_held(rule: &Rule, numbers: &[u64]) -> Option<Self> {
        let (state, rest) = numbers.split_at_checked(rule.numbers())?;
        let (&[deficit, leases], slots) = rest.split_first_chunk()?;
        let leases = usize::try_from(leases).ok()?.checked_mul(Slot::NUMBERS)?;
        let (leases, slots) = slots.split_at_checked(leases)?;
        let state = rule.read(state)?;
        let State::Bucket(first) = &state else { return None };
        let is_second = first.deficit <= deficit;
        let held = read_slots(slots, &state, Bound::MAX_SLOTS)?;
        let slots = read_slots(leases, &state, Self::MAX_SLOTS)?;
        let bound = Bound { deficit, slots: SmallVec::from_vec(held) };
        (is_second && !bound.slots.is_empty()).then_some(Self { state, slots, bound: Some(bound) })
    }

    /// Appends the numbers of the state as stored, the newest time first.
    pub fn write(&self, numbers: &mut Vec<u64>) {
        self.state.write(numbers);
        if let Some(bound) = &self.bound {
            numbers.extend([bound.deficit, self.slots.len() as u64]);
        }
        let held = self.bound.iter().flat_map(|bound| &bound.slots);
        let slots = self.slots.iter().chain(held);
        numbers.extend(slots.flat_map(|slot| [slot.until, slot.units, slot.tag, slot.share]));
    }

    /// Returns the remainder after its key is forgotten: a fresh state with the same units
    /// outstanding.
    ///
    /// It uses nothing of the old state, so it can't fail because of that state.
    pub(crate) fn forgotten(self, rule: &Rule, now: Now) -> Result<Option<Self>, Overflow> {
        let (newest, mut slots) = (self.state.newest(), self.slots);
        if now.is_exceeded_by(newest) {
            bring_near(&mut slots, now.micros, Self::LONGEST);
        } else {
            slots.retain(|slot| slot.until > now.micros.max(newest));
        }
        let (mut account, _) = Account::open(rule, None, now)?;
        account.pin(total(&slots));
        let state = account.into_state().filter(|_| !slots.is_empty());
        Ok(state.map(|state| Self { state, slots, bound: None }))
    }

    /// Advances the state to the evaluation time, and returns the units leased then.
    pub(super) fn open_first(
        self,
        rule: &Rule,
        now: Now,
    ) -> Result<(Account<'_>, Vec<Slot>, bool), Overflow> {
        let Self { mut state, mut slots, .. } = self;
        if now.is_exceeded_by(state.newest()) {
            bring_near(&mut slots, now.micros, Self::LONGEST);
        } else {
            let at = now.micros.max(state.newest());
            let over = slots.iter().take_while(|slot| slot.until <= at).count();
            for index in 0..if rule.drains() { over } else { 0 } {
                let then = Now { micros: slots[index].until, max_clock_back: None };
                stand_still(&mut state, &slots[index..], then.micros);
                let (mut account, _) = Account::open(rule, Some(state.clone()), then)?;
                account.pin(total(&slots[index..]));
                state = account.into_state().unwrap_or(state);
            }
            slots.drain(..over);
            stand_still(&mut state, &slots, at);
        }
        let (mut account, restamped) = Account::open(rule, Some(state), now)?;
        if !slots.is_empty() {
            account.pin(total(&slots));
        }
        Ok((account, slots, restamped))
    }
}

/// Evaluates a cost while units are outstanding. It grants no wait, because others may spend the
/// units that the caller would count on.
pub(crate) fn judge(
    account: &Account<'_>,
    slots: &[Slot],
    cost: u64,
    within: Option<u64>,
) -> Verdict {
    let verdict = account.judge(cost, None);
    match verdict {
        Verdict::Refuse { retry: Some(_) } if account.drains() => {
            Verdict::Refuse { retry: wait_for(account, slots, cost, within).ok().flatten() }
        }
        Verdict::Refuse { retry: Some(retry) } => {
            Verdict::Refuse { retry: Some(wait_for_slots(account, slots, cost, retry)) }
        }
        verdict => verdict,
    }
}

/// Returns the wait if used units flow back all at the same time, after `retry` µs. If the clock
/// was set back, slots can end later than that, and then they still count.
fn wait_for_slots(account: &Account<'_>, slots: &[Slot], cost: u64, retry: u64) -> u64 {
    let mut at = account.judged_at().saturating_add(retry);
    for slot in slots {
        let outstanding: u64 =
            slots.iter().filter(|slot| slot.until > at).map(|slot| slot.units).sum();
        if account.fits(cost.saturating_add(outstanding)) {
            break;
        }
        at = at.max(slot.until);
    }
    at - account.judged_at()
}

/// Returns the µs from the evaluation time until a refused cost passes, if no other request comes
/// first.
fn wait_for(
    account: &Account<'_>,
    slots: &[Slot],
    cost: u64,
    within: Option<u64>,
) -> Result<Option<u64>, Overflow> {
    let (start, mut at, mut account) = (account.judged_at(), account.judged_at(), account.clone());
    let mut outstanding = total(slots);
    for (index, slot) in slots.iter().enumerate() {
        let share = booked(&slots[index..]);
        let passes_in = match account.judge(cost, None) {
            Verdict::Pass { .. } => Some(0),
            Verdict::Refuse { retry } => retry,
        };
        let passes_at = passes_in.and_then(|wait| drained_for(wait, at, share));
        let fits = account.fits(cost.saturating_add(outstanding));
        if let Some(then) = passes_at
            && fits
            && then <= slot.until
        {
            return Ok(Some(then - start));
        }
        account = drained(account, (at, slot.until), share)?;
        account.pin(outstanding);
        (at, outstanding) = (slot.until, outstanding - slot.units);
    }
    Ok(match account.judge(cost, within) {
        Verdict::Pass { .. } => Some(at - start),
        Verdict::Refuse { retry } => retry.map(|retry| (at - start).saturating_add(retry)),
    })
}

/// Returns [`Report::reset`](super::Report::reset) while units are outstanding.
pub(crate) fn reset_ticks(account: &Account<'_>, slots: &[Slot]) -> u64 {
    if !account.drains() {
        return account.report().reset.max(last_ends_in(account, slots));
    }
    let (start, mut at, mut account) = (account.judged_at(), account.judged_at(), account.clone());
    let mut outstanding = total(slots);
    for (index, slot) in slots.iter().enumerate() {
        let Ok(later) = drained(account, (at, slot.until), booked(&slots[index..])) else {
            return NEVER;
        };
        account = later;
        account.pin(outstanding);
        (at, outstanding) = (slot.until, outstanding - slot.units);
    }
    account.ticks_of_micros(at - start).saturating_add(account.report().reset)
}

/// Advances an account from a time to another, while this share of its rate is booked.
fn drained(
    account: Account<'_>,
    (from, to): (u64, u64),
    share: u64,
) -> Result<Account<'_>, Overflow> {
    let then = account.judged_at() + (drained_until(to, share) - drained_until(from, share));
    account.later(then)
}

/// Makes a state newer by the time in which it doesn't drain until `at`, because a share of its rate
/// is booked.
fn stand_still(state: &mut State, slots: &[Slot], at: u64) {
    let share = booked(slots);
    if share > 0
        && let State::Bucket(bucket) = state
    {
        bucket.newest = at - (drained_until(at, share) - drained_until(bucket.newest, share));
    }
}

/// Returns the µs from `now` for which the state is worth keeping. It is kept while units are
/// outstanding, and after that until the units used now have drained.
pub(crate) fn keep_for(account: &Account<'_>, slots: &[Slot], now: Now) -> u64 {
    account.keep_for(now).saturating_add(last_ends_in(account, slots))
}

/// Returns the µs from the evaluation time until no unit is outstanding.
fn last_ends_in(account: &Account<'_>, slots: &[Slot]) -> u64 {
    slots.last().map_or(0, |slot| slot.until.saturating_sub(account.judged_at()))
}

/// Reads the slots of a state; `None` if they are invalid.
fn read_slots(numbers: &[u64], state: &State, most: usize) -> Option<Vec<Slot>> {
    let slots = numbers.chunks_exact(Slot::NUMBERS);
    let is_whole = slots.remainder().is_empty();
    let slot = |slot: &[u64]| Slot { until: slot[0], units: slot[1], tag: slot[2], share: slot[3] };
    let slots: Vec<Slot> = slots.map(slot).collect();
    let is_ordered = slots.is_sorted_by_key(|slot| slot.until);
    let is_ahead = slots.first().is_none_or(|slot| slot.until > state.newest());
    let is_counted = slots.iter().all(|slot| !slot.is_empty() && slot.share <= WHOLE)
        && total(&slots) <= MAX_EXACT
        && booked(&slots) <= WHOLE;
    let is_valid = is_ordered && is_ahead && is_whole && is_counted && slots.len() <= most;
    is_valid.then_some(slots)
}
