//! The two-cell sliding counter: the list of admissions, summed per cell. The previous cell counts
//! in proportion to its remaining share of the window.

use sluicegate_core::{Algorithm, MAX_EXACT};

use super::account::{Account, Patience, Report, Retry, Verdict, unknown};
use super::refusal::Refusal;
use crate::times::micros;

#[derive(Clone, Debug, Default)]
pub(super) struct TwoCells {
    newest: Option<u64>,
    /// Stamps and units of this cell and the previous one, as of the newest request.
    entries: Vec<(u64, u64)>,
}

/// The policy's numbers. Products are 128-bit, which no two of these numbers can overflow.
struct Terms {
    limit: i128,
    window: u64,
    /// Step in which elapsed time is measured, in µs.
    step: u64,
}

impl Terms {
    fn of(algorithm: &Algorithm) -> Self {
        let Algorithm::SlidingCounter { limit, window } = algorithm else { unknown(algorithm) };
        let window = micros(*window);
        let is_exact = |step: &u64| {
            window.is_multiple_of(*step)
                && 3 * u128::from(*limit) * u128::from(window / step) <= u128::from(MAX_EXACT)
        };
        let step =
            [1, 1_000, 1_000_000].into_iter().find(is_exact).unwrap_or_else(|| unknown(algorithm));
        Self { limit: i128::from(*limit), window, step }
    }

    /// Returns the window in steps.
    fn steps(&self) -> i128 {
        i128::from(self.window / self.step)
    }
}

/// The counts at one instant.
struct Reading {
    previous: i128,
    current: i128,
    /// Whole steps since the current cell began.
    elapsed: i128,
}

impl Reading {
    fn passes(&self, terms: &Terms, units: i128) -> bool {
        let Self { previous, current, elapsed } = self;
        previous * (terms.steps() - elapsed) + (current + units) * terms.steps()
            <= terms.limit * terms.steps()
    }
}

impl TwoCells {
    fn read(&self, terms: &Terms, at: u64) -> Reading {
        let cell = at / terms.window;
        let count = |wanted: u64| -> i128 {
            let entries =
                self.entries.iter().filter(|(stamp, _)| stamp / terms.window + wanted == cell);
            entries.map(|(_, units)| i128::from(*units)).sum()
        };
        Reading {
            previous: count(1),
            current: count(0),
            elapsed: i128::from((at - cell * terms.window) / terms.step),
        }
    }

    /// Returns the first instant at which `units` pass. Solves the estimate for the elapsed steps:
    /// first within the current cell, then in the next, where the current one counts partially.
    fn opens(&self, terms: &Terms, at: u64, units: i128) -> Option<u64> {
        if units > terms.limit {
            return None;
        }
        let Reading { previous, current, .. } = self.read(terms, at);
        let cell = at / terms.window;
        let in_time = |cell: u64, count: i128, room: i128| {
            // Solves `count · (steps − elapsed) ≤ room · steps`.
            let elapsed = (terms.steps() - room * terms.steps() / count.max(1)).max(0);
            cell * terms.window + u64::try_from(elapsed).unwrap_or(u64::MAX) * terms.step
        };
        let room = terms.limit - current - units;
        if room >= 0 {
            return Some(in_time(cell, previous, room));
        }
        Some(in_time(cell + 1, current, terms.limit - units))
    }

    fn record(&mut self, terms: &Terms, at: u64, units: u64) -> Result<(), Refusal> {
        let cell = at / terms.window;
        self.entries.retain(|(stamp, _)| stamp / terms.window + 1 >= cell);
        // A denial when no units are free charges nothing.
        if units > 0 {
            self.entries.push((at, units));
        }
        self.newest = Some(at);
        self.holdable(terms, at)
    }

    fn holdable(&self, terms: &Terms, at: u64) -> Result<(), Refusal> {
        let current = self.read(terms, at).current;
        if current > i128::from(MAX_EXACT) { Err(Refusal::TooLarge) } else { Ok(()) }
    }
}

impl Account for TwoCells {
    fn boxed(&self) -> Box<dyn Account> {
        Box::new(self.clone())
    }

    fn newest(&self) -> Option<u64> {
        self.newest
    }

    fn restamp(&mut self, algorithm: &Algorithm, now: u64) -> Result<(), Refusal> {
        self.newest = Some(now);
        for (stamp, _) in &mut self.entries {
            *stamp = now.min(*stamp);
        }
        // The sum of two cells may be too large for one.
        self.holdable(&Terms::of(algorithm), now)
    }

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        _: Patience,
    ) -> Result<Verdict, Refusal> {
        let terms = Terms::of(algorithm);
        let units = i128::from(units);
        if self.read(&terms, at).passes(&terms, units) {
            return Ok(Verdict::ADMITTED);
        }
        Ok(Verdict::refused(
            self.opens(&terms, at, units).map_or(Retry::Never, |opens| Retry::After(opens - at)),
        ))
    }

    fn admit(&mut self, algorithm: &Algorithm, at: u64, units: u64, _: u64) -> Result<(), Refusal> {
        self.record(&Terms::of(algorithm), at, units)
    }

    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let room = (terms.limit - self.read(&terms, at).current).max(0);
        let units = i128::from(units).min(room);
        self.record(&terms, at, u64::try_from(units).unwrap_or(0))
    }

    fn refund(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let mut left = units;
        let now = at / terms.window;
        for (_, units) in self.entries.iter_mut().filter(|(stamp, _)| stamp / terms.window == now) {
            let given = left.min(*units);
            *units -= given;
            left -= given;
        }
        Ok(())
    }

    fn give_back(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        taken_at: u64,
        _then: Option<&Algorithm>,
    ) -> Result<(), Refusal> {
        let window = Terms::of(algorithm).window;
        if taken_at <= at && taken_at / window == at / window {
            self.refund(algorithm, at, units)?;
        }
        Ok(())
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal> {
        let terms = Terms::of(algorithm);
        let Reading { previous, current, elapsed } = self.read(&terms, at);
        let estimate = previous * (terms.steps() - elapsed) + current * terms.steps();
        let room = (terms.limit * terms.steps() - estimate).max(0) / terms.steps();
        let cell = at / terms.window;
        let reset = match (previous, current) {
            (0, 0) => 0,
            (_, 0) => (cell + 1) * terms.window - at,
            _ => (cell + 2) * terms.window - at,
        };
        Ok(Report {
            limit: u64::try_from(terms.limit).ok(),
            remaining: u64::try_from(room).ok(),
            reset: Some(reset),
            ..Report::default()
        })
    }

    fn reset(&mut self, _: &Algorithm, _: u64) {
        *self = Self::default();
    }
}
