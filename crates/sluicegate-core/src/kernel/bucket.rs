//! The bucket kernel: token bucket, GCRA, leaky bucket, shaper and smooth bursty are one
//! calculation over a newest time and a deficit.
//!
//! A rate of N per P µs is reduced by its greatest common divisor: one unit costs `unit` ticks,
//! and each microsecond gives `refill` ticks back. The deficit is what is missing from a full
//! bucket, in ticks; above the capacity it is a debt. Counting the deficit rather than the tokens
//! is what lets the numbers of a policy change under a live state.

use super::{Ask, Overflow, Times};
use crate::error::PolicyError;
use crate::number::{MAX_EXACT, mul_div_ceil};
use crate::policy::Start;
use crate::rate::Rate;
use crate::time::Span;

/// A bucket made ready to decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bucket {
    /// Ticks that one unit costs.
    unit: u64,
    /// Ticks that each microsecond gives back.
    refill: u64,
    /// The deficit at which nothing is left.
    capacity: u64,
    /// The largest cost that could ever pass; unbounded for smooth.
    limit: u64,
    /// The deficit of a key that was never used.
    fresh: u64,
    discipline: Discipline,
}

/// What makes a request wait or be refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Discipline {
    /// Its own cost has to fit.
    Meter,
    /// Its own cost has to fit, and it acts when those before it have left.
    Shaper,
    /// The debt of those before it has to be paid.
    Smooth,
}

/// What is kept of a key: the newest admitted time (µs), the deficit in ticks as it stood then,
/// and the ticks per unit it was counted in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The deficit at that time, in ticks.
    pub deficit: u64,
    /// Ticks per unit, so that a changed policy can convert the deficit.
    pub unit: u64,
}

/// A state as it stands at the time of judgement.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    at: u64,
    deficit: u64,
    newest: u64,
    deficit_at_newest: u64,
    /// Whether there was a state.
    known: bool,
}

impl Bucket {
    pub(crate) fn meter(
        rate: Rate,
        burst: u64,
        burst_word: &'static str,
    ) -> Result<Self, PolicyError> {
        let capacity = exact_capacity(rate, burst, burst_word)?;
        let (unit, refill) = rate.ticks();
        Ok(Self { unit, refill, capacity, limit: burst, fresh: 0, discipline: Discipline::Meter })
    }

    pub(crate) fn shaper(rate: Rate, queue: u64) -> Result<Self, PolicyError> {
        // One unit is being acted on while `queue` units wait. At rate 0 nothing ever leaves.
        let room = if rate.count() == 0 { 0 } else { queue.saturating_add(1) };
        let capacity = exact_capacity(rate, room, "queue")?;
        let (unit, refill) = rate.ticks();
        Ok(Self { unit, refill, capacity, limit: room, fresh: 0, discipline: Discipline::Shaper })
    }

    pub(crate) fn smooth(rate: Rate, burst: Span, start: Start) -> Result<Self, PolicyError> {
        let (unit, refill) = rate.ticks();
        let capacity = refill
            .checked_mul(burst.as_micros())
            .filter(|ticks| ticks.checked_add(unit).is_some_and(|sum| sum <= MAX_EXACT))
            .ok_or_else(|| {
                let longest = if unit > MAX_EXACT { 0 } else { (MAX_EXACT - unit) / refill.max(1) };
                PolicyError::new(
                    "burst",
                    format!("{burst} at {rate} can't be counted exactly: the longest burst at this rate is {longest}us"),
                )
            })?;
        let fresh = match start {
            Start::Empty => capacity,
            Start::Full => 0,
        };
        let limit = if refill == 0 { 0 } else { u64::MAX };
        Ok(Self { unit, refill, capacity, limit, fresh, discipline: Discipline::Smooth })
    }

    /// Ticks that one unit costs.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// Ticks that each microsecond gives back.
    #[must_use]
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// The deficit, in ticks, at which nothing is left.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The deficit, in ticks, of a key that was never used.
    #[must_use]
    pub const fn fresh_deficit(&self) -> u64 {
        self.fresh
    }

    /// The largest cost a fresh key admits, in units; `u64::MAX` when unbounded.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether an admitted request may be told to act later (a shaper).
    #[must_use]
    pub const fn is_shaper(&self) -> bool {
        matches!(self.discipline, Discipline::Shaper)
    }

    /// Whether a request of any size passes once the debt is paid (smooth bursty).
    #[must_use]
    pub const fn is_smooth(&self) -> bool {
        matches!(self.discipline, Discipline::Smooth)
    }

    /// Brings a state to the time of judgement.
    ///
    /// # Errors
    /// When the deficit can't be counted in this policy's ticks.
    #[inline]
    pub fn stand(&self, state: Option<State>, times: Times) -> Result<(Standing, bool), Overflow> {
        let Some(mut state) = state else {
            let at = times.now;
            let standing = Standing {
                at,
                deficit: self.fresh,
                newest: at,
                deficit_at_newest: self.fresh,
                known: false,
            };
            return Ok((standing, false));
        };
        let restamped = times.is_too_far_ahead(state.newest);
        if restamped {
            state.newest = times.now;
        }
        if state.unit != self.unit {
            state.deficit = mul_div_ceil(state.deficit, self.unit, state.unit).ok_or(Overflow)?;
        }
        let at = times.now.max(state.newest);
        let deficit = self.drain(state.deficit, at - state.newest);
        let standing = Standing {
            at,
            deficit,
            newest: state.newest,
            deficit_at_newest: state.deficit,
            known: true,
        };
        Ok((standing, restamped))
    }

    /// Whether a cost passes when its caller accepts a wait of `within` µs (`None`: what the
    /// policy accepts by itself, which is no wait but for a shaper).
    #[inline]
    #[must_use]
    pub fn ask(&self, standing: &Standing, cost: u64, within: Option<u64>) -> Ask {
        if self.discipline == Discipline::Smooth {
            return self.ask_smooth(standing, within);
        }
        if cost > self.limit {
            return Ask::Refuse { retry: None };
        }
        let needed = standing.deficit + cost * self.unit;
        let over = needed.saturating_sub(self.capacity);
        if over == 0 && self.discipline == Discipline::Meter {
            return Ask::Pass { wait: 0 };
        }
        if self.refill == 0 {
            return Ask::Refuse { retry: None };
        }
        let room_in = over.div_ceil(self.refill);
        if self.discipline == Discipline::Meter {
            return Ask::within(room_in, within.unwrap_or(0));
        }
        let wait = standing.deficit.div_ceil(self.refill);
        let too_long = wait.saturating_sub(within.unwrap_or(u64::MAX));
        match room_in.max(too_long) {
            0 => Ask::Pass { wait },
            retry => Ask::Refuse { retry: Some(retry) },
        }
    }

    fn ask_smooth(&self, standing: &Standing, within: Option<u64>) -> Ask {
        if self.refill == 0 {
            return Ask::Refuse { retry: None };
        }
        let debt = standing.deficit.saturating_sub(self.capacity);
        Ask::within(debt.div_ceil(self.refill), within.unwrap_or(0))
    }

    /// Charges an admitted cost. `wait` is what [`Bucket::ask`] answered, and `act_in` when all
    /// policies of the limit agree to act: waiting longer than this policy asks for, it counts
    /// as idle until then.
    ///
    /// # Errors
    /// When the new deficit is beyond what a state can hold.
    #[inline]
    pub fn admit(
        &self,
        standing: &mut Standing,
        cost: u64,
        wait: u64,
        act_in: u64,
    ) -> Result<(), Overflow> {
        let mut deficit = standing.deficit;
        if wait < act_in {
            deficit = deficit.max(product(self.refill, act_in)?);
        }
        standing.set(holdable(deficit + product(cost, self.unit)?)?);
        Ok(())
    }

    /// Takes a cost by force, into debt.
    ///
    /// # Errors
    /// When the new deficit is beyond what a state can hold.
    pub fn force(&self, standing: &mut Standing, cost: u64) -> Result<(), Overflow> {
        standing.set(holdable(standing.deficit + product(cost, self.unit)?)?);
        Ok(())
    }

    /// Charges a denied request: up to the capacity, never into debt.
    pub fn charge_denied(&self, standing: &mut Standing, cost: u64) {
        let ticks = u128::from(cost.min(self.limit)) * u128::from(self.unit);
        let room = self.capacity.saturating_sub(standing.deficit);
        let taken = u64::try_from(ticks).unwrap_or(u64::MAX).min(room);
        standing.set(standing.deficit + taken);
    }

    /// Gives units back, if any were taken. The newest time stays: a refund is not an admission.
    pub fn refund(&self, standing: &mut Standing, units: u64) {
        if !standing.known {
            return;
        }
        let ticks = u128::from(units) * u128::from(self.unit);
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        standing.deficit_at_newest = standing.deficit_at_newest.saturating_sub(ticks);
        standing.deficit = self.drain(standing.deficit_at_newest, standing.at - standing.newest);
    }

    /// The largest cost that would pass now; `u64::MAX` when unbounded.
    #[inline]
    #[must_use]
    pub fn remaining(&self, standing: &Standing) -> u64 {
        match self.discipline {
            Discipline::Smooth if standing.deficit <= self.capacity && self.refill > 0 => u64::MAX,
            Discipline::Smooth => 0,
            Discipline::Meter | Discipline::Shaper => {
                self.capacity.saturating_sub(standing.deficit) / self.unit
            }
        }
    }

    /// The time until the bucket is full, in µs; `None` when nothing flows back.
    #[inline]
    #[must_use]
    pub const fn reset_after(&self, standing: &Standing) -> Option<u64> {
        match (standing.deficit, self.refill) {
            (0, _) => Some(0),
            (_, 0) => None,
            (deficit, refill) => Some(deficit.div_ceil(refill)),
        }
    }

    /// The state to keep.
    #[inline]
    #[must_use]
    pub const fn state(&self, standing: &Standing) -> State {
        State { newest: standing.newest, deficit: standing.deficit_at_newest, unit: self.unit }
    }

    /// The deficit after `elapsed` µs. Elapsed time is cut at the time to full before it is
    /// multiplied, so that no idle time overflows.
    #[inline]
    const fn drain(&self, deficit: u64, elapsed: u64) -> u64 {
        if self.refill == 0 {
            return deficit;
        }
        match elapsed.checked_mul(self.refill) {
            Some(ticks) => deficit.saturating_sub(ticks),
            None => 0,
        }
    }
}

impl Standing {
    /// The time of judgement, in µs since the epoch.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The deficit at that time, in ticks.
    #[must_use]
    pub const fn deficit(&self) -> u64 {
        self.deficit
    }

    /// Whether there is anything to keep.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.known
    }

    #[inline]
    const fn set(&mut self, deficit: u64) {
        self.deficit = deficit;
        self.newest = self.at;
        self.deficit_at_newest = deficit;
        self.known = true;
    }
}

fn product(a: u64, b: u64) -> Result<u64, Overflow> {
    a.checked_mul(b).filter(|&ticks| ticks <= MAX_EXACT).ok_or(Overflow)
}

fn holdable(deficit: u64) -> Result<u64, Overflow> {
    if deficit > MAX_EXACT { Err(Overflow) } else { Ok(deficit) }
}

/// `burst` units in ticks, if every number up to there is exact.
fn exact_capacity(rate: Rate, burst: u64, burst_word: &'static str) -> Result<u64, PolicyError> {
    let exact = |count: u64, burst: u64| {
        let (unit, _) = Rate::new(count, rate.per()).ok()?.ticks();
        (unit <= MAX_EXACT)
            .then(|| unit.checked_mul(burst))
            .flatten()
            .filter(|&ticks| ticks <= MAX_EXACT)
    };
    if let Some(ticks) = exact(rate.count(), burst) {
        return Ok(ticks);
    }
    let (unit, _) = rate.ticks();
    let largest = MAX_EXACT / unit;
    let fits =
        |count: u64| exact(count, if burst == rate.count() { count } else { burst }).is_some();
    // What is farther away than half the rate is another rate, not a near one.
    let reach = NEAREST_SEARCH.min(rate.count() / 2);
    let below =
        (rate.count().saturating_sub(reach)..rate.count()).rev().find(|&n| n > 0 && fits(n));
    let above = (rate.count() + 1..=rate.count().saturating_add(reach)).find(|&n| fits(n));
    let per = rate.per();
    let nearest = match (below, above) {
        (Some(below), Some(above)) => {
            format!("; the nearest rates that can are {below}/{per} and {above}/{per}")
        }
        (Some(one), None) | (None, Some(one)) => {
            format!("; the nearest rate that can is {one}/{per}")
        }
        (None, None) => String::new(),
    };
    Err(PolicyError::new(
        if burst == rate.count() { "rate" } else { burst_word },
        format!(
            "{rate} with {burst_word} {burst} can't be counted exactly: at this rate {burst_word} is at most {largest}{nearest}"
        ),
    ))
}

/// How far from a refused rate the nearest accepted one is looked for at most.
const NEAREST_SEARCH: u64 = 100_000;
