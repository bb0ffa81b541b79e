//! Smooth warm-up: after idling, grants start at a third of the rate and reach the whole rate over
//! the warm-up period. The shape is that of Guava's `SmoothWarmingUp` with a cold factor of 3. It
//! is computed in whole ticks; only a grant's wait is rounded, up to a microsecond.

use std::fmt;

use super::bucket::is_slower;
use super::{
    Charge, FixedKind, Kernel, Layout, Leases, NEVER, Now, Overflow, Profile, Quota, Report,
    SpecFormat, Verdict,
};
use crate::algorithm::Algorithm;
use crate::error::PolicyError;
use crate::number::{MAX_EXACT, mul_div_ceil};
use crate::rate::Rate;
use crate::spec::{Amount, Grammar, OptionWord};
use crate::time::Span;

/// The rule of a warm-up, in ticks. Idle time fills its store; a full store is cold.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WarmUp {
    /// Ticks that one unit costs.
    unit: u64,
    /// Ticks that each idle microsecond puts into the store.
    refill: u64,
    /// The maximum number of ticks in the store, which is then completely cold.
    store: u64,
}

/// The state of a key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct State {
    /// The newest admitted time, in microseconds since the epoch.
    pub newest: u64,
    /// The µs from the newest time until the next request may pass.
    pub debt: u64,
    /// Ticks missing from the store at that moment.
    pub deficit: u64,
    /// Ticks per unit, so that a changed policy can convert the deficit.
    pub unit: u64,
}

/// A state at the evaluation time.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    pub(super) at: u64,
    debt: u64,
    deficit: u64,
    kept: State,
    /// Whether there was a state.
    known: bool,
}

impl WarmUp {
    pub(super) fn new(rate: Rate, over: Span) -> Result<Self, PolicyError> {
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

    /// Returns the ticks that one unit costs.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        self.unit
    }

    /// Returns the ticks that each idle microsecond puts into the store.
    #[must_use]
    pub const fn refill(&self) -> u64 {
        self.refill
    }

    /// Returns the maximum number of ticks in the store.
    #[must_use]
    pub const fn store(&self) -> u64 {
        self.store
    }

    /// Returns the remaining debt and deficit at `at`: idle time pays the debt first, then fills
    /// the store.
    fn rest(&self, kept: &State, at: u64) -> (u64, u64) {
        let elapsed = at - kept.newest;
        let idle = elapsed.saturating_sub(kept.debt);
        let filled = idle.saturating_mul(self.refill);
        (kept.debt.saturating_sub(elapsed), kept.deficit.saturating_sub(filled))
    }

    /// Returns the ticks that flow back until the key is fresh.
    fn owed_ticks(&self, balance: &Balance) -> u128 {
        u128::from(balance.debt) * u128::from(self.refill) + u128::from(balance.deficit)
    }

    const fn stored(&self, balance: &Balance) -> u64 {
        self.store.saturating_sub(balance.deficit)
    }

    /// Returns the ticks that a cost takes from the store, and the wait for the next request.
    fn grant(&self, balance: &Balance, cost: u64) -> Result<(u64, u64), Overflow> {
        let ticks =
            cost.checked_mul(self.unit).filter(|&ticks| ticks <= MAX_EXACT).ok_or(Overflow)?;
        let stored = self.stored(balance);
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

impl Kernel for WarmUp {
    const FIXED: FixedKind = FixedKind { kind: 0x02, numbers: 4 };

    const OUTLASTS: &'static [fn(&Self, &Self) -> bool] =
        &[|a, b| is_slower((a.unit, a.refill), (b.unit, b.refill)), |a, b| a.unit >= b.unit];

    const LEASES: Option<Leases<Self>> = None;

    type State = State;
    type Balance = Balance;

    fn profile(&self) -> Profile {
        let filled = self.store.saturating_mul(4).checked_div(self.refill);
        Profile {
            limit: if self.refill == 0 { 0 } else { NEVER },
            retention: filled.unwrap_or(MAX_EXACT),
            layout: Layout::Fixed(Self::FIXED),
            flow: None,
            can_reserve: true,
            is_shaper: false,
            can_lease: false,
        }
    }

    fn balance(&self, state: Option<State>, now: Now) -> Result<(Balance, bool), Overflow> {
        let at = now.micros;
        let Some(mut kept) = state else {
            let kept = State { newest: at, debt: 0, deficit: 0, unit: self.unit };
            return Ok((Balance { at, debt: 0, deficit: 0, kept, known: false }, false));
        };
        let restamped = now.is_exceeded_by(kept.newest);
        if restamped {
            kept.newest = at;
        }
        if kept.unit != self.unit {
            kept.deficit = mul_div_ceil(kept.deficit, self.unit, kept.unit).ok_or(Overflow)?;
            kept.unit = self.unit;
        }
        let at = at.max(kept.newest);
        let (debt, deficit) = self.rest(&kept, at);
        Ok((Balance { at, debt, deficit, kept, known: true }, restamped))
    }

    fn judge(&self, balance: &Balance, _cost: u64, within: Option<u64>) -> Verdict {
        if self.refill == 0 {
            return Verdict::Refuse { retry: None };
        }
        Verdict::within(balance.debt, within.unwrap_or(0))
    }

    /// Charges a denied request only the stored ticks, no debt.
    fn charge(&self, balance: &mut Balance, charge: Charge) -> Result<(), Overflow> {
        let (debt, taken) = match charge {
            Charge::Admitted { cost, act_in } => {
                let (taken, wait) = self.grant(balance, cost)?;
                (balance.debt.max(act_in) + wait, taken)
            }
            Charge::Denied { cost } | Charge::Counted { cost } => {
                (balance.debt, cost.saturating_mul(self.unit).min(self.stored(balance)))
            }
        };
        if debt > MAX_EXACT {
            return Err(Overflow);
        }
        balance.set(debt, balance.deficit + taken, self.unit);
        Ok(())
    }

    /// Gives units back: first from the debt, at the whole rate, then to the store.
    fn refund(&self, balance: &mut Balance, units: u64) -> Option<u64> {
        if !balance.known {
            return None;
        }
        let before = self.owed_ticks(balance);
        let ticks = u128::from(units) * u128::from(self.unit);
        // At rate 0 no amount of ticks is worth a microsecond.
        let micros = ticks
            .checked_div(u128::from(self.refill))
            .unwrap_or(0)
            .min(u128::from(balance.kept.debt));
        let left = ticks - micros * u128::from(self.refill);
        balance.kept.debt -= u64::try_from(micros).unwrap_or(balance.kept.debt);
        let left = u64::try_from(left).unwrap_or(u64::MAX);
        balance.kept.deficit = balance.kept.deficit.saturating_sub(left);
        (balance.debt, balance.deficit) = self.rest(&balance.kept, balance.at);
        let given = before.saturating_sub(self.owed_ticks(balance)).div_ceil(u128::from(self.unit));
        Some(u64::try_from(given).map_or(units, |given| given.min(units)))
    }

    fn report(&self, balance: &Balance) -> Report {
        Report {
            evaluated_at: balance.at,
            // Unbounded once the debt is paid.
            remaining: if balance.debt == 0 && self.refill > 0 { NEVER } else { 0 },
            // The time until the store is full, too.
            reset: match (balance.debt, balance.deficit, self.refill) {
                (debt, 0, _) => debt,
                (_, _, 0) => NEVER,
                (debt, deficit, refill) => debt + deficit.div_ceil(refill),
            },
            ..Report::default()
        }
    }

    fn used(&self, state: &State, now: Now) -> u64 {
        self.balance(Some(*state), now).map_or(NEVER, |(balance, _)| {
            let units = self.owed_ticks(&balance).div_ceil(u128::from(self.unit));
            u64::try_from(units).unwrap_or(NEVER)
        })
    }

    fn state(&self, balance: Balance) -> Option<State> {
        balance.known.then_some(balance.kept)
    }

    fn newest(state: &State) -> u64 {
        state.newest
    }

    fn write(state: &State, numbers: &mut Vec<u64>) {
        numbers.extend([state.newest, state.debt, state.deficit, state.unit]);
    }

    fn read(numbers: &[u64]) -> Option<State> {
        match *numbers {
            [newest, debt, deficit, unit] if unit > 0 => {
                Some(State { newest, debt, deficit, unit })
            }
            _ => None,
        }
    }
}

impl SpecFormat for WarmUp {
    const GRAMMARS: &'static [Grammar] = &[Grammar {
        word: "warmup",
        amount: Amount::Rate,
        options: &[OptionWord::value("over", "SPAN", "10s")],
        example: "warmup 5/s over 10s",
        read: |spec| {
            let rate = spec.rate()?;
            let over = spec.time("over")?.ok_or_else(|| spec.missing("over SPAN"))?;
            Ok(Algorithm::WarmUp { rate, over })
        },
    }];

    fn write_spec(algorithm: &Algorithm, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match algorithm {
            Algorithm::WarmUp { rate, over } => write!(f, "{rate} over {}", Span::from(*over)),
            _ => Ok(()),
        }
    }

    fn quota(&self, algorithm: &Algorithm) -> Quota {
        match algorithm {
            Algorithm::WarmUp { rate, .. } => {
                Quota { units: rate.count(), window: Some(rate.period()) }
            }
            _ => Quota { units: self.profile().limit, window: None },
        }
    }
}

impl Balance {
    const fn set(&mut self, debt: u64, deficit: u64, unit: u64) {
        self.debt = debt;
        self.deficit = deficit;
        self.kept = State { newest: self.at, debt, deficit, unit };
        self.known = true;
    }
}
