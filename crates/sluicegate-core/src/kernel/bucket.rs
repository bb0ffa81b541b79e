//! The bucket kernel. Token bucket, GCRA, leaky bucket, shaper and smooth bursty are one
//! calculation over a newest time and a deficit.
//!
//! A rate of N per P µs is reduced by its greatest common divisor. One unit costs `unit` ticks, and
//! each microsecond gives `refill` ticks back. The deficit is the number of ticks missing from a
//! full bucket; above the capacity it is a debt. A state stores the deficit and not the tokens, so
//! the numbers of a policy can change while there is a state.

mod exact;
mod scale;
mod spec;

use super::{
    Charge, FixedKind, Kernel, Layout, Leases, NEVER, Now, Overflow, Profile, Report, Taken,
    Verdict,
};
use crate::algorithm::{Algorithm, Start};
use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::rate::Rate;
use crate::time::Span;

use exact::exact_capacity;

/// The rule of a bucket, in ticks.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Bucket {
    /// Ticks that one unit costs.
    unit: u64,
    /// Ticks that each microsecond gives back.
    refill: u64,
    /// The deficit of an empty bucket.
    capacity: u64,
    /// The largest cost that could ever pass; unbounded for smooth.
    limit: u64,
    /// The deficit of a key that was never used.
    fresh: u64,
    discipline: Discipline,
}

/// The condition for a request to pass.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Discipline {
    /// The request's cost must fit.
    Meter,
    /// The request's cost must fit, and the request acts when earlier requests have drained.
    Shaper,
    /// The debt of earlier requests must be paid.
    Smooth,
}

/// The state of a key: the newest admitted time, the deficit at that time, and the unit of the
/// deficit in ticks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The deficit at that time, in ticks.
    pub deficit: u64,
    /// Ticks per unit, so that a changed policy can convert the deficit.
    pub unit: u64,
}

/// A state at the evaluation time.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    pub(super) at: u64,
    /// In ticks of the rule, rounded up.
    deficit: u64,
    newest: u64,
    /// The exact deficit. One tick of the rule is [`scale`](Self::scale) of its ticks.
    deficit_at_newest: u64,
    /// 1, unless the state was last written under another rate.
    scale: u64,
    /// Whether there was a state.
    known: bool,
}

impl Bucket {
    /// The minimum retention of a key that starts empty. Forgetting such a key takes units from it,
    /// so it is kept until it has been idle for a day.
    pub const SHORTEST_LIFE: u64 = Span::DAY.as_micros();

    /// The kind of an entry with a state that has leased units.
    pub const LEASED_KIND: u8 = 0x82;

    /// The kind of an entry with a state that has held units.
    pub const HELD_KIND: u8 = 0x84;

    pub(super) fn new(algorithm: &Algorithm) -> Result<Self, PolicyError> {
        match algorithm {
            Algorithm::LeakyBucket { rate, capacity } => Self::meter(*rate, *capacity, "capacity"),
            Algorithm::Shaper { rate, queue } => Self::shaper(*rate, *queue),
            Algorithm::Smooth { rate, burst, start } => {
                Self::smooth(*rate, Span::from(*burst), *start)
            }
            Algorithm::TokenBucket { rate, burst } | Algorithm::Gcra { rate, burst } => {
                Self::meter(*rate, *burst, "burst")
            }
            other => {
                Err(PolicyError::new("algorithm", format!("{} is not a bucket", other.keyword())))
            }
        }
    }

    fn meter(rate: Rate, burst: u64, burst_word: &'static str) -> Result<Self, PolicyError> {
        let capacity = exact_capacity(rate, burst, burst_word)?;
        let (unit, refill) = rate.ticks();
        Ok(Self { unit, refill, capacity, limit: burst, fresh: 0, discipline: Discipline::Meter })
    }

    fn shaper(rate: Rate, queue: u64) -> Result<Self, PolicyError> {
        // One unit is being processed while `queue` units wait. At rate 0 nothing ever leaves.
        let room = if rate.count() == 0 { 0 } else { queue.saturating_add(1) };
        let capacity = exact_capacity(rate, room, "queue")?;
        let (unit, refill) = rate.ticks();
        Ok(Self { unit, refill, capacity, limit: room, fresh: 0, discipline: Discipline::Shaper })
    }

    fn smooth(rate: Rate, burst: Span, start: Start) -> Result<Self, PolicyError> {
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
        let limit = if refill == 0 { 0 } else { NEVER };
        Ok(Self { unit, refill, capacity, limit, fresh, discipline: Discipline::Smooth })
    }

    /// Returns the ticks that one unit costs.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the ticks that each microsecond gives back.
    #[must_use]
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// Returns the deficit of an empty bucket, in ticks.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the deficit of a key that was never used, in ticks.
    #[must_use]
    pub const fn fresh_deficit(&self) -> u64 {
        self.fresh
    }

    /// Returns the minimum retention of a state after an admission, in µs.
    #[must_use]
    pub const fn shortest_life(&self) -> u64 {
        if self.fresh == 0 { 0 } else { Self::SHORTEST_LIFE }
    }

    /// Returns `true` if a request of any size passes once the debt is paid (smooth bursty).
    #[must_use]
    pub const fn is_smooth(&self) -> bool {
        matches!(self.discipline, Discipline::Smooth)
    }

    /// Lowers a deficit by ticks of the rule.
    fn lower(&self, balance: &mut Balance, ticks: u128) -> u64 {
        let before = balance.deficit;
        let ticks = ticks.saturating_mul(u128::from(balance.scale));
        let ticks = u64::try_from(ticks).unwrap_or(u64::MAX);
        balance.deficit_at_newest = balance.deficit_at_newest.saturating_sub(ticks);
        // Rounding up and draining whole ticks of the rule can be done in either order.
        let rounded = balance.deficit_at_newest.div_ceil(balance.scale);
        balance.deficit = self.drain(rounded, balance.at - balance.newest);
        before.saturating_sub(balance.deficit).div_ceil(self.unit)
    }

    /// Returns the ticks that have flowed back at another rate, converted to this one and rounded
    /// up. `None` if no state can hold that number.
    fn flowed_at(&self, elapsed: u64, unit: u64, refill: u64) -> Option<u128> {
        let fits = |ticks: &u128| *ticks <= u128::from(MAX_EXACT);
        let ticks = Some(u128::from(elapsed) * u128::from(refill)).filter(fits)?;
        let ticks = ticks.saturating_mul(u128::from(self.unit));
        ticks.checked_div(u128::from(unit))?;
        Some(ticks.div_ceil(u128::from(unit))).filter(fits)
    }

    /// Returns the ticks that units make, up to the maximum of a state.
    fn least_deficit(&self, units: u64) -> u64 {
        units.saturating_mul(self.unit).min(MAX_EXACT)
    }

    fn judge_smooth(&self, balance: &Balance, within: Option<u64>) -> Verdict {
        if self.refill == 0 {
            return Verdict::Refuse { retry: None };
        }
        let debt = balance.deficit.saturating_sub(self.capacity);
        Verdict::within(debt.div_ceil(self.refill), within.unwrap_or(0))
    }

    /// Returns the deficit after `elapsed` µs. The elapsed time is capped at the time to full
    /// before the multiplication, so that no idle time overflows.
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

impl Kernel for Bucket {
    const FIXED: FixedKind = FixedKind { kind: 0x01, numbers: 3 };

    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] = &[
        |a, b| is_slower((a.unit, a.refill), (b.unit, b.refill)),
        // A deficit that can't be counted in such fine ticks never expires.
        |a, b| a.unit >= b.unit,
        |a, b| a.fresh > 0 || b.fresh == 0,
    ];

    const LEASES: Option<Leases<Self>> = Some(Leases {
        kind: Self::LEASED_KIND,
        held: Some(Self::HELD_KIND),
        drains: true,
        pin: |rule, balance, units| {
            let least = rule.least_deficit(units);
            balance.scale = 1;
            balance.set(balance.deficit.max(least));
        },
        used_beyond: |rule, balance, units| {
            balance.deficit.saturating_sub(rule.least_deficit(units)).div_ceil(rule.unit)
        },
        end: |_| NEVER,
    });

    type State = State;
    type Balance = Balance;

    #[inline]
    fn profile(&self) -> Profile {
        // Covers the debt that one grant can leave. A larger debt would need longer. A program that
        // doesn't know the policy may drop it early, which at worst forgives the debt.
        let drained = self.capacity.saturating_mul(2).checked_div(self.refill);
        Profile {
            limit: self.limit,
            retention: drained.unwrap_or(MAX_EXACT).max(self.shortest_life()),
            layout: Layout::Fixed(Self::FIXED),
            flow: Some((self.unit, self.refill)),
            can_reserve: true,
            is_shaper: self.discipline == Discipline::Shaper,
            can_lease: self.discipline == Discipline::Meter,
        }
    }

    #[inline]
    fn balance(&self, state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        let Some(mut state) = state else {
            let at = now.micros;
            let balance = Balance {
                at,
                deficit: self.fresh,
                newest: at,
                deficit_at_newest: self.fresh,
                scale: 1,
                known: false,
            };
            return Ok((balance, false));
        };
        let restamped = now.is_exceeded_by(state.newest);
        if restamped {
            state.newest = now.micros;
        }
        let at = now.micros.max(state.newest);
        let mut balance = Balance {
            at,
            deficit: 0,
            newest: state.newest,
            deficit_at_newest: state.deficit,
            scale: 1,
            known: true,
        };
        if state.unit == self.unit {
            balance.deficit = self.drain(state.deficit, at - state.newest);
        } else {
            self.convert(&mut balance, state.unit)?;
        }
        Ok((balance, restamped))
    }

    #[inline]
    fn judge(&self, balance: &Balance, cost: u64, within: Option<u64>) -> Verdict {
        if self.discipline == Discipline::Smooth {
            return self.judge_smooth(balance, within);
        }
        if cost > self.limit {
            return Verdict::Refuse { retry: None };
        }
        let needed = balance.deficit + cost * self.unit;
        let over = needed.saturating_sub(self.capacity);
        if over == 0 && self.discipline == Discipline::Meter {
            return Verdict::Pass { wait: 0 };
        }
        if self.refill == 0 {
            return Verdict::Refuse { retry: None };
        }
        let room_in = over.div_ceil(self.refill);
        if self.discipline == Discipline::Meter {
            return Verdict::within(room_in, within.unwrap_or(0));
        }
        let wait = balance.deficit.div_ceil(self.refill);
        let too_long = wait.saturating_sub(within.unwrap_or(u64::MAX));
        match room_in.max(too_long) {
            0 => Verdict::Pass { wait },
            retry => Verdict::Refuse { retry: Some(retry) },
        }
    }

    #[inline]
    fn charge(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        if balance.scale != 1 {
            return self.in_scale(balance, charge);
        }
        let deficit = match charge {
            // A request that acts later leaves its own cost, plus the deficit that an idle bucket
            // would have then. The part of a µs by which its wait was rounded up is lost.
            Charge::Admitted { cost, act_in } => {
                let idle = product(self.refill, act_in)?;
                balance.deficit.max(idle) + product(cost, self.unit)?
            }
            Charge::Denied { cost } | Charge::Counted { cost } => {
                let room = self.capacity.saturating_sub(balance.deficit);
                balance.deficit + cost.min(self.limit).saturating_mul(self.unit).min(room)
            }
        };
        if deficit > MAX_EXACT {
            return Err(Overflow);
        }
        balance.set(deficit);
        Ok(())
    }

    fn refund(&self, balance: &mut Balance, units: u64) -> Option<u64> {
        let ticks = u128::from(units) * u128::from(self.unit);
        balance.known.then(|| self.lower(balance, ticks))
    }

    /// Gives back the cost of the units, minus the ticks that have flowed back since.
    ///
    /// The larger of the current rate and the rate at which they were taken applies. If nothing was
    /// charged after these units, they are given back as if they had never been taken.
    fn give_back(&self, balance: &mut Balance, taken: Taken) -> Option<u64> {
        if !balance.known {
            return None;
        }
        if taken.is_last && self.discipline != Discipline::Shaper {
            let ticks = u128::from(taken.units) * u128::from(self.unit);
            return Some(self.lower(balance, ticks));
        }
        let elapsed = balance.at.checked_sub(taken.at)?;
        // A cost beyond what a state can hold was never taken.
        let cost = product(taken.units, self.unit).ok()?;
        let mut flowed = u128::from(elapsed) * u128::from(self.refill);
        if let Some((unit, refill)) = taken.flow.filter(|flow| *flow != (self.unit, self.refill)) {
            flowed = flowed.max(self.flowed_at(elapsed, unit, refill)?);
        }
        let withheld = u128::from(cost).saturating_sub(flowed);
        let gives = self.discipline == Discipline::Meter && withheld > 0;
        gives.then(|| self.lower(balance, withheld))
    }

    #[inline]
    fn report(&self, balance: &Balance) -> Report {
        let Balance { at, deficit, .. } = *balance;
        Report {
            evaluated_at: at,
            remaining: match self.discipline {
                Discipline::Smooth if deficit <= self.capacity && self.refill > 0 => NEVER,
                Discipline::Smooth => 0,
                Discipline::Meter | Discipline::Shaper => self.capacity.saturating_sub(deficit),
            },
            reset: if self.refill == 0 && deficit > 0 { NEVER } else { deficit },
            ..Report::default()
        }
    }

    fn keep_for(&self, balance: &Balance) -> u64 {
        let idle = balance.at - balance.newest;
        let reset = self.profile().whole_micros(self.report(balance).reset);
        reset.max(self.shortest_life().saturating_sub(idle))
    }

    /// Returns 0 for a deficit below a fresh one, because a key that starts empty has only gained.
    fn used(&self, state: &State, now: Now) -> u64 {
        self.balance(Some(*state), now).map_or(NEVER, |(balance, _)| {
            balance.deficit.saturating_sub(self.fresh).div_ceil(self.unit)
        })
    }

    #[inline]
    fn state(&self, balance: Balance) -> Option<State> {
        balance.known.then(|| self.kept(&balance))
    }

    fn newest(state: &State) -> u64 {
        state.newest
    }

    fn write(state: &State, numbers: &mut Vec<u64>) {
        numbers.extend([state.newest, state.deficit, state.unit]);
    }

    fn read(numbers: &[u64]) -> Option<State> {
        match *numbers {
            [newest, deficit, unit] if unit > 0 => Some(State { newest, deficit, unit }),
            _ => None,
        }
    }
}

impl Balance {
    /// Returns `true` if the deficit is counted in the ticks of the rule.
    #[inline]
    #[must_use]
    pub const fn is_in_its_scale(&self) -> bool {
        self.scale == 1
    }

    /// Counts at most the used units of another balance, which has this rule and time.
    pub(super) const fn lower_to(&mut self, other: &Self) {
        if other.deficit < self.deficit {
            self.scale = 1;
            self.set(other.deficit);
        }
    }

    #[inline]
    const fn set(&mut self, deficit: u64) {
        self.deficit = deficit;
        self.newest = self.at;
        self.deficit_at_newest = deficit;
        self.known = true;
    }
}

/// Returns `true` if a deficit drains no faster by the first pair (ticks per unit, ticks per µs)
/// than by the second.
///
/// Draining d units takes ⌈⌈d·p⌉/r⌉ µs, which is ⌈d·p/r⌉.
pub(super) fn is_slower(
    (unit, refill): (u64, u64),
    (other_unit, other_refill): (u64, u64),
) -> bool {
    u128::from(unit) * u128::from(other_refill) >= u128::from(other_unit) * u128::from(refill)
}

fn product(a: u64, b: u64) -> Result<u64, Overflow> {
    a.checked_mul(b).filter(|&ticks| ticks <= MAX_EXACT).ok_or(Overflow)
}
