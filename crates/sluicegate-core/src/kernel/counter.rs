//! The two-cell sliding counter. Cells are aligned to the epoch, and the previous one counts in
//! proportion to its overlap with the window.

use std::fmt;
use std::time::Duration;

use super::{
    Charge, FixedKind, Kernel, Layout, Leases, NEVER, Now, Overflow, Profile, Quota, Report,
    SpecFormat, Taken, Verdict,
};
use crate::algorithm::{Algorithm, LogTier};
use crate::error::PolicyError;
use crate::number::{MAX_EXACT, check_limit};
use crate::rate::write_quota;
use crate::spec::{Amount, Grammar};
use crate::time::{Span, check_window};

/// The rule of a two-cell counter.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Counter {
    limit: u64,
    /// The length of a cell, in µs.
    window: u64,
    /// The step in which elapsed time is measured, in µs: 1, 1,000 or 1,000,000.
    step: u64,
    /// The length of a cell in steps.
    steps: u64,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The start of the current cell, in microseconds since the epoch.
    pub start: u64,
    /// Units in the previous cell.
    pub previous: u64,
    /// Units in the current cell.
    pub current: u64,
}

/// A state at the evaluation time.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    pub(super) at: u64,
    newest: u64,
    start: u64,
    previous: u64,
    current: u64,
}

impl Counter {
    pub(super) fn new(limit: u64, window: Duration) -> Result<Self, PolicyError> {
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

    /// Returns the length of a cell, in µs.
    #[must_use]
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Returns the step in which elapsed time is measured, in µs.
    #[must_use]
    pub const fn step(&self) -> u64 {
        self.step
    }

    /// Counts units from the future as made now. The cell before a future cell is the current cell,
    /// or also in the future.
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

    /// Returns the remaining steps in the current cell, at least 1.
    const fn left(&self, balance: &Balance) -> u64 {
        self.steps - (balance.at - balance.start) / self.step
    }

    fn fits(&self, balance: &Balance, cost: u64) -> bool {
        let steps = u128::from(self.steps);
        let held = u128::from(balance.previous) * u128::from(self.left(balance));
        let own = (u128::from(balance.current) + u128::from(cost)) * steps;
        held + own <= u128::from(self.limit) * steps
    }

    /// Returns the first instant at which a cost up to the limit passes, if no other request comes
    /// first.
    fn passes_at(&self, balance: &Balance, cost: u64) -> u64 {
        // In this cell: prev · left ≤ (limit − cur − cost) · steps gives the maximum number of
        // remaining steps.
        if balance.previous > 0
            && let Some(room) = self.limit.checked_sub(balance.current + cost)
        {
            let most_left = self.most_left(room, balance.previous);
            if most_left >= 1 {
                return balance.start + (self.steps - most_left.min(self.steps)) * self.step;
            }
        }
        // In the next cell, the current one is the previous one.
        let next = balance.start + self.window;
        if balance.current == 0 {
            return next;
        }
        let most_left = self.most_left(self.limit - cost, balance.current);
        next + (self.steps - most_left.min(self.steps)) * self.step
    }

    /// Returns the maximum number of remaining steps in a cell for which `count` of its units count
    /// as at most `room` units.
    fn most_left(&self, room: u64, count: u64) -> u64 {
        let most = u128::from(room) * u128::from(self.steps) / u128::from(count);
        u64::try_from(most).unwrap_or(u64::MAX)
    }
}

impl Kernel for Counter {
    const FIXED: FixedKind = FixedKind { kind: 0x04, numbers: 4 };

    // States with one name have one window, which alone determines their retention.
    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[|_, _| true];

    const LEASES: Option<Leases<Self>> = None;

    type State = State;
    type Balance = Balance;

    fn profile(&self) -> Profile {
        Profile {
            limit: self.limit,
            retention: 2 * self.window,
            layout: Layout::Fixed(Self::FIXED),
            flow: None,
            can_reserve: false,
            is_shaper: false,
            can_lease: false,
        }
    }

    fn balance(&self, state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        let now_at = now.micros;
        let Some(mut state) = state else {
            let start = now_at - now_at % self.window;
            let balance = Balance { at: now_at, newest: now_at, start, previous: 0, current: 0 };
            return Ok((balance, false));
        };
        let restamped = now.is_exceeded_by(state.newest);
        if restamped {
            state = self.restamp(state, now_at)?;
        }
        let at = now_at.max(state.newest);
        let start = at - at % self.window;
        // A stored state may be invalid: a cell that begins after the current one counts as empty.
        let (previous, current) = match start.checked_sub(state.start) {
            Some(0) => (state.previous, state.current),
            Some(gap) if gap == self.window => (state.current, 0),
            _ => (0, 0),
        };
        Ok((Balance { at, newest: state.newest, start, previous, current }, restamped))
    }

    fn judge(&self, balance: &Balance, cost: u64, _within: Option<u64>) -> Verdict {
        if cost > self.limit {
            return Verdict::Refuse { retry: None };
        }
        if self.fits(balance, cost) {
            return Verdict::Pass { wait: 0 };
        }
        Verdict::Refuse { retry: Some(self.passes_at(balance, cost) - balance.at) }
    }

    /// Charges the current cell.
    fn charge(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        let current = match charge {
            Charge::Admitted { cost, .. } => balance.current + cost,
            Charge::Denied { cost } | Charge::Counted { cost } => {
                balance.current.max((balance.current + cost.min(self.limit)).min(self.limit))
            }
        };
        if current > MAX_EXACT {
            return Err(Overflow);
        }
        balance.set(current);
        Ok(())
    }

    /// Gives units back to the current cell.
    fn refund(&self, balance: &mut Balance, units: u64) -> Option<u64> {
        let given = units.min(balance.current);
        let is_used = balance.current > 0;
        balance.current -= given;
        is_used.then_some(given)
    }

    /// Gives units back that were taken in the current cell.
    fn give_back(&self, balance: &mut Balance, taken: Taken) -> Option<u64> {
        let gives = (balance.start..=balance.at).contains(&taken.at);
        if gives { self.refund(balance, taken.units) } else { None }
    }

    fn report(&self, balance: &Balance) -> Report {
        let ceiling = u128::from(self.limit) * u128::from(self.steps);
        let held = u128::from(balance.previous) * u128::from(self.left(balance));
        let room = ceiling.saturating_sub(held) / u128::from(self.steps);
        // The time until both cells have left the window.
        let end = if balance.current > 0 {
            balance.start + 2 * self.window
        } else if balance.previous > 0 {
            balance.start + self.window
        } else {
            balance.at
        };
        Report {
            evaluated_at: balance.at,
            remaining: u64::try_from(room).unwrap_or(u64::MAX).saturating_sub(balance.current),
            reset: end - balance.at,
            ..Report::default()
        }
    }

    fn used(&self, state: &State, now: Now) -> u64 {
        self.balance(Some(*state), now).map_or(NEVER, |(balance, _)| {
            let held = u128::from(balance.previous) * u128::from(self.left(&balance));
            let held = held.div_ceil(u128::from(self.steps));
            u64::try_from(held).unwrap_or(NEVER).saturating_add(balance.current)
        })
    }

    fn state(&self, balance: Balance) -> Option<State> {
        let Balance { newest, start, previous, current, .. } = balance;
        Some(State { newest, start, previous, current })
    }

    fn newest(state: &State) -> u64 {
        state.newest
    }

    fn write(state: &State, numbers: &mut Vec<u64>) {
        numbers.extend([state.newest, state.start, state.previous, state.current]);
    }

    fn read(numbers: &[u64]) -> Option<State> {
        match *numbers {
            [newest, start, previous, current] if start <= newest => {
                Some(State { newest, start, previous, current })
            }
            _ => None,
        }
    }
}

impl SpecFormat for Counter {
    const GRAMMARS: &'static [Grammar] = &[Grammar {
        word: "sliding_counter",
        amount: Amount::Rate,
        options: &[],
        example: "sliding_counter 1000/h",
        read: |spec| {
            let LogTier { limit, window } = spec.tier()?;
            Ok(Algorithm::SlidingCounter { limit, window })
        },
    }];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match algorithm {
            Algorithm::SlidingCounter { limit, window } => write_quota(f, *limit, *window),
            _ => Ok(()),
        }
    }

    fn window_text(algorithm: &Algorithm) -> String {
        match algorithm {
            Algorithm::SlidingCounter { window, .. } => Span::from(*window).to_string(),
            _ => String::new(),
        }
    }

    fn quota(&self, _: &Algorithm) -> Quota {
        Quota { units: self.limit, window: Some(Duration::from_micros(self.window)) }
    }
}

impl Balance {
    const fn set(&mut self, current: u64) {
        self.current = current;
        self.newest = self.at;
    }
}
