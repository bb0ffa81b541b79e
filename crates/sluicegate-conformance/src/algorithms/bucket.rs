//! Token bucket, GCRA, leaky bucket, shaper and smooth: a deficit in units, an exact fraction, that
//! drains at the rate.

mod terms;

use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use sluicegate_core::for_stores::ReportedUnits;
use sluicegate_core::{Algorithm, MAX_EXACT};

use super::account::{Account, Patience, Report, Retry, Unused, Verdict};
use super::flow::whole;
use super::refusal::Refusal;
use super::slots::{Place, Slots, drained_micros, first_instant};
use terms::{Manner, Terms};

/// The deficit at the newest admission; `None` for a fresh key.
#[derive(Clone, Debug, Default)]
pub(super) struct Bucket(Option<Owed>);

#[derive(Clone, Debug)]
struct Owed {
    newest: u64,
    units: BigRational,
    /// Ticks per unit in which `units` is counted.
    ticks: u64,
    /// The leased units. Each slot ends after `newest`.
    slots: Slots,
    /// While units are held: the deficit if they don't drain. Its slots are those of the held
    /// units.
    second: Option<Box<Owed>>,
}

impl Bucket {
    /// Returns the deficit under these terms.
    ///
    /// It is exact if ticks that suit these and the former terms can be used. Otherwise it is
    /// rounded up to a tick of these.
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

    /// Returns the deficit at `at`, with the second one for held units that don't drain. Once
    /// nothing is owed, nothing counts as held.
    fn brought(&self, terms: &Terms, at: u64) -> Result<Option<Owed>, Refusal> {
        let second = match &self.0 {
            Some(owed) => owed.brought_second(terms, at)?,
            None => None,
        };
        let Some(mut owed) = self.brought_first(terms, at)? else { return Ok(None) };
        let drained = whole(at - owed.newest) * &terms.flow.per_us;
        if owed.units > drained {
            owed.second = second;
        }
        if owed.second.is_some() {
            owed.drain(terms, at);
            owed.units = terms.flow.in_ticks(&owed.units)?;
            owed.ticks = terms.flow.ticks;
        }
        Ok(Some(owed))
    }

    /// Returns the deficit at `at` without the second one. While units are leased it drains from
    /// slot to slot, never below the leased units, and is converted to the ticks of these terms.
    fn brought_first(&self, terms: &Terms, at: u64) -> Result<Option<Owed>, Refusal> {
        let Some(mut owed) = self.owed(terms)? else { return Ok(None) };
        owed.second = None;
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

    /// Sets the deficit at `at`, the newest time, to `more` of the present one. The second argument
    /// of `more` is the part that can't drain before.
    fn owe(
        &mut self,
        terms: &Terms,
        at: u64,
        more: impl Fn(BigRational, BigRational) -> BigRational,
    ) -> Result<(), Refusal> {
        let units = self.deficit(terms, at)?;
        let brought = self.brought(terms, at)?;
        let (ticks, slots, mut second) = brought
            .map_or((terms.flow.ticks, Slots::default(), None), |owed| {
                (owed.ticks, owed.slots, owed.second)
            });
        if let Some(second) = &mut second {
            let pinned = second.slots.with(&slots).outstanding();
            second.units = terms.flow.in_ticks(&more(second.units.clone(), whole(pinned)))?;
        }
        let units = more(units, BigRational::zero());
        self.keep(terms, Owed { newest: at, units, ticks, slots, second })
    }

    /// Stores the deficit in its own ticks. If it is whole in the terms' ticks, or grew too large,
    /// converts it to those.
    fn keep(&mut self, terms: &Terms, mut owed: Owed) -> Result<(), Refusal> {
        let is_whole = (&owed.units * whole(terms.flow.ticks)).is_integer();
        if is_whole || &owed.units * whole(owed.ticks) > whole(MAX_EXACT) {
            owed.units = terms.flow.in_ticks(&owed.units)?;
            owed.ticks = terms.flow.ticks;
        }
        self.0 = Some(owed);
        Ok(())
    }

    /// Gives `units` back, but never the leased ones.
    fn take_off(&mut self, terms: &Terms, at: u64, units: &BigRational) -> Result<(), Refusal> {
        let Some(mut owed) = self.brought(terms, at)? else { return Ok(()) };
        owed.units = (&owed.units - units).max(owed.least(terms));
        owed.lower_second(terms, units);
        self.keep(terms, owed)
    }

    /// Returns the part of earlier units that has not drained, or `None` if nothing can be given
    /// back. `then` is the algorithm at `taken_at`, if known.
    fn withheld(
        terms: &Terms,
        at: u64,
        units: u64,
        taken_at: u64,
        then: Option<&Algorithm>,
    ) -> Option<BigRational> {
        if terms.manner != Manner::Meter || taken_at > at {
            return None;
        }
        let mut flowed = whole(at - taken_at) * &terms.flow.per_us;
        if let Some(then) = then.map(|then| Terms::of(then).flow)
            && (then.per_us != terms.flow.per_us || then.ticks != terms.flow.ticks)
        {
            let then_flowed = whole(at - taken_at) * &then.per_us;
            // Nothing is given back if a state couldn't hold the amount.
            let is_held = &then_flowed * whole(then.ticks) <= whole(MAX_EXACT);
            flowed = flowed.max(terms.flow.in_ticks(&then_flowed).ok().filter(|_| is_held)?);
        }
        // No request can have taken an amount that a state can't hold.
        terms.flow.in_ticks(&whole(units)).ok()?;
        Some(whole(units) - flowed).filter(|withheld| *withheld > BigRational::zero())
    }

    /// Returns the bucket's verdict if nothing of it is leased.
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
    /// Returns the deficit if held units don't drain. Like leases, it drains from slot to slot.
    fn brought_second(&self, terms: &Terms, at: u64) -> Result<Option<Box<Self>>, Refusal> {
        let Some(second) = &self.second else { return Ok(None) };
        let all = Self { slots: self.slots.with(&second.slots), ..(**second).clone() };
        let Some(mut brought) = Bucket(Some(all)).brought_first(terms, at)? else {
            return Ok(None);
        };
        brought.slots = second.slots.clone();
        brought.slots.drop_over(at);
        // Units that are just being settled are in no slot any more, but still count.
        let is_over = brought.slots.is_empty() && !second.slots.is_empty();
        Ok((!is_over).then(|| Box::new(brought)))
    }

    /// Lowers the second deficit, but not below the outstanding units.
    fn lower_second(&mut self, terms: &Terms, units: &BigRational) {
        let Some(second) = &mut self.second else { return };
        let all = Self { slots: self.slots.with(&second.slots), ..(**second).clone() };
        second.units = (&second.units - units).max(all.least(terms));
    }

    /// Returns the minimum deficit while units are leased: the leased units, as far as a state can
    /// hold them.
    fn least(&self, terms: &Terms) -> BigRational {
        let most = whole(MAX_EXACT) / whole(terms.flow.ticks);
        whole(self.slots.outstanding()).min(most)
    }

    fn drain(&mut self, terms: &Terms, until: u64) {
        let micros = drained_micros(self.newest, until, self.slots.booked());
        let drained = whole(micros) * &terms.flow.per_us;
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
        if let Some(second) = &mut owed.second {
            second.newest = now;
            second.slots.restamp_held(now);
        }
        let is_plain = owed.slots.is_empty() && owed.second.is_none();
        self.keep(&terms, owed)?;
        if !is_plain {
            // With outstanding units it is counted in the ticks of these terms.
            self.0 = self.brought(&terms, now)?;
        }
        Ok(())
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
        // While units are leased, no answer contains a wait.
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
        self.owe(&terms, at, |deficit, pinned| match acts_in_us {
            0 => deficit + whole(units),
            // Units that can't drain may still be there at that time.
            _ => deficit.max(&idle + pinned) + whole(units),
        })
    }

    fn charge_denied(&mut self, algorithm: &Algorithm, at: u64, units: u64) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let charged = terms.limit().map_or(units, |limit| units.min(limit));
        self.owe(&terms, at, |before, _| {
            (&before + whole(charged)).min(terms.capacity.clone()).max(before)
        })
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
        if self.owed(&terms)?.is_none() {
            return Ok(());
        }
        match Self::withheld(&terms, at, units, taken_at, then) {
            Some(withheld) => self.take_off(&terms, at, &withheld),
            None => Ok(()),
        }
    }

    fn hold(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        place: Place,
    ) -> Result<Option<u64>, Refusal> {
        let terms = Terms::of(algorithm);
        let Some(mut owed) = self.brought(&terms, at)? else { return Ok(None) };
        if terms.manner != Manner::Meter || !place.is_after(at) {
            return Ok(None);
        }
        owed.units = terms.flow.in_ticks(&owed.units)?;
        owed.ticks = terms.flow.ticks;
        let first = Owed { slots: Slots::default(), second: None, ..owed.clone() };
        let second = owed.second.get_or_insert_with(|| Box::new(first));
        let slot = second.slots.hold(place, units);
        self.0 = Some(owed);
        Ok(slot)
    }

    fn release(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        slot: u64,
    ) -> Result<bool, Refusal> {
        let Some(mut owed) = self.brought(&Terms::of(algorithm), at)? else { return Ok(false) };
        let Some(second) = &mut owed.second else { return Ok(false) };
        if second.slots.end_of(slot, units).is_none() {
            return Ok(false);
        }
        second.slots.release(slot, units);
        self.0 = Some(owed);
        Ok(true)
    }

    fn renew(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        units: u64,
        slot: u64,
        place: Place,
    ) -> Result<Option<u64>, Refusal> {
        let now = self.brought(&Terms::of(algorithm), at)?.and_then(|owed| owed.second);
        let end = now.and_then(|second| second.slots.end_of(slot, units));
        let is_moved = end.is_some_and(|end| end != place.until) && place.is_after(at);
        let second = self.0.as_mut().and_then(|owed| owed.second.as_mut());
        let Some(second) = second.filter(|_| is_moved) else { return Ok(None) };
        let mut slots = second.slots.clone();
        slots.release(slot, units);
        let moved = slots.hold(place, units);
        if moved.is_some() {
            second.slots = slots;
        }
        Ok(moved)
    }

    fn is_held(&self, algorithm: &Algorithm, at: u64) -> Result<bool, Refusal> {
        let second = self.brought(&Terms::of(algorithm), at)?.and_then(|owed| owed.second);
        Ok(second.is_some_and(|second| !second.slots.is_empty()))
    }

    fn give_back_unused(
        &mut self,
        algorithm: &Algorithm,
        at: u64,
        unused: &Unused<'_>,
    ) -> Result<(), Refusal> {
        let terms = Terms::of(algorithm);
        let Unused { units, taken_at, then, is_last, is_released } = *unused;
        let Some(mut owed) = self.brought(&terms, at)? else { return Ok(()) };
        let withheld = Self::withheld(&terms, at, units, taken_at, Some(then));
        let first = if is_last { Some(whole(units)) } else { withheld.clone() };
        if !is_released && first.is_none() {
            return Ok(());
        }
        let nothing = BigRational::zero();
        owed.units = (&owed.units - first.unwrap_or(nothing.clone())).max(owed.least(&terms));
        let second = if is_released { Some(whole(units)) } else { withheld };
        owed.lower_second(&terms, &second.unwrap_or(nothing));
        if let Some(second) = &owed.second {
            owed.units = owed.units.min(second.units.clone());
        }
        owed.second = owed.second.filter(|second| !second.slots.is_empty());
        self.keep(&terms, owed)
    }

    fn without_held(&self) -> Box<dyn Account> {
        let without = |owed: &Owed| Owed { second: None, ..owed.clone() };
        Box::new(Self(self.0.as_ref().map(without)))
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
                self.0 =
                    Some(Owed { newest: at, units, ticks: terms.flow.ticks, second: None, ..owed });
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
        slots: Slots,
    ) -> Result<(), Refusal> {
        self.admit(algorithm, at, units, 0)?;
        if let Some(owed) = &mut self.0 {
            owed.slots = slots;
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
