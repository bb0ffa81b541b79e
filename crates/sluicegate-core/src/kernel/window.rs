//! The fixed window: one counter that starts again at each window.

use super::{Ask, Overflow, Times};
use crate::calendar::{Boundaries, CalendarWindow};
use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::policy::Window;
use crate::time::{Span, Timestamp};

/// A fixed window made ready to decide.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FixedWindow {
    limit: u64,
    anchor: Anchor,
}

/// Where windows begin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Anchor {
    /// At the first admitted request after the previous window; the length in µs.
    FirstAdmitted(u64),
    /// At whole multiples of the length (µs) since the epoch.
    Aligned(u64),
    /// At the days, weeks, months or years of a zone.
    Calendar(CalendarWindow),
}

/// What is kept of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// Where the window begins, in microseconds since the epoch.
    pub start: u64,
    /// Units used in it.
    pub used: u64,
}

/// A state as it stands at the time of judgement.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    at: u64,
    newest: u64,
    start: u64,
    end: u64,
    used: u64,
    /// Whether there is a state for this very window.
    open: bool,
}

impl FixedWindow {
    pub(crate) fn new(limit: u64, window: &Window) -> Result<Self, PolicyError> {
        let limit = check_limit(limit)?;
        let anchor = match window {
            Window::FirstAdmitted(length) => Anchor::FirstAdmitted(check_window(*length)?),
            Window::Aligned(length) => Anchor::Aligned(check_window(*length)?),
            Window::Calendar(calendar) => Anchor::Calendar(calendar.clone()),
        };
        Ok(Self { limit, anchor })
    }

    /// The most units per window.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Where windows begin.
    #[must_use]
    pub const fn anchor(&self) -> &Anchor {
        &self.anchor
    }

    /// Brings a state to the time of judgement.
    #[must_use]
    pub fn stand(&self, state: Option<State>, times: Times) -> (Standing, bool) {
        let Some(mut state) = state else {
            let (start, end) = self.window_at(times.now);
            return (
                Standing { at: times.now, newest: times.now, start, end, used: 0, open: false },
                false,
            );
        };
        let restamped = times.is_too_far_ahead(state.newest);
        if restamped {
            state.newest = times.now;
            // A count that lies ahead is counted as made now.
            state.start = state.start.min(self.window_at(times.now).0);
        }
        let at = times.now.max(state.newest);
        let (start, end) = match self.anchor {
            Anchor::FirstAdmitted(length) if at < state.start + length => {
                (state.start, state.start + length)
            }
            _ => self.window_at(at),
        };
        let open = state.start == start;
        let used = if open { state.used } else { 0 };
        (Standing { at, newest: state.newest, start, end, used, open }, restamped)
    }

    /// Whether a cost passes.
    #[must_use]
    pub const fn ask(&self, standing: &Standing, cost: u64) -> Ask {
        if cost > self.limit {
            Ask::Refuse { retry: None }
        } else if standing.used + cost <= self.limit {
            Ask::Pass { wait: 0 }
        } else {
            Ask::Refuse { retry: Some(standing.end - standing.at) }
        }
    }

    /// Charges a cost, admitted or by force.
    ///
    /// # Errors
    /// When the count is beyond what a state can hold.
    pub fn admit(&self, standing: &mut Standing, cost: u64) -> Result<(), Overflow> {
        let used = standing.used + cost;
        if used > MAX_EXACT {
            return Err(Overflow);
        }
        standing.set(used);
        Ok(())
    }

    /// Charges a denied request, up to the limit.
    pub fn charge_denied(&self, standing: &mut Standing, cost: u64) {
        standing.set(standing.used.max((standing.used + cost.min(self.limit)).min(self.limit)));
    }

    /// Gives units back to the current window. The newest time stays.
    pub const fn refund(&self, standing: &mut Standing, units: u64) {
        standing.used = standing.used.saturating_sub(units);
    }

    /// The largest cost that would pass now.
    #[must_use]
    pub const fn remaining(&self, standing: &Standing) -> u64 {
        self.limit.saturating_sub(standing.used)
    }

    /// The time until the state equals a fresh key's, in µs.
    #[must_use]
    pub const fn reset_after(&self, standing: &Standing) -> u64 {
        let fresh = match self.anchor {
            // An open window keeps its place even when all of it was refunded.
            Anchor::FirstAdmitted(_) => !standing.open,
            Anchor::Aligned(_) | Anchor::Calendar(_) => standing.used == 0,
        };
        if fresh { 0 } else { standing.end - standing.at }
    }

    /// The state to keep.
    #[must_use]
    pub const fn state(&self, standing: &Standing) -> State {
        State { newest: standing.newest, start: standing.start, used: standing.used }
    }

    /// The window that a request admitted at `at` would open or fall into, without a state.
    fn window_at(&self, at: u64) -> (u64, u64) {
        match &self.anchor {
            Anchor::FirstAdmitted(length) => (at, at + length),
            Anchor::Aligned(length) => {
                let start = at - at % length;
                (start, start + length)
            }
            Anchor::Calendar(calendar) => {
                let (start, end) = calendar.window_at(Timestamp::from_micros_clamped(at));
                (start.as_micros(), end.as_micros())
            }
        }
    }

    /// For calendar windows: the boundaries around `now`, for a store that has no zone database.
    #[must_use]
    pub fn boundaries(&self, now: u64) -> Option<Boundaries> {
        match &self.anchor {
            Anchor::Calendar(calendar) => {
                Some(calendar.boundaries(Timestamp::from_micros_clamped(now)))
            }
            Anchor::FirstAdmitted(_) | Anchor::Aligned(_) => None,
        }
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
    pub const fn is_open(&self) -> bool {
        self.open
    }

    const fn set(&mut self, used: u64) {
        self.used = used;
        self.newest = self.at;
        self.open = true;
    }
}

pub(super) fn check_limit(limit: u64) -> Result<u64, PolicyError> {
    if limit > MAX_EXACT {
        return Err(PolicyError::new(
            "limit",
            format!("{limit} is above the largest limit, {MAX_EXACT}"),
        ));
    }
    Ok(limit)
}

pub(super) fn check_window(window: Span) -> Result<u64, PolicyError> {
    if window.is_zero() || window > MAX_WINDOW {
        return Err(PolicyError::new(
            "window",
            format!("{window} is not from 1us to 36525d (100 years)"),
        ));
    }
    Ok(window.as_micros())
}

/// 100 years: with today's times, and twice the window for two cells, sums stay exact in Lua.
const MAX_WINDOW: Span = match Span::from_micros(36_525 * Span::DAY.as_micros()) {
    Ok(span) => span,
    Err(_) => Span::MAX,
};
