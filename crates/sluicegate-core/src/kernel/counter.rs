//! The two-cell sliding counter: cells aligned to the epoch, of which the previous one counts in
//! proportion to what is left of it in the window.

use super::window::{check_limit, check_window};
use super::{Ask, Overflow, Times};
use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::time::Span;

/// A two-cell counter made ready to decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Counter {
    limit: u64,
    /// The length of a cell, in µs.
    window: u64,
    /// The step in which elapsed time is measured, in µs: 1, 1,000 or 1,000,000.
    step: u64,
    /// The length of a cell in steps.
    steps: u64,
}

/// What is kept of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// Where the current cell begins, in microseconds since the epoch.
    pub start: u64,
    /// Units in the cell before it.
    pub previous: u64,
    /// Units in the current cell.
    pub current: u64,
}

/// A state as it stands at the time of judgement.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    at: u64,
    newest: u64,
    start: u64,
    previous: u64,
    current: u64,
}

impl Counter {
    pub(crate) fn new(limit: u64, window: Span) -> Result<Self, PolicyError> {
        let limit = check_limit(limit)?;
        let window = check_window(window)?;
        let step =
            [1, 1_000, 1_000_000].into_iter().filter(|step| window.is_multiple_of(*step)).find(
                |step| 3 * u128::from(limit) * u128::from(window / step) <= u128::from(MAX_EXACT),
            );
        let Some(step) = step else {
            let coarsest = [1_000_000, 1_000, 1]
                .into_iter()
                .find(|step| window.is_multiple_of(*step))
                .unwrap_or(1);
            let most = MAX_EXACT / 3 / (window / coarsest);
            return Err(PolicyError::new(
                "limit",
                format!(
                    "{limit} can't be computed exactly over this window: the largest limit is {most}"
                ),
            ));
        };
        Ok(Self { limit, window, step, steps: window / step })
    }

    /// The most units in the window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The length of a cell, in µs.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// The step in which elapsed time is measured, in µs.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// Brings a state to the time of judgement.
    ///
    /// # Errors
    /// When a restamp adds up to more than a cell can hold.
    pub fn stand(&self, state: Option<State>, times: Times) -> Result<(Standing, bool), Overflow> {
        let Some(mut state) = state else {
            let start = times.now - times.now % self.window;
            let standing =
                Standing { at: times.now, newest: times.now, start, previous: 0, current: 0 };
            return Ok((standing, false));
        };
        let restamped = times.is_too_far_ahead(state.newest);
        if restamped {
            state = self.restamp(state, times.now)?;
        }
        let at = times.now.max(state.newest);
        let start = at - at % self.window;
        // A cell that begins after the present one is nonsense: a store may hold anything.
        let (previous, current) = match start.checked_sub(state.start) {
            Some(0) => (state.previous, state.current),
            Some(gap) if gap == self.window => (state.current, 0),
            _ => (0, 0),
        };
        Ok((Standing { at, newest: state.newest, start, previous, current }, restamped))
    }

    /// Whether a cost passes.
    #[must_use]
    pub fn ask(&self, standing: &Standing, cost: u64) -> Ask {
        if cost > self.limit {
            return Ask::Refuse { retry: None };
        }
        if self.fits(standing, cost) {
            return Ask::Pass { wait: 0 };
        }
        Ask::Refuse { retry: Some(self.passes_at(standing, cost) - standing.at) }
    }

    /// Charges a cost, admitted or by force.
    ///
    /// # Errors
    /// When the count is beyond what a state can hold.
    pub fn admit(&self, standing: &mut Standing, cost: u64) -> Result<(), Overflow> {
        let current = standing.current + cost;
        if current > MAX_EXACT {
            return Err(Overflow);
        }
        standing.set(current);
        Ok(())
    }

    /// Charges a denied request: the current cell, up to the limit.
    pub fn charge_denied(&self, standing: &mut Standing, cost: u64) {
        standing
            .set(standing.current.max((standing.current + cost.min(self.limit)).min(self.limit)));
    }

    /// Gives units back to the current cell. The newest time stays.
    pub const fn refund(&self, standing: &mut Standing, units: u64) {
        standing.current = standing.current.saturating_sub(units);
    }

    /// The largest cost that would pass now.
    #[must_use]
    pub fn remaining(&self, standing: &Standing) -> u64 {
        let ceiling = u128::from(self.limit) * u128::from(self.steps);
        let held = u128::from(standing.previous) * u128::from(self.left(standing));
        let room = ceiling.saturating_sub(held) / u128::from(self.steps);
        u64::try_from(room).unwrap_or(u64::MAX).saturating_sub(standing.current)
    }

    /// The time until both cells have left the window, in µs.
    #[must_use]
    pub const fn reset_after(&self, standing: &Standing) -> u64 {
        let end = if standing.current > 0 {
            standing.start + 2 * self.window
        } else if standing.previous > 0 {
            standing.start + self.window
        } else {
            standing.at
        };
        end - standing.at
    }

    /// The state to keep.
    #[must_use]
    pub const fn state(&self, standing: &Standing) -> State {
        State {
            newest: standing.newest,
            start: standing.start,
            previous: standing.previous,
            current: standing.current,
        }
    }

    /// What lies ahead of now is counted as made now: the cell before one that lies ahead is the
    /// current one or lies ahead too.
    fn restamp(&self, state: State, now: u64) -> Result<State, Overflow> {
        let start = now - now % self.window;
        if state.start <= start {
            return Ok(State { newest: now, ..state });
        }
        let current = state.previous + state.current;
        if current > MAX_EXACT {
            return Err(Overflow);
        }
        Ok(State { newest: now, start, previous: 0, current })
    }

    /// Steps that are left of the current cell, at least 1.
    const fn left(&self, standing: &Standing) -> u64 {
        self.steps - (standing.at - standing.start) / self.step
    }

    fn fits(&self, standing: &Standing, cost: u64) -> bool {
        let steps = u128::from(self.steps);
        let held = u128::from(standing.previous) * u128::from(self.left(standing));
        let own = (u128::from(standing.current) + u128::from(cost)) * steps;
        held + own <= u128::from(self.limit) * steps
    }

    /// The first instant at which a cost up to the limit passes, if nobody else comes.
    fn passes_at(&self, standing: &Standing, cost: u64) -> u64 {
        // In this cell: prev · left ≤ (limit − cur − cost) · steps gives the most steps left.
        if standing.previous > 0
            && let Some(room) = self.limit.checked_sub(standing.current + cost)
        {
            let most_left = self.most_left(room, standing.previous);
            if most_left >= 1 {
                return standing.start + (self.steps - most_left.min(self.steps)) * self.step;
            }
        }
        // In the next one the current cell is the previous one.
        let next = standing.start + self.window;
        if standing.current == 0 {
            return next;
        }
        let most_left = self.most_left(self.limit - cost, standing.current);
        next + (self.steps - most_left.min(self.steps)) * self.step
    }

    /// The most steps left of a cell for which `count` units of it fit into `room` units.
    fn most_left(&self, room: u64, count: u64) -> u64 {
        let most = u128::from(room) * u128::from(self.steps) / u128::from(count);
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

impl Standing {
    /// The time of judgement, in µs since the epoch.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Units in the cell before the current one.
    #[must_use]
    pub const fn previous(&self) -> u64 {
        self.previous
    }

    /// Units in the current cell.
    #[must_use]
    pub const fn current(&self) -> u64 {
        self.current
    }

    const fn set(&mut self, current: u64) {
        self.current = current;
        self.newest = self.at;
    }
}
