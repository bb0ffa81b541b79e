//! Token bucket, GCRA, leaky bucket, shaper and smooth: a deficit in units that drains at the
//! rate, as an exact fraction.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use sluicegate_core::{Algorithm, MAX_EXACT, Rate, ReportedUnits, Start};

use super::account::{Account, Patience, Refusal, Report, Retry, Verdict, unknown};
use super::slots::{Slots, first_instant};

/// The deficit as it stood at the newest admission; nothing for a fresh key.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket(Option<Owed>);

#[derive(Clone, Debug)]
struct Owed {
    newest: u64,
    units: BigRational,
    /// The ticks per unit it is counted in.
    ticks: u64,
    /// The units that are leased, each slot ending after `newest`.
    slots: Slots,
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

    /// The same at `at`: while units are leased it drains from slot to slot, never below them, and is
    /// counted anew.
    fn brought(&self, terms: &Terms, at: u64) -> Result<Option<Owed>, Refusal> {
        let Some(mut owed) = self.owed(terms)? else { return Ok(None) };
        if owed.slots.is_empty() {
            return Ok(Some(owed));
        }
        while let Some(end) = owed.slots.first_end().filter(|end| *end <= at) {
            owed.drain(terms, end);
            owed.slots.drop_over(end);
        }
        if !owed.slots.is_empty() {
            owed.drain(terms, at);
        }
        owed.units = terms.flow.in_ticks(&owed.units)?;
        owed.ticks = terms.flow.ticks;
        Ok(Some(owed))
    }

    fn is_leased(&self, at: u64) -> bool {
        self.0.as_ref().is_some_and(|owed| owed.slots.iter().any(|slot| slot.until > at))
    }

    fn deficit(&self, terms: &Terms, at: u64) -> Result<BigRational, Refusal> {
        let Some(owed) = self.brought(terms, at)? else { return Ok(terms.fresh.clone()) };
        let drained = whole(at - owed.newest) * &terms.flow.per_us;
        Ok((owed.units - drained).max(BigRational::zero()))
    }

    /// Makes the deficit what it is to be at `at`, the newest time.
    fn owe(&mut self, terms: &Terms, at: u64, units: BigRational) -> Result<(), Refusal> {
        let (ticks, slots) = self
            .brought(terms, at)?
            .map_or((terms.flow.ticks, Slots::default()), |owed| (owed.ticks, owed.slots));
        self.keep(terms, Owed { newest: at, units, ticks, slots })
    }

    /// Keeps what is owed in the ticks it is counted in, or in whole ones of the terms when it is
    /// whole in them, or grew too large.
    fn keep(&mut self, terms: &Terms, mut owed: Owed) -> Result<(), Refusal> {
        let is_whole = (&owed.units * whole(terms.flow.ticks)).is_integer();
        if is_whole || &owed.units * whole(owed.ticks) > whole(MAX_EXACT) {
            owed.units = terms.flow.in_ticks(&owed.units)?;
            owed.ticks = terms.flow.ticks;
        }
        self.0 = Some(owed);
        Ok(())
    }

    /// Gives `units` back, but none that are leased.
    fn take_off(&mut self, terms: &Terms, at: u64, units: &BigRational) -> Result<(), Refusal> {
        let Some(mut owed) = self.brought(terms, at)? else { return Ok(()) };
        owed.units = (&owed.units - units).max(owed.least(terms));
        self.keep(terms, owed)
    }

    /// What the bucket says if nothing of it is leased.
    fn plain_verdict(
        &self,
        terms: &Terms,
        at: u64,
        units: u64,
        patience: Patience,
    ) -> Result<Verdict, Refusal> {
        let deficit = self.deficit(terms, at)?;
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
}

impl Owed {
    /// The least that can be owed while units are leased: those, if a state can hold them.
    fn least(&self, terms: &Terms) -> BigRational {
        let most = whole(MAX_EXACT) / whole(terms.flow.ticks);
        whole(self.slots.outstanding()).min(most)
    }

    fn drain(&mut self, terms: &Terms, until: u64) {
        let drained = whole(until - self.newest) * &terms.flow.per_us;
        self.units = (&self.units - drained).max(self.least(terms));
        self.newest = until;
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
        let Some(mut owed) = self.owed(&terms)? else { return Ok(()) };
        owed.newest = now;
        owed.slots.restamp(now);
        self.keep(&terms, owed)
    }

    fn judge(
        &self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        patience: Patience,
    ) -> Result<Verdict, Refusal> {
        let terms = Terms::of(algorithm);
        let verdict = self.plain_verdict(&terms, at, units, patience)?;
        if !self.is_leased(at) {
            return Ok(verdict);
        }
        // Nobody is told an instant while units are leased.
        let passes = |then| {
            let verdict = self.plain_verdict(&terms, then, units, patience)?;
            Ok(verdict.admitted() && (verdict.wait_us == 0 || !self.is_leased(then)))
        };
        Ok(match first_instant(at, passes)? {
            Some(then) if then == at => verdict,
            Some(then) => Verdict::refused(Retry::After(then - at)),
            None => Verdict::NEVER,
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
        self.owe(&terms, at, deficit)
    }

    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let before = self.deficit(&terms, at)?;
        let charged = terms.limit().map_or(units, |limit| units.min(limit));
        let after = (&before + whole(charged)).min(terms.capacity.clone()).max(before);
        self.owe(&terms, at, after)
    }

    fn refund(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        self.take_off(&Terms::of(algorithm), at, &whole(units))
    }

    fn give_back(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        taken_at: u64,
        then: Option<&Algorithm>,
    ) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        if self.owed(&terms)?.is_none() || terms.manner != Manner::Meter || taken_at > at {
            return Ok(());
        }
        let mut flowed = whole(at - taken_at) * &terms.flow.per_us;
        if let Some(then) = then.map(|then| Terms::of(then).flow)
            && (then.per_us != terms.flow.per_us || then.ticks != terms.flow.ticks)
        {
            let then_flowed = whole(at - taken_at) * &then.per_us;
            // What no state can hold is not reckoned with.
            let is_held = &then_flowed * whole(then.ticks) <= whole(MAX_EXACT);
            let Some(then_flowed) = terms.flow.in_ticks(&then_flowed).ok().filter(|_| is_held)
            else {
                return Ok(());
            };
            flowed = flowed.max(then_flowed);
        }
        let withheld = whole(units) - flowed;
        // Nobody can have taken what no state can hold.
        if terms.flow.in_ticks(&whole(units)).is_err() || withheld <= BigRational::zero() {
            return Ok(());
        }
        self.take_off(&terms, at, &withheld)
    }

    fn report(&self, algorithm: &Algorithm, at: u64) -> Result<Report, Refusal> {
        let terms = Terms::of(algorithm);
        let deficit = self.deficit(&terms, at)?;
        let limit = terms.limit();
        let remaining = match (terms.manner, limit) {
            (Manner::Smooth, None) => (deficit > terms.capacity).then_some(0),
            _ => (&terms.capacity - &deficit).max(BigRational::zero()).floor().to_u64(),
        };
        let reset = if self.is_leased(at) {
            let is_fresh =
                |then| Ok(!self.is_leased(then) && self.deficit(&terms, then)?.is_zero());
            first_instant(at, is_fresh)?.map(|then| (then - at).min(MAX_EXACT))
        } else {
            terms.flow.time_for(&deficit)
        };
        Ok(Report { limit, remaining, reset, ..Report::default() })
    }

    fn reset(&mut self, algorithm: &Algorithm, at: u64) {
        let terms = Terms::of(algorithm);
        if let Some(mut owed) = self.0.take() {
            owed.slots.drop_over(at);
            if !owed.slots.is_empty() {
                let units = owed.least(&terms);
                self.0 = Some(Owed { newest: at, units, ticks: terms.flow.ticks, ..owed });
            }
        }
    }

    fn slots(&self) -> Slots {
        self.0.as_ref().map(|owed| owed.slots.clone()).unwrap_or_default()
    }

    fn lease(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        until: u64,
        tag: u64,
    ) -> Result<(), Refusal> {
        self.admit(algorithm, at, units, 0)?;
        if let Some(owed) = &mut self.0 {
            owed.slots.add(until, tag, units);
        }
        Ok(())
    }

    fn hear(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        tag: u64,
        units: ReportedUnits,
    ) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let Some(mut owed) = self.brought(&terms, at)? else { return Ok(()) };
        if let Some(returned) = owed.slots.take(tag, units.spent, units.returned) {
            self.0 = Some(owed);
            self.take_off(&terms, at, &whole(returned))?;
        }
        Ok(())
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
