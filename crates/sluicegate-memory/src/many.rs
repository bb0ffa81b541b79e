//! The general path: any operation against any number of policies, all or nothing.
//!
//! The shards of all policies are locked in one order, the states are brought to the time of
//! judgement, the core judges and charges, and what changed is written back before any lock is
//! let go.

use smallvec::SmallVec;

use sluicegate_core::kernel::Times;
use sluicegate_core::packed::State;
use sluicegate_core::{
    Costs, Decision, Enforcement, Evaluation, Operation, Request, SliceCounts, Span, Standing,
    StoreError, check_request, check_subjects, evaluate,
};

use crate::budget::Room;
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::handle::{Handle, Seat};
use crate::place::{Copies, Place, PlaceOf};
use crate::receipt::{Change, Receipt};
use crate::registry::{Full, Registry};

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
    if let Operation::Reset = request.operation {
        return reset(fingerprinter, handle, request, first, times);
    }
    with_room(handle.registry(), |room| {
        let mut call = Call::new(fingerprinter, handle, request, first, times)?;
        call.judge(request.operation, request.costs, room)
    })
}

#[cold]
fn reset(
    fingerprinter: &Fingerprinter,
    handle: &Handle,
    request: &Request<'_>,
    first: Fingerprint,
    times: Times,
) -> Result<Decision, StoreError> {
    let decision = Call::new(fingerprinter, handle, request, first, times)?.reset(request.costs)?;
    // The rest of the limit comes when no shard is locked any more: the order of their locks is
    // that of the handle's own tables.
    let also = request.also.iter().map(|subject| fingerprinter.of(subject));
    for (part, fingerprint) in handle.limit().parts().iter().zip([first].into_iter().chain(also)) {
        let (time, seats) = (handle.time(), handle.seats());
        handle.registry().forget_elsewhere(part.as_str(), time, seats, fingerprint);
    }
    Ok(decision)
}

/// Answers a request and says what it changed, if it was admitted.
pub(crate) fn reserve(
    fingerprinter: &Fingerprinter,
    handle: &Handle,
    request: &Request<'_>,
    first: Fingerprint,
    times: Times,
) -> Result<(Decision, Option<Receipt>), StoreError> {
    with_room(handle.registry(), |room| {
        let mut call = Call::new(fingerprinter, handle, request, first, times)?;
        let before: PerPolicy<Option<State>> = call.places.iter().map(Place::kept).collect();
        let decision = call.judge(request.operation, request.costs, room)?;
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
    })
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
    let mut times = times;
    if rule.needs_restamp(&state, times) {
        times = handle.registry().catch_up(times).unwrap_or(times);
    }
    if rule.needs_restamp(&state, times) {
        rule.restamp(&mut state, times.now);
    }
    let at = rule.at(&state, times);
    Ok(SliceCounts::of(rule, &state, at))
}

/// Answers a request, and again where others had to be evicted for it but no shard with a state
/// was to be had: without locks of its own it can wait for theirs.
fn with_room<T>(
    registry: &Registry,
    mut answer: impl FnMut(&mut Room<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut room = Room::none(&registry.budget);
    room.final_try = !registry.evicts();
    let answered = answer(&mut room);
    if room.wanted == 0 { answered } else { wait_for_room(registry, room, &mut answer) }
}

#[cold]
fn wait_for_room<T>(
    registry: &Registry,
    mut room: Room<'_>,
    answer: &mut dyn FnMut(&mut Room<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    // A state that was found before may be evicted meanwhile, so that more is wanted.
    for _ in 0..RETRIES {
        if !registry.fill(&mut room) {
            break;
        }
        room.wanted = 0;
        let answered = answer(&mut room);
        if room.wanted == 0 {
            return answered;
        }
    }
    room.final_try = true;
    answer(&mut room)
}

/// A request with the locks it holds.
struct Call<'h> {
    handle: &'h Handle,
    times: Times,
    /// Whether the clock was read again.
    is_caught_up: bool,
    places: PerPolicy<Place<'h>>,
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
        let places = places.into_iter().flatten().collect();
        Ok(Self { handle, times, is_caught_up: false, places })
    }

    /// Anything that is judged. The answer stands unless more room is wanted.
    fn judge(
        &mut self,
        operation: Operation,
        costs: Costs<'_>,
        room: &mut Room<'_>,
    ) -> Result<Decision, StoreError> {
        let absent = match operation {
            // A refund gives nothing to a key that isn't there.
            Operation::Peek | Operation::Refund => 0,
            _ => self.places.iter().filter(|place| !place.is_found()).count(),
        };
        // Room for what is new is taken first and given back when not needed: at the cap nobody is
        // evicted for a request that is denied after all.
        let is_roomy = room.try_fill(absent);
        // Without room it may turn out that nothing is to be charged after all.
        let copies = if is_roomy { Copies::Restamped } else { Copies::All };
        let (mut evaluation, restamped, states) = self.evaluate(operation, costs, copies)?;
        let mut notes = evaluation.decision.notes();
        notes.restamped = restamped != 0;
        evaluation.decision.set_notes(notes);
        if matches!(operation, Operation::Peek) {
            return Ok(evaluation.decision);
        }
        let mut changed = evaluation.changed | restamped;
        if !is_roomy && let Err(full) = self.make_room(&mut evaluation, &mut changed, room) {
            if !room.final_try {
                room.wanted = absent;
            }
            // The policies' own words are those of a peek: nothing is charged.
            let (mut peeked, ..) = self.evaluate(Operation::Peek, costs, Copies::Restamped)?;
            let notes = evaluation.decision.notes();
            peeked.decision.set_notes(notes);
            peeked.decision.turn_away_for_room(Span::from_micros(full.retry).unwrap_or(Span::MAX));
            return Ok(peeked.decision);
        }
        let mut inserted = 0;
        for (index, (place, state)) in self.places.iter_mut().zip(states).enumerate() {
            if changed & (1 << index) != 0 {
                inserted += usize::from(place.keep(state.as_ref(), self.times.now));
            }
        }
        room.spend(inserted);
        Ok(evaluation.decision)
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
        if restamped != 0 && !self.is_caught_up {
            // Once: a clock that did step back goes on meanwhile.
            self.is_caught_up = true;
            if let Some(times) = self.handle.registry().catch_up(times) {
                drop(standings);
                self.times = times;
                return self.evaluate(operation, costs, copies);
            }
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
    fn make_room(
        &mut self,
        evaluation: &mut Evaluation,
        changed: &mut u64,
        room: &mut Room<'_>,
    ) -> Result<(), Full> {
        let registry = self.handle.registry();
        let mut needed = 0;
        let mut notes = evaluation.decision.notes();
        for (index, (place, member)) in
            self.places.iter_mut().zip(self.handle.limit().members()).enumerate()
        {
            if place.is_found() || *changed & (1 << index) == 0 {
                continue;
            }
            needed += 1;
            if room.try_fill(needed) {
                continue;
            }
            match place.make_room(registry, self.times.now) {
                Ok(()) => room.add(),
                Err(full) => {
                    let matters = member.policy().enforcement() == Enforcement::Enforced;
                    if !room.final_try || (matters && evaluation.decision.is_allowed()) {
                        return Err(full);
                    }
                    needed -= 1;
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

/// How often more room is waited for. It is found the first time, but for states that are evicted
/// between two tries.
const RETRIES: usize = 4;
