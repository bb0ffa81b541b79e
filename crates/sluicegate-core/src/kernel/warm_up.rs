//! Smooth warm-up: after idling, grants start at a third of the rate and reach the whole rate
//! over the warm-up period. The shape is that of Guava's `SmoothWarmingUp` with a cold factor of
//! 3, computed in whole ticks; only a grant's wait is rounded, up to a microsecond.

use super::{Ask, Overflow, Times};
use crate::error::PolicyError;
use crate::number::{MAX_EXACT, mul_div_ceil};
use crate::rate::Rate;
use crate::time::Span;

/// A warming-up bucket made ready to decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WarmUp {
    /// Ticks that one unit costs.
    unit: u64,
    /// Ticks that each idle microsecond puts into the store.
    refill: u64,
    /// The most ticks the store holds: completely cold.
    store: u64,
}

/// What is kept of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// Microseconds from the newest time until the next request may pass.
    pub debt: u64,
    /// Ticks missing from the store at that moment.
    pub deficit: u64,
    /// Ticks per unit, so that a changed policy can convert the deficit.
    pub unit: u64,
}

/// A state as it stands at the time of judgement.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    at: u64,
    debt: u64,
    deficit: u64,
    kept: State,
    /// Whether there was a state.
    known: bool,
}

impl WarmUp {
    pub(crate) fn new(rate: Rate, over: Span) -> Result<Self, PolicyError> {
        if over.is_zero() || !over.as_micros().is_multiple_of(2) {
            return Err(PolicyError::new(
                "over",
                format!("{over} is not an even number of microseconds from 2us up"),
            ));
        }
        let (unit, refill) = rate.ticks();
        let exact = refill
            .checked_mul(over.as_micros())
            .filter(|store| {
                store.checked_mul(refill.max(3)).is_some_and(|product| product <= MAX_EXACT)
            })
            .filter(|store| store + unit <= MAX_EXACT);
        let Some(store) = exact else {
            let most = MAX_EXACT / refill.max(1).saturating_mul(refill.max(3));
            return Err(PolicyError::new(
                "over",
                format!(
                    "{over} at {rate} can't be computed exactly: the longest warm-up at this rate is {most}us"
                ),
            ));
        };
        Ok(Self { unit, refill, store })
    }

    /// Ticks that one unit costs.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// Ticks that each idle microsecond puts into the store.
    #[must_use]
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// The most ticks the store holds.
    #[must_use]
    pub const fn store(&self) -> u64 {
        self.store
    }

    /// Brings a state to the time of judgement.
    ///
    /// # Errors
    /// When the deficit can't be counted in this policy's ticks.
    pub fn stand(&self, state: Option<State>, times: Times) -> Result<(Standing, bool), Overflow> {
        let Some(mut kept) = state else {
            let kept = State { newest: times.now, debt: 0, deficit: 0, unit: self.unit };
            return Ok((
                Standing { at: times.now, debt: 0, deficit: 0, kept, known: false },
                false,
            ));
        };
        let restamped = times.is_too_far_ahead(kept.newest);
        if restamped {
            kept.newest = times.now;
        }
        if kept.unit != self.unit {
            kept.deficit = mul_div_ceil(kept.deficit, self.unit, kept.unit).ok_or(Overflow)?;
            kept.unit = self.unit;
        }
        let at = times.now.max(kept.newest);
        let (debt, deficit) = self.rest(&kept, at);
        Ok((Standing { at, debt, deficit, kept, known: true }, restamped))
    }

    /// Whether a request passes when its caller accepts a wait of `within` µs.
    #[must_use]
    pub fn ask(&self, standing: &Standing, within: Option<u64>) -> Ask {
        if self.refill == 0 {
            return Ask::Refuse { retry: None };
        }
        Ask::within(standing.debt, within.unwrap_or(0))
    }

    /// Charges an admitted cost, to be acted on in `act_in` µs.
    ///
    /// # Errors
    /// When the new debt is beyond what a state can hold.
    pub fn admit(&self, standing: &mut Standing, cost: u64, act_in: u64) -> Result<(), Overflow> {
        let (taken, wait) = self.grant(standing, cost)?;
        let debt = standing.debt.max(act_in) + wait;
        if debt > MAX_EXACT {
            return Err(Overflow);
        }
        standing.set(debt, standing.deficit + taken, self.unit);
        Ok(())
    }

    /// Charges a denied request: what is stored, no debt.
    pub fn charge_denied(&self, standing: &mut Standing, cost: u64) {
        let ticks = u64::try_from(u128::from(cost) * u128::from(self.unit)).unwrap_or(u64::MAX);
        let taken = ticks.min(self.stored(standing));
        standing.set(standing.debt, standing.deficit + taken, self.unit);
    }

    /// Gives units back: first from the debt, at the whole rate, then to the store. The newest
    /// time stays.
    pub fn refund(&self, standing: &mut Standing, units: u64) {
        if !standing.known {
            return;
        }
        let ticks = u128::from(units) * u128::from(self.unit);
        // At rate 0 no amount of ticks is worth a microsecond.
        let micros = ticks
            .checked_div(u128::from(self.refill))
            .unwrap_or(0)
            .min(u128::from(standing.kept.debt));
        let left = ticks - micros * u128::from(self.refill);
        standing.kept.debt -= u64::try_from(micros).unwrap_or(standing.kept.debt);
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        standing.kept.deficit = standing.kept.deficit.saturating_sub(left);
        (standing.debt, standing.deficit) = self.rest(&standing.kept, standing.at);
    }

    /// Unbounded (`u64::MAX`) when the debt is paid, else 0.
    #[must_use]
    pub const fn remaining(&self, standing: &Standing) -> u64 {
        if standing.debt == 0 && self.refill > 0 { u64::MAX } else { 0 }
    }

    /// The time until the debt is paid and the store is full, in µs; `None` when something is
    /// missing and nothing flows back.
    #[must_use]
    pub const fn reset_after(&self, standing: &Standing) -> Option<u64> {
        match (standing.debt, standing.deficit, self.refill) {
            (debt, 0, _) => Some(debt),
            (_, _, 0) => None,
            (debt, deficit, refill) => Some(debt + deficit.div_ceil(refill)),
        }
    }

    /// The state to keep.
    #[must_use]
    pub const fn state(&self, standing: &Standing) -> State {
        standing.kept
    }

    /// The debt and the deficit left at `at`: idle time pays the debt first, then fills the store.
    fn rest(&self, kept: &State, at: u64) -> (u64, u64) {
        let elapsed = at - kept.newest;
        let idle = elapsed.saturating_sub(kept.debt);
        let filled = idle.saturating_mul(self.refill);
        (kept.debt.saturating_sub(elapsed), kept.deficit.saturating_sub(filled))
    }

    const fn stored(&self, standing: &Standing) -> u64 {
        self.store.saturating_sub(standing.deficit)
    }

    /// The ticks a cost takes from the store, and the wait it leaves to the next request.
    fn grant(&self, standing: &Standing, cost: u64) -> Result<(u64, u64), Overflow> {
        let ticks =
            cost.checked_mul(self.unit).filter(|&ticks| ticks <= MAX_EXACT).ok_or(Overflow)?;
        let stored = self.stored(standing);
        let taken = ticks.min(stored);
        let threshold = self.store / 2;
        // Above the threshold a tick costs more time the colder the bucket is.
        let floor = (stored - taken).max(threshold);
        let above = stored.saturating_sub(floor);
        let slope = (2 * (stored + floor)).saturating_sub(self.store);
        let linear = u128::from(ticks - above) * u128::from(self.store);
        let sloped = u128::from(above) * u128::from(slope);
        let scale = u128::from(self.store) * u128::from(self.refill);
        if scale == 0 {
            return Err(Overflow);
        }
        let wait = u64::try_from((linear + sloped).div_ceil(scale)).map_err(|_| Overflow)?;
        Ok((taken, wait))
    }
}

impl Standing {
    /// The time of judgement, in µs since the epoch.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Whether there is anything to keep.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.known
    }

    const fn set(&mut self, debt: u64, deficit: u64, unit: u64) {
        self.debt = debt;
        self.deficit = deficit;
        self.kept = State { newest: self.at, debt, deficit, unit };
        self.known = true;
    }
}
