//! Smooth with a warm-up, after Guava, in exact fractions.
//!
//! A permit costs the area under the line from the stable to the cold interval.

use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use sluicegate_core::{Algorithm, MAX_EXACT};

use super::account::{Account, Patience, Report, Verdict, unknown};
use super::flow::{Flow, whole};
use super::refusal::Refusal;
use crate::times::micros;

/// The debt; `None` for a fresh key, whose store is full.
#[derive(Clone, Debug, Default)]
pub(super) struct WarmUp(Option<Debt>);

#[derive(Clone, Debug)]
struct Debt {
    newest: u64,
    /// Time from `newest` until the next request may pass.
    us: u64,
    /// Units missing from the store at that time.
    missing: BigRational,
}

struct Terms {
    flow: Flow,
    /// Maximum number of units in the store.
    most: BigRational,
}

impl Terms {
    fn of(algorithm: &Algorithm) -> Self {
        let Algorithm::WarmUp { rate, over } = algorithm else { unknown(algorithm) };
        let flow = Flow::new(*rate);
        let most = whole(micros(*over)) * &flow.per_us;
        Self { flow, most }
    }

    /// Returns the microseconds from one unit to the next when the store holds `level`.
    ///
    /// This is the stable interval up to half of the store, then it rises to three times that.
    fn interval(&self, level: &BigRational) -> BigRational {
        let stable = self.flow.per_us.recip();
        let half = &self.most / whole(2);
        if *level <= half {
            return stable;
        }
        let slope = (whole(3) * &stable - &stable) / &half;
        stable + slope * (level - half)
    }

    /// Returns the cost in microseconds of taking the store from one level down to another.
    fn area(&self, from: &BigRational, to: &BigRational) -> BigRational {
        let half = &self.most / whole(2);
        let flat = from.min(&half) - to.min(&half);
        let (top, bottom) = (from.max(&half), to.max(&half));
        let mean = (self.interval(top) + self.interval(bottom)) / whole(2);
        flat / &self.flow.per_us + (top - bottom) * mean
    }

    fn refuses_all(&self) -> bool {
        self.flow.per_us.is_zero()
    }
}

impl WarmUp {
    /// Returns the remaining debt at `at`, and the units missing once it is paid.
    fn now(&self, terms: &Terms, at: u64) -> Result<(u64, BigRational), Refusal> {
        let Some(debt) = &self.0 else { return Ok((0, BigRational::zero())) };
        let elapsed = at - debt.newest;
        let filled = whole(elapsed.saturating_sub(debt.us)) * &terms.flow.per_us;
        let missing = (terms.flow.in_ticks(&debt.missing)? - filled).max(BigRational::zero());
        Ok((debt.us.saturating_sub(elapsed), missing))
    }

    fn grant(
        &mut self,
        terms: &Terms,
        at: u64,
        units: u64,
        acts_in_us: u64,
    ) -> Result<(), Refusal> {
        let (debt, missing) = self.now(terms, at)?;
        let before = (&terms.most - &missing).max(BigRational::zero());
        let taken = whole(units).min(before.clone());
        let fresh = whole(units) - &taken;
        let after = &before - &taken;
        // Count a cost in ticks before converting it to time.
        terms.flow.in_ticks(&whole(units))?;
        let cost = if terms.refuses_all() {
            // A rate of 0 never grants units. A forced charge would never drain, which no state can
            // hold.
            return Err(Refusal::TooLarge);
        } else {
            terms.area(&before, &after) + fresh / &terms.flow.per_us
        };
        let us = whole(debt.max(acts_in_us)) + cost.ceil();
        let us = us.to_integer().to_u64().filter(|us| *us <= MAX_EXACT).ok_or(Refusal::TooLarge)?;
        self.0 = Some(Debt { newest: at, us, missing: terms.flow.in_ticks(&(missing + taken))? });
        Ok(())
    }
}

impl Account for WarmUp {
    fn boxed(&self) -> Box<dyn Account> {
        Box::new(self.clone())
    }

    fn newest(&self) -> Option<u64> {
        self.0.as_ref().map(|debt| debt.newest)
    }

    fn restamp(&mut self, algorithm: &Algorithm, now: u64) -> Result<(), Refusal> {
        if let Some(debt) = &mut self.0 {
            debt.newest = now;
            debt.missing = Terms::of(algorithm).flow.in_ticks(&debt.missing)?;
        }
        Ok(())
    }

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        _: u64,
        patience: Patience,
    ) -> Result<Verdict, Refusal> {
        let terms = Terms::of(algorithm);
        let (debt, _) = self.now(&terms, at)?;
        Ok(if terms.refuses_all() {
            Verdict::NEVER
        } else {
            Verdict::after(Some(debt), patience.within_us())
        })
    }

    fn admit(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        acts_in_us: u64,
    ) -> Result<(), Refusal> {
        self.grant(&Terms::of(algorithm), at, units, acts_in_us)
    }

    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let (us, missing) = self.now(&terms, at)?;
        let stored = (&terms.most - &missing).max(BigRational::zero());
        let missing = terms.flow.in_ticks(&(missing + whole(units).min(stored)))?;
        self.0 = Some(Debt { newest: at, us, missing });
        Ok(())
    }

    fn refund(&mut self, algorithm: &Algorithm, _: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let Some(debt) = self.0.clone() else { return Ok(()) };
        let time = if terms.refuses_all() {
            0
        } else {
            (whole(units) / &terms.flow.per_us).floor().to_integer().to_u64().unwrap_or(u64::MAX)
        };
        let shrunk = debt.us.min(time);
        let left = whole(units) - whole(shrunk) * &terms.flow.per_us;
        let missing = (terms.flow.in_ticks(&debt.missing)? - left).max(BigRational::zero());
        self.0 = Some(Debt {
            newest: debt.newest,
            us: debt.us - shrunk,
            missing: terms.flow.in_ticks(&missing)?,
        });
        Ok(())
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal> {
        let terms = Terms::of(algorithm);
        let (debt, missing) = self.now(&terms, at)?;
        let nothing = terms.refuses_all().then_some(0);
        Ok(Report {
            limit: nothing,
            remaining: if debt > 0 { Some(0) } else { nothing },
            // No time span is longer.
            reset: terms.flow.time_for(&missing).map(|filling| (debt + filling).min(MAX_EXACT)),
            ..Report::default()
        })
    }

    fn reset(&mut self, _: &Algorithm, _: u64) {
        *self = Self::default();
    }
}
