//! The general path: any operation against any number of policies, all or nothing.
//!
//! The shards of all policies are locked in one order, the states are brought to the time of
//! judgement, the core judges and charges, and what changed is written back before any lock is
//! let go.

use smallvec::SmallVec;

use tollgate_core::kernel::{Rule, Times, counter, log, warm_up, window};
use tollgate_core::packed::State;
use tollgate_core::{
    Costs, Decision, Enforcement, Evaluation, Operation, Request, SliceCounts, Span, Standing,
    StoreError, check_request, check_subjects, evaluate,
};

use crate::cell::{BucketCell, Cell, LogCell, SmallCell};
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::handle::{Handle, Seat, SeatOf};
use crate::lock::Guard;
use crate::receipt::{Change, Receipt};
use crate::registry::{Full, Registry};
use crate::shard::Shard;

/// Something for each policy, without an allocation for up to 16.
type PerPolicy<T> = SmallVec<[T; 16]>;

/// Answers a request, whose first subject has the fingerprint.
pub(crate) fn decide(
    fingerprinter: &Fingerprinter,
    handle: &Handle,
    request: &Request<'_>,
    first: Fingerprint,
    times: Times,
) -> Result<Decision, StoreError> {
    let mut call = Call::new(fingerprinter, handle, request, first, times)?;
    match request.operation {
        Operation::Reset => call.reset(request.costs),
        operation => call.judge(operation, request.costs),
    }
}

/// Answers a request and says what it changed, if it was admitted.
pub(crate) fn reserve(
    fingerprinter: &Fingerprinter,
    handle: &Handle,
    request: &Request<'_>,
    first: Fingerprint,
    times: Times,
) -> Result<(Decision, Option<Receipt>), StoreError> {
    let mut call = Call::new(fingerprinter, handle, request, first, times)?;
    let before: PerPolicy<Option<State>> = call.places.iter().map(Place::kept).collect();
    let decision = call.judge(request.operation, request.costs)?;
    if decision.is_denied() {
        return Ok((decision, None));
    }
    let mut changes: SmallVec<[Change; 1]> = SmallVec::new();
    let mut changed_parts = 0_u64;
    for (index, (place, before)) in call.places.iter().zip(before).enumerate() {
        let (after, part) = (place.kept(), handle.limit().members()[index].part());
        changed_parts |= u64::from(after != before) << part;
        changes.push(Change { index, part, fingerprint: place.fingerprint(), before, after });
    }
    // Whoever asked for the same subject under any policy comes after.
    changes.retain(|change| changed_parts & (1 << change.part) != 0);
    Ok((decision, Some(Receipt { changes })))
}

/// Puts back what a reservation found, if all is as it left it.
pub(crate) fn cancel(handle: &Handle, receipt: &Receipt) -> bool {
    let mut places: SmallVec<[(Place<'_>, &Change); 2]> = SmallVec::new();
    for &index in handle.lock_order() {
        let Some(change) = receipt.changes.iter().find(|change| change.index == index) else {
            continue;
        };
        let place = Place::lock(&handle.seats()[index], change.fingerprint);
        if place.kept() != change.after {
            return false;
        }
        places.push((place, change));
    }
    for (place, change) in &mut places {
        if change.before != change.after {
            place.put_back(change.before.as_ref());
        }
    }
    !receipt.changes.is_empty()
}

/// Reads the slices of a ring.
pub(crate) fn slices(
    handle: &Handle,
    fingerprint: Fingerprint,
    times: Times,
) -> Result<SliceCounts, StoreError> {
    let rule = SliceCounts::ring(handle.limit())?;
    let mut state = match handle.seats() {
        [Seat::Log(seat)] => PlaceOf::lock(seat, fingerprint).log().cloned(),
        _ => None,
    }
    .unwrap_or_default();
    if rule.needs_restamp(&state, times) {
        rule.restamp(&mut state, times.now);
    }
    let at = rule.at(&state, times);
    Ok(SliceCounts::of(rule, &state, at))
}

/// A request with the locks it holds.
struct Call<'h> {
    handle: &'h Handle,
    times: Times,
    places: PerPolicy<Place<'h>>,
}

/// Which logs are copied rather than changed where they are.
#[derive(Clone, Copy)]
enum Copies {
    All,
    /// Those that are brought to another time before anything is judged: a peek must not keep
    /// that, nor a request that fails.
    Restamped,
}

/// Where a policy's state is, or would be, in its locked shard.
enum Place<'h> {
    Bucket(PlaceOf<'h, BucketCell>),
    Counter(PlaceOf<'h, counter::State>),
    /// A log is changed where it is, unless it may turn out that it must not be: then a copy is.
    Log(PlaceOf<'h, LogCell>, Option<log::State>),
    WarmUp(PlaceOf<'h, warm_up::State>),
    Window(PlaceOf<'h, window::State>),
}

struct PlaceOf<'h, C: Cell> {
    seat: &'h SeatOf<C>,
    fingerprint: Fingerprint,
    shard: Guard<'h, Shard<C>>,
    found: Option<usize>,
}

impl<'h> Call<'h> {
    fn new(
        fingerprinter: &Fingerprinter,
        handle: &'h Handle,
        request: &Request<'_>,
        first: Fingerprint,
        times: Times,
    ) -> Result<Self, StoreError> {
        check_subjects(handle.limit(), request)?;
        check_request(handle.limit(), request.operation, request.costs)?;
        let also: SmallVec<[Fingerprint; 4]> =
            request.also.iter().map(|subject| fingerprinter.of(subject)).collect();
        let members = handle.limit().members();
        let mut places: PerPolicy<Option<Place<'h>>> =
            handle.seats().iter().map(|_| None).collect();
        for &index in handle.lock_order() {
            let fingerprint = match members[index].part().checked_sub(1) {
                None => first,
                Some(part) => also[part],
            };
            places[index] = Some(Place::lock(&handle.seats()[index], fingerprint));
        }
        Ok(Self { handle, times, places: places.into_iter().flatten().collect() })
    }

    /// Anything that is judged.
    fn judge(&mut self, operation: Operation, costs: Costs<'_>) -> Result<Decision, StoreError> {
        let peeks = matches!(operation, Operation::Peek);
        // A refund gives nothing to a key that isn't there.
        let absent = match operation {
            Operation::Refund => 0,
            _ => self.places.iter().filter(|place| !place.is_found()).count(),
        };
        let budget = &self.handle.registry().budget;
        // Room for what is new is taken first and given back when not needed: at the cap nobody is
        // evicted for a request that is denied after all.
        let roomy = peeks || absent == 0 || budget.try_take(absent);
        let reserved = if peeks || !roomy { 0 } else { absent };
        let result = self.judge_with(operation, costs, peeks, roomy);
        let inserted = result.as_ref().map_or(0, |(_, inserted)| *inserted);
        budget.release(reserved.saturating_sub(inserted));
        result.map(|(decision, _)| decision)
    }

    /// Also gives how much of the room taken beforehand was used.
    fn judge_with(
        &mut self,
        operation: Operation,
        costs: Costs<'_>,
        peeks: bool,
        roomy: bool,
    ) -> Result<(Decision, usize), StoreError> {
        // Without room it may turn out that nothing is to be charged after all.
        let copies = if roomy { Copies::Restamped } else { Copies::All };
        let (mut evaluation, restamped, states) = self.evaluate(operation, costs, copies)?;
        let mut notes = evaluation.decision.notes();
        notes.restamped = restamped != 0;
        evaluation.decision.set_notes(notes);
        if peeks {
            return Ok((evaluation.decision, 0));
        }
        let mut changed = evaluation.changed | restamped;
        if !roomy && let Err(full) = self.make_room(&mut evaluation, &mut changed) {
            // The policies' own words are those of a peek: nothing is charged.
            let (mut peeked, ..) = self.evaluate(Operation::Peek, costs, Copies::Restamped)?;
            let notes = evaluation.decision.notes();
            peeked.decision.set_notes(notes);
            peeked.decision.turn_away_for_room(Span::from_micros(full.retry).unwrap_or(Span::MAX));
            return Ok((peeked.decision, 0));
        }
        let mut inserted = 0;
        for (index, (place, state)) in self.places.iter_mut().zip(states).enumerate() {
            if changed & (1 << index) != 0 {
                inserted += usize::from(place.keep(state.as_ref(), self.times.now));
            }
        }
        Ok((evaluation.decision, if roomy { inserted } else { 0 }))
    }

    /// The core's answer, the policies that were restamped as bits, and the states to keep of
    /// those that are no logs.
    fn evaluate(
        &mut self,
        operation: Operation,
        costs: Costs<'_>,
        copies: Copies,
    ) -> Result<(Evaluation, u64, PerPolicy<Option<State>>), StoreError> {
        let (limit, times) = (self.handle.limit(), self.times);
        for place in &mut self.places {
            place.copy_log(copies, times);
        }
        let mut restamped = 0_u64;
        let mut standings: PerPolicy<Standing<'_>> = SmallVec::new();
        for (index, (place, member)) in self.places.iter_mut().zip(limit.members()).enumerate() {
            let (standing, is_restamped) = place.stand(member.policy().rule(), times)?;
            restamped |= u64::from(is_restamped) << index;
            standings.push(standing);
        }
        let evaluation = evaluate(limit, &mut standings, operation, costs)?;
        let keep = evaluation.changed | restamped;
        let states = limit.members().iter().zip(&standings).enumerate().map(
            |(index, (member, standing))| {
                if keep & (1 << index) == 0 { None } else { standing.state(member.policy().rule()) }
            },
        );
        let states = states.collect();
        Ok((evaluation, restamped, states))
    }

    /// Makes room for each state that is new, one by one; a shadow that finds none is not kept.
    fn make_room(&mut self, evaluation: &mut Evaluation, changed: &mut u64) -> Result<(), Full> {
        let registry = self.handle.registry();
        let mut made = 0;
        let mut notes = evaluation.decision.notes();
        for (index, (place, member)) in
            self.places.iter_mut().zip(self.handle.limit().members()).enumerate()
        {
            if place.is_found() || *changed & (1 << index) == 0 {
                continue;
            }
            match place.make_room(registry, self.times.now) {
                Ok(()) => made += 1,
                Err(full) => {
                    let matters = member.policy().enforcement() == Enforcement::Enforced;
                    if matters && evaluation.decision.is_allowed() {
                        registry.budget.release(made);
                        return Err(full);
                    }
                    *changed &= !(1 << index);
                    notes.full = true;
                }
            }
        }
        evaluation.decision.set_notes(notes);
        Ok(())
    }

    fn reset(&mut self, costs: Costs<'_>) -> Result<Decision, StoreError> {
        for place in &mut self.places {
            place.forget();
        }
        self.evaluate(Operation::Reset, costs, Copies::Restamped)
            .map(|(evaluation, ..)| evaluation.decision)
    }
}

impl<'h> Place<'h> {
    fn lock(seat: &'h Seat, fingerprint: Fingerprint) -> Self {
        match seat {
            Seat::Bucket(seat) => Self::Bucket(PlaceOf::lock(seat, fingerprint)),
            Seat::Counter(seat) => Self::Counter(PlaceOf::lock(seat, fingerprint)),
            Seat::Log(seat) => Self::Log(PlaceOf::lock(seat, fingerprint), None),
            Seat::WarmUp(seat) => Self::WarmUp(PlaceOf::lock(seat, fingerprint)),
            Seat::Window(seat) => Self::Window(PlaceOf::lock(seat, fingerprint)),
        }
    }

    fn is_found(&self) -> bool {
        match self {
            Self::Bucket(place) => place.found.is_some(),
            Self::Counter(place) => place.found.is_some(),
            Self::Log(place, _) => place.found.is_some(),
            Self::WarmUp(place) => place.found.is_some(),
            Self::Window(place) => place.found.is_some(),
        }
    }

    /// The state that is kept of a policy that can be reserved.
    fn kept(&self) -> Option<State> {
        match self {
            Self::Bucket(place) => place.kept(),
            Self::WarmUp(place) => place.kept(),
            Self::Counter(_) | Self::Log(..) | Self::Window(_) => None,
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        match self {
            Self::Bucket(place) => place.fingerprint,
            Self::Counter(place) => place.fingerprint,
            Self::Log(place, _) => place.fingerprint,
            Self::WarmUp(place) => place.fingerprint,
            Self::Window(place) => place.fingerprint,
        }
    }

    /// Puts a state back that was kept before, perhaps under other numbers of the policy; `None`
    /// is none.
    fn put_back(&mut self, state: Option<&State>) {
        match (self, state) {
            (place, None) => place.forget(),
            (Self::Bucket(place), Some(State::Bucket(bucket))) => {
                let tag = place.seat.table.scales().tag_of(bucket.unit);
                let cell = tag.and_then(|tag| BucketCell::store(&State::Bucket(*bucket), tag));
                if let Some(cell) = cell {
                    place.keep(cell, 0);
                }
            }
            (place, state) => _ = place.keep(state, 0),
        }
    }

    /// Of a log: makes the copy that is judged and changed instead of the state.
    fn copy_log(&mut self, copies: Copies, times: Times) {
        let Self::Log(place, copy) = self else {
            return;
        };
        *copy = match (place.log(), copies) {
            (None, _) => Some(log::State::default()),
            (Some(state), Copies::All) => Some(state.clone()),
            (Some(state), Copies::Restamped) if place.seat.rule.needs_restamp(state, times) => {
                Some(state.clone())
            }
            (Some(_), Copies::Restamped) => None,
        };
    }

    fn stand(&mut self, rule: &Rule, times: Times) -> Result<(Standing<'_>, bool), StoreError> {
        let state = match self {
            Self::Bucket(place) => place.state(),
            Self::Counter(place) => place.state(),
            Self::WarmUp(place) => place.state(),
            Self::Window(place) => place.state(),
            Self::Log(place, copy) => return Ok(place.stand(copy, times)),
        };
        match Standing::of(rule, state.as_ref(), times)? {
            Some(standing) => Ok(standing),
            None => mismatch(),
        }
    }

    /// Writes a state back; gives whether it is new.
    fn keep(&mut self, state: Option<&State>, now: u64) -> bool {
        match self {
            Self::Bucket(place) => place.keep_small(state, now),
            Self::Counter(place) => place.keep_small(state, now),
            Self::WarmUp(place) => place.keep_small(state, now),
            Self::Window(place) => place.keep_small(state, now),
            Self::Log(place, copy) => {
                copy.take().is_some_and(|state| place.keep(LogCell::new(state), now))
            }
        }
    }

    fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        match self {
            Self::Bucket(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::Counter(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::Log(place, _) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::WarmUp(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::Window(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
        }
    }

    fn forget(&mut self) {
        match self {
            Self::Bucket(place) => place.forget(),
            Self::Counter(place) => place.forget(),
            Self::Log(place, _) => place.forget(),
            Self::WarmUp(place) => place.forget(),
            Self::Window(place) => place.forget(),
        }
    }
}

impl<'h, C: Cell> PlaceOf<'h, C> {
    fn lock(seat: &'h SeatOf<C>, fingerprint: Fingerprint) -> Self {
        let shard = seat.table.lock(fingerprint);
        let found = shard.find(fingerprint).ok();
        Self { seat, fingerprint, shard, found }
    }

    fn keep(&mut self, cell: C, now: u64) -> bool {
        match self.found {
            Some(index) => *self.shard.cell_mut(index) = cell,
            None => self.seat.table.insert(&mut self.shard, self.fingerprint, cell, now),
        }
        self.found.is_none()
    }

    fn forget(&mut self) {
        if let Some(index) = self.found.take() {
            self.seat.table.remove(&mut self.shard, index);
        }
    }
}

impl<C: SmallCell> PlaceOf<'_, C> {
    fn state(&self) -> Option<State> {
        self.found.map(|index| self.shard.cell(index).load(self.seat.table.scales()))
    }

    /// Looks it up again: it may have been inserted meanwhile.
    fn kept(&self) -> Option<State> {
        let index = self.shard.find(self.fingerprint).ok()?;
        Some(self.shard.cell(index).load(self.seat.table.scales()))
    }

    fn keep_small(&mut self, state: Option<&State>, now: u64) -> bool {
        state
            .and_then(|state| C::store(state, self.seat.tag))
            .is_some_and(|cell| self.keep(cell, now))
    }
}

impl PlaceOf<'_, LogCell> {
    fn log(&self) -> Option<&log::State> {
        self.found.and_then(|index| self.shard.cell(index).state())
    }

    fn stand<'a>(
        &'a mut self,
        copy: &'a mut Option<log::State>,
        times: Times,
    ) -> (Standing<'a>, bool) {
        let rule = &self.seat.rule;
        let kept = match (self.found, &copy) {
            (Some(index), None) => self.shard.cell_mut(index).state_mut(),
            _ => None,
        };
        match kept {
            Some(state) => Standing::of_log(rule, state, times),
            None => Standing::of_log(rule, copy.get_or_insert_default(), times),
        }
    }
}

/// A place is of another kernel than the rule it was found by.
#[cold]
fn mismatch() -> ! {
    #[expect(
        clippy::panic,
        reason = "a seat is made from the very rule that its state is judged by"
    )]
    {
        panic!("a state belongs to another kernel than its rule")
    }
}
