//! Token bucket, GCRA, leaky bucket, shaper and smooth: a deficit in units that drains at the
//! rate, as an exact fraction.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use sluicegate_core::{Algorithm, MAX_EXACT, Rate, Start};

use super::account::{Account, Patience, Refusal, Report, Verdict, unknown};

/// The deficit as it stood at the newest admission; nothing for a fresh key.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket(Option<Owed>);

#[derive(Clone, Debug)]
struct Owed {
    newest: u64,
    units: BigRational,
    /// The ticks per unit it is counted in.
    ticks: u64,
}

/// The numbers of a bucket, in units and microseconds.
struct Terms {
    flow: Flow,
    capacity: BigRational,
    fresh: BigRational,
    manner: Manner,
}

#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Meter,
    Queue,
    Smooth,
}

/// A rate as exact numbers, and the fraction of a unit that states are counted in.
pub(super) struct Flow {
    pub(super) per_us: BigRational,
    ticks: u64,
}

impl Flow {
    pub(super) fn new(rate: Rate) -> Self {
        let (count, per) = (rate.count(), rate.period().as_micros());
        Self { per_us: BigRational::new(count.into(), per.into()), ticks: per / count.gcd(&per) }
    }

    /// Whole microseconds until `units` have flowed, rounded up; `None` if that takes for ever.
    pub(super) fn time_for(&self, units: &BigRational) -> Option<u64> {
        if *units <= BigRational::zero() {
            return Some(0);
        }
        if self.per_us.is_zero() {
            return None;
        }
        (units / &self.per_us).ceil().to_u64()
    }

    /// A deficit counted in the ticks of this rate, rounded up; the same if it already was.
    pub(super) fn in_ticks(&self, units: &BigRational) -> Result<BigRational, Refusal> {
        let ticks = (units * whole(self.ticks)).ceil();
        if ticks > whole(MAX_EXACT) {
            return Err(Refusal::TooLarge);
        }
        Ok(ticks / whole(self.ticks))
    }
}

pub(super) fn whole(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

impl Terms {
    fn of(algorithm: &Algorithm) -> Self {
        let (rate, manner) = match algorithm {
            Algorithm::TokenBucket { rate, .. }
            | Algorithm::Gcra { rate, .. }
            | Algorithm::LeakyBucket { rate, .. } => (*rate, Manner::Meter),
            Algorithm::Shaper { rate, .. } => (*rate, Manner::Queue),
            Algorithm::Smooth { rate, .. } => (*rate, Manner::Smooth),
            _ => unknown(algorithm),
        };
        let flow = Flow::new(rate);
        let capacity = match algorithm {
            Algorithm::TokenBucket { burst, .. } | Algorithm::Gcra { burst, .. } => whole(*burst),
            Algorithm::LeakyBucket { capacity, .. } => whole(*capacity),
            Algorithm::Shaper { rate, .. } if rate.count() == 0 => BigRational::zero(),
            Algorithm::Shaper { queue, .. } => whole(*queue) + whole(1),
            Algorithm::Smooth { burst, .. } => whole(burst.as_micros()) * &flow.per_us,
            _ => unknown(algorithm),
        };
        let fresh = match algorithm {
            Algorithm::Smooth { start: Start::Empty, .. } => capacity.clone(),
            _ => BigRational::zero(),
        };
        Self { flow, capacity, fresh, manner }
    }

    /// The largest cost a fresh key admits.
    fn limit(&self) -> Option<u64> {
        match self.manner {
            Manner::Meter | Manner::Queue => self.capacity.floor().to_u64(),
            Manner::Smooth => self.flow.per_us.is_zero().then_some(0),
        }
    }
}

impl Bucket {
    /// What is owed under these terms: exact in ticks that suit both these and the former ones, or
    /// rounded up to a tick of these where the former ones can't be kept.
    fn owed(&self, terms: &Terms) -> Result<Option<Owed>, Refusal> {
        let Some(mut owed) = self.0.clone() else { return Ok(None) };
        let both = whole(owed.ticks) * whole(terms.flow.ticks / terms.flow.ticks.gcd(&owed.ticks));
        let one = BigRational::one();
        let largest = (&terms.capacity + one).max(terms.flow.per_us.clone());
        let fits = |units: &BigRational| units * &both <= whole(MAX_EXACT);
        match both.to_u64() {
            Some(ticks) if fits(&largest) && fits(&owed.units) => owed.ticks = ticks,
            _ => {
                owed.units = terms.flow.in_ticks(&owed.units)?;
                owed.ticks = terms.flow.ticks;
            }
        }
        Ok(Some(owed))
    }

    fn deficit(&self, terms: &Terms, at: u64) -> Result<BigRational, Refusal> {
        let Some(owed) = self.owed(terms)? else { return Ok(terms.fresh.clone()) };
        let drained = whole(at - owed.newest) * &terms.flow.per_us;
        Ok((owed.units - drained).max(BigRational::zero()))
    }

    /// Keeps what is owed in the ticks it is kept in now, or in whole ones of the terms when it is
    /// whole in them, or grew too large.
    fn owe(&mut self, terms: &Terms, newest: u64, units: &BigRational) -> Result<(), Refusal> {
        let ticks = self.owed(terms)?.map_or(terms.flow.ticks, |owed| owed.ticks);
        let is_whole = (units * whole(terms.flow.ticks)).is_integer();
        self.0 = Some(if is_whole || units * whole(ticks) > whole(MAX_EXACT) {
            Owed { newest, units: terms.flow.in_ticks(units)?, ticks: terms.flow.ticks }
        } else {
            Owed { newest, units: units.clone(), ticks }
        });
        Ok(())
    }
}

impl Account for Bucket {
    fn boxed(&self) -> Box<dyn Account> {
        Box::new(self.clone())
    }

    fn newest(&self) -> Option<u64> {
        self.0.as_ref().map(|owed| owed.newest)
    }

    fn restamp(&mut self, algorithm: &Algorithm, now: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        match self.owed(&terms)? {
            Some(owed) => self.owe(&terms, now, &owed.units),
            None => Ok(()),
        }
    }

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        patience: Patience,
    ) -> Result<Verdict, Refusal> {
        let terms = Terms::of(algorithm);
        let deficit = self.deficit(&terms, at)?;
        if terms.limit().is_some_and(|limit| units > limit) {
            return Ok(Verdict::NEVER);
        }
        let room_in = terms.flow.time_for(&(&deficit + whole(units) - &terms.capacity));
        Ok(match (terms.manner, patience) {
            (Manner::Meter, _) => Verdict::after(room_in, patience.within_us()),
            (Manner::Smooth, _) => Verdict::after(
                terms.flow.time_for(&(deficit - &terms.capacity)),
                patience.within_us(),
            ),
            (Manner::Queue, Patience::Plain) => match room_in {
                Some(0) => Verdict::after(terms.flow.time_for(&deficit), u64::MAX),
                room_in => Verdict::after(room_in, 0),
            },
            (Manner::Queue, Patience::Within(within_us)) => {
                let turn = Verdict::after(terms.flow.time_for(&deficit), within_us);
                let room = Verdict::after(room_in, 0);
                if room.retry > turn.retry { room } else { turn }
            }
        })
    }

    fn admit(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        acts_in_us: u64,
    ) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let idle = whole(acts_in_us) * &terms.flow.per_us;
        let deficit = self.deficit(&terms, at)?.max(idle) + whole(units);
        self.owe(&terms, at, &deficit)
    }

    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let before = self.deficit(&terms, at)?;
        let charged = terms.limit().map_or(units, |limit| units.min(limit));
        let after = (&before + whole(charged)).min(terms.capacity.clone()).max(before);
        self.owe(&terms, at, &after)
    }

    fn refund(&mut self, algorithm: &Algorithm, _: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let Some(owed) = self.owed(&terms)? else { return Ok(()) };
        let left = owed.units - whole(units);
        self.owe(&terms, owed.newest, &left.max(BigRational::zero()))
    }

    fn give_back(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        taken_at: u64,
    ) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let Some(owed) = self.owed(&terms)? else { return Ok(()) };
        // Nobody can have taken what no state can hold.
        let is_possible = terms.flow.in_ticks(&whole(units)).is_ok() && taken_at <= at;
        if terms.manner != Manner::Meter || !is_possible {
            return Ok(());
        }
        let withheld = whole(units) - whole(at - taken_at) * &terms.flow.per_us;
        if withheld <= BigRational::zero() {
            return Ok(());
        }
        let left = owed.units - withheld;
        self.owe(&terms, owed.newest, &left.max(BigRational::zero()))
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal> {
        let terms = Terms::of(algorithm);
        let deficit = self.deficit(&terms, at)?;
        let limit = terms.limit();
        let remaining = match (terms.manner, limit) {
            (Manner::Smooth, None) => (deficit > terms.capacity).then_some(0),
            _ => (&terms.capacity - &deficit).max(BigRational::zero()).floor().to_u64(),
        };
        let reset = terms.flow.time_for(&deficit);
        Ok(Report { limit, remaining, reset, ..Report::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Retry;

    #[test]
    fn a_third_of_a_unit_is_exact() {
        let flow = Flow::new(Rate::new(3, sluicegate_core::Span::SECOND).unwrap());
        assert_eq!(flow.time_for(&whole(1)), Some(333_334));
        assert_eq!(flow.time_for(&whole(3)), Some(1_000_000));
        assert_eq!(Verdict::after(Some(5), 4).retry, Retry::After(1));
    }
}
