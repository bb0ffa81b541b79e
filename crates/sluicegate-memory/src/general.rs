//! The general path: any request to any number of policies, all or nothing.
//!
//! [`decide`] locks the shards of all policies in a fixed order and takes their states. The core
//! evaluates and charges them, and changes are written back before any lock is released.

use std::ops::Add as _;

use smallvec::SmallVec;

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Book, Step, Stored, called, step_with_books};
use sluicegate_core::kernel::{Leased, Now, State};
use sluicegate_core::{
    Decision, Enforcement, Error, HoldId, Operation, Request, Timestamp, Warnings,
};

use crate::books::Books;
use crate::budget::{Load, Room};
use crate::fingerprint::Fingerprint;
use crate::held_records::HeldRecords;
use crate::kernels::AnyEntry;
use crate::opened::MemoryLimit;
use crate::registry::Full;

/// A value for each policy, without an allocation for up to 16.
type PerPolicy<T> = SmallVec<[T; 16]>;

/// Answers a request; `first` is the fingerprint of its first subject.
pub(crate) fn decide(
    opened: &MemoryLimit,
    request: &Request<'_>,
    first: Fingerprint,
    given: Option<Timestamp>,
) -> Result<Decision, Error> {
    let fingerprints = fingerprints(opened, request, first);
    let mut decision = with_room(opened, &fingerprints, |room| {
        let limit = opened.limit();
        let needs_books = request.needs_books(limit) || leases_a_share(request);
        let mut call = Call::lock(opened, given, &fingerprints, needs_books);
        if call.books.is_empty() && (call.is_marked() || opened.may_be_paused(call.now)) {
            // The books also have the pauses, and the second bound and leases of a marked state.
            drop(call);
            call = Call::lock(opened, given, &fingerprints, true);
        }
        let answer = call.answer(request, room);
        let called = std::mem::take(&mut call.called);
        // A woken waiter sends a request, so release the locks first.
        drop(call);
        opened.registry().bells.ring(called);
        answer
    })?;
    let is_reset = request.operation() == Operation::Reset;
    if is_reset && forget_elsewhere(opened, &fingerprints) {
        decision.set_forgotten(true);
    }
    Ok(decision)
}

/// Returns the units that each policy counts against the request's subjects.
pub(crate) fn used(
    opened: &MemoryLimit,
    request: &Request<'_>,
    first: Fingerprint,
    given: Option<Timestamp>,
) -> Vec<u64> {
    let fingerprints = fingerprints(opened, request, first);
    let mut call = Call::lock(opened, given, &fingerprints, false);
    let mut held: PerPolicy<Option<Stored>> =
        call.entries().map(|entry| entry.take().map(Stored::State)).collect();
    call.catch_up(&held);
    let members = opened.limit().members().iter().zip(&held);
    let used = members.map(|(member, held)| {
        state_of(held).map_or(0, |state| member.policy().rule().used(state, call.now))
    });
    let used = used.collect();
    let kept = call.write(&mut held, 0);
    debug_assert!(kept == Load::NONE, "nothing has changed");
    used
}

/// Returns the fingerprint of the request's subject for each part of the limit.
fn fingerprints(
    opened: &MemoryLimit,
    request: &Request<'_>,
    first: Fingerprint,
) -> SmallVec<[Fingerprint; 4]> {
    let of = |part| opened.store().fingerprint(request.subject(part));
    let first = if let Operation::Cancel(_) = request.operation() { of(0) } else { first };
    let parts = opened.limit().parts().len();
    std::iter::once(first).chain((1..parts).map(of)).collect()
}

/// Finishes a reset, in tables that only other limits have open. Called without locks, because the
/// lock order covers only the opened limit's own tables.
#[cold]
fn forget_elsewhere(opened: &MemoryLimit, fingerprints: &[Fingerprint]) -> bool {
    let mut found = false;
    for (part, fingerprint) in opened.limit().parts().iter().zip(fingerprints) {
        let own = |id| opened.policies().iter().any(|policy| policy.table_id() == id);
        let (part, time) = (part.as_str(), opened.time());
        found |= opened.registry().forget_elsewhere(part, time, own, *fingerprint);
    }
    found
}

/// Answers a request. If that needs an eviction but all shards with states were locked, answers
/// again. Without locks of its own it can wait for other locks.
fn with_room(
    opened: &MemoryLimit,
    subjects: &[Fingerprint],
    mut answer: impl FnMut(&mut Room<'_>) -> Result<Decision, Error>,
) -> Result<Decision, Error> {
    let mut room = Room::none(opened.registry().budget());
    let answered = answer(&mut room);
    if room.wanted.is_none() {
        answered
    } else {
        wait_for_room(opened, subjects, room, &mut answer)
    }
}

#[cold]
fn wait_for_room(
    opened: &MemoryLimit,
    subjects: &[Fingerprint],
    mut room: Room<'_>,
    answer: &mut dyn FnMut(&mut Room<'_>) -> Result<Decision, Error>,
) -> Result<Decision, Error> {
    let spare = opened.states_of(subjects);
    // A state that was found before may be evicted in the meantime, so the request may need more
    // capacity.
    for _ in 0..RETRIES {
        let wanted = room.wanted.take();
        let is_filled =
            wanted.is_some_and(|wanted| opened.registry().fill(&mut room, wanted, &spare));
        if !is_filled {
            break;
        }
        let answered = answer(&mut room);
        if room.wanted.is_none() {
            return answered;
        }
    }
    room.final_try = true;
    answer(&mut room)
}

/// A request with the locks it holds. It has space for many policies and is never moved, because a
/// move takes longer than a decision on one policy.
struct Call<'o> {
    opened: &'o MemoryLimit,
    now: Now,
    /// All are `Some` once they are locked.
    entries: PerPolicy<Option<AnyEntry<'o>>>,
    /// The held records of each part's subject, if the request needs them.
    books: Books<'o>,
    /// Waiters for permits that now find enough.
    called: Vec<HoldId>,
}

impl<'o> Call<'o> {
    /// Locks everything that a request needs, and then reads the clock.
    fn lock(
        opened: &'o MemoryLimit,
        given: Option<Timestamp>,
        fingerprints: &[Fingerprint],
        needs_books: bool,
    ) -> Self {
        let members = opened.limit().members();
        let mut entries = SmallVec::new();
        entries.resize_with(members.len(), || None);
        let mut books = Books::default();
        let mut unlocked = books.unlocked(if needs_books { opened.books() } else { &[] });
        for &index in opened.lock_order() {
            let policy = &opened.policies()[index];
            // Tables are locked in the order of their numbers, regardless of their contents.
            books.lock(&mut unlocked, fingerprints, policy.table_id());
            entries[index] = Some(policy.lock(fingerprints[members[index].part()]));
        }
        books.lock(&mut unlocked, fingerprints, u64::MAX);
        Self { opened, now: opened.now(given), entries, books, called: Vec::new() }
    }

    /// Returns whether a state has a second bound.
    fn is_marked(&mut self) -> bool {
        self.entries().any(|entry| entry.is_marked())
    }

    fn entries(&mut self) -> impl Iterator<Item = &mut AnyEntry<'o>> {
        self.entries.iter_mut().flatten()
    }

    /// Answers the request. The answer is final unless `room.wanted` is set.
    fn answer(&mut self, request: &Request<'_>, room: &mut Room<'_>) -> Result<Decision, Error> {
        if request.leases().is_some() {
            request.validate(self.opened.limit())?;
        }
        // This store is in the caller's process, so leasing units ahead saves it nothing. Its client
        // may be in another one, and leases a share.
        let request = &if leases_a_share(request) { *request } else { request.without_leasing() };
        let mut held: PerPolicy<Option<Stored>> =
            self.entries().map(|entry| entry.take().map(Stored::State)).collect();
        let needed = match request.operation() {
            // A refund gives nothing to a missing key.
            Operation::Peek
            | Operation::Refund
            | Operation::Reset
            | Operation::Slices
            | Operation::Renew { .. } => Load::NONE,
            _ => self.needed(&held),
        };
        let mut shelves = self.books.take();
        let buckets = held.len();
        let needed = needed + self.books.needed(self.opened.limit(), request, &shelves, buckets);
        self.join_bounds(&mut held, &mut shelves);
        let mut books: SmallVec<[Book; 1]> =
            shelves.iter_mut().map(|shelf| std::mem::take(&mut shelf.book)).collect();
        // Reserve memory first and release it if unused: at the cap, a request that is denied must
        // not evict a key.
        let is_roomy = room.try_fill(needed).is_ok();
        self.catch_up(&held);
        let (limit, now) = (self.opened.limit(), self.now);
        // The step may turn out to charge nothing, so keep the states as they were.
        let before = (!is_roomy).then(|| (held.clone(), books.clone()));
        let stepped = step_with_books(limit, request, now, &mut held, &mut books);
        let stepped = stepped.and_then(|step| match before {
            None => {
                if !self.opened.registry().bells.is_empty() {
                    self.called = called(limit, request, &step, now, &books);
                }
                Ok(step)
            }
            Some(before) => {
                self.at_the_cap(request, step, (&mut held, &mut books), before, &shelves, room)
            }
        });
        let (changed, held_parts) =
            stepped.as_ref().map_or((0, 0), |step| (step.changed, step.books));
        self.part_bounds(request, &held, books, &mut shelves);
        for (part, shelf) in shelves.iter().enumerate() {
            if held_parts & (1 << part) != 0 {
                self.opened.paused()[part].extend(shelf.book.paused_until());
            }
        }
        let has_leases = shelves.iter().enumerate().filter(|(_, shelf)| !shelf.leases.is_empty());
        let held_parts = has_leases.fold(held_parts, |parts, (part, _)| parts | 1 << part);
        let kept = self.write(&mut held, changed);
        room.spend(kept + self.books.write(shelves, held_parts, now));
        stepped.map(|step| step.decision)
    }

    /// Finishes a step whose capacity could not be reserved: evicts for what the step turned out to
    /// need, or changes nothing.
    #[cold]
    fn at_the_cap(
        &mut self,
        request: &Request<'_>,
        mut step: Step,
        (held, books): (&mut PerPolicy<Option<Stored>>, &mut SmallVec<[Book; 1]>),
        (held_before, books_before): (PerPolicy<Option<Stored>>, SmallVec<[Book; 1]>),
        shelves: &SmallVec<[Box<HeldRecords>; 1]>,
        room: &mut Room<'_>,
    ) -> Result<Step, Error> {
        let mut grown = shelves.clone();
        self.part_bounds(request, held, books.clone(), &mut grown);
        let wanted =
            self.needed_for(held, step.changed) + self.books.needed_for(&grown, step.books);
        let made = self
            .make_room(held, &held_before, &mut step, room)
            .and_then(|needed| self.make_room_for_books(&grown, step.books, needed, room));
        let Err(full) = made else { return Ok(step) };
        if full.may_wait && !room.final_try {
            room.wanted = Some(wanted);
        } else if step.decision.is_denied() {
            // The policies denied the request. The denial can't be recorded, because the store is
            // full.
            step.decision.set_warnings(Warnings { full: true, ..step.decision.warnings() });
            (*books, step.books) = (books_before, 0);
            return Ok(step);
        }
        // Answer what the policies say to a peek: nothing is charged.
        (*held, *books) = (held_before, books_before);
        let (limit, now) = (self.opened.limit(), self.now);
        let mut peeked = step_with_books(limit, &request.as_peek(), now, held, books)?;
        peeked.decision.set_warnings(step.decision.warnings());
        peeked.decision.turn_away_for_room(full.retry_after());
        (peeked.changed, peeked.books) = (0, 0);
        Ok(peeked)
    }

    /// Joins states with their second bounds and leases.
    fn join_bounds(&mut self, held: &mut [Option<Stored>], shelves: &mut [Box<HeldRecords>]) {
        let members = self.opened.limit().members();
        for ((entry, held), member) in self.entries.iter().flatten().zip(held).zip(members) {
            let Some(shelf) = shelves.get_mut(member.part()) else { return };
            // Without a mark they belong to an evicted state.
            let bound = shelf.take_bound(member.identity()).filter(|_| entry.is_marked());
            let slots = shelf.take_leases(member.identity()).filter(|_| entry.is_marked());
            *held = match (held.take(), bound, slots) {
                (Some(Stored::State(state)), bound, slots)
                    if bound.is_some() || slots.is_some() =>
                {
                    let slots = slots.unwrap_or_default();
                    Some(Stored::Leased(Box::new(Leased { state, slots, bound })))
                }
                (held, ..) => held,
            };
        }
    }

    /// Separates states from second bounds and leases again, to store these with the books. Records the
    /// keys of bans.
    fn part_bounds(
        &self,
        request: &Request<'_>,
        held: &[Option<Stored>],
        books: SmallVec<[Book; 1]>,
        shelves: &mut [Box<HeldRecords>],
    ) {
        let limit = self.opened.limit();
        for (part, (shelf, book)) in shelves.iter_mut().zip(books).enumerate() {
            shelf.book = book;
            if limit.ban(part).is_some() {
                shelf.name(request.subject(part), self.now.micros);
            }
        }
        for (held, member) in held.iter().zip(self.opened.limit().members()) {
            if let Some(Stored::Leased(leased)) = held
                && let Some(shelf) = shelves.get_mut(member.part())
            {
                let bound = leased.bound.iter().cloned();
                shelf.bounds.extend(bound.map(|bound| (member.identity(), bound)));
                if !leased.slots.is_empty() {
                    shelf.leases.push((member.identity(), leased.slots.clone().into()));
                }
            }
        }
    }

    /// Reserves capacity for each book that is new or has grown.
    fn make_room_for_books(
        &mut self,
        shelves: &[Box<HeldRecords>],
        changed: u64,
        mut needed: Load,
        room: &mut Room<'_>,
    ) -> Result<(), Full> {
        let (registry, now) = (self.opened.registry(), self.now.micros);
        for (part, (entry, shelf)) in self.books.entries().zip(shelves).enumerate() {
            if changed & (1 << part) != 0 {
                needed += entry.needs_for(shelf);
                entry.make_room(registry, now, room, needed)?;
            }
        }
        Ok(())
    }

    /// Reads the clock again, once, if it seems to have stepped back. If the clock is correct, it
    /// has advanced in the meantime.
    fn catch_up(&mut self, held: &[Option<Stored>]) {
        let is_late = held.iter().flatten().any(|held| match held {
            Stored::State(state) => self.now.is_exceeded_by(state.newest()),
            Stored::Leased(leased) => self.now.is_exceeded_by(leased.state.newest()),
            Stored::Reading(_) => false,
        });
        if is_late && let Some(now) = self.opened.registry().catch_up(self.now) {
            self.now = now;
        }
    }

    /// Returns the capacity needed to store the changed states.
    fn needed_for(&mut self, held: &[Option<Stored>], changed: u64) -> Load {
        let states = self.entries().zip(held).enumerate();
        let changed = states.filter(|(index, _)| changed & (1 << index) != 0);
        let needs = |(_, (entry, held)): (_, (&mut AnyEntry<'_>, &Option<Stored>))| {
            entry.needs_for(state_of(held))
        };
        changed.map(needs).fold(Load::NONE, Load::add)
    }

    /// Returns the maximum capacity needed to charge all policies.
    fn needed(&mut self, held: &[Option<Stored>]) -> Load {
        let needs =
            |(entry, held): (&mut AnyEntry<'_>, &Option<Stored>)| entry.needs(state_of(held));
        self.entries().zip(held).map(needs).fold(Load::NONE, Load::add)
    }

    /// Stores changed states, puts the others back, and returns the capacity that was used.
    fn write(&mut self, held: &mut [Option<Stored>], changed: u64) -> Load {
        let (now, mut kept) = (self.now.micros, Load::NONE);
        for (index, (entry, held)) in self.entries().zip(held).enumerate() {
            let (state, is_marked) = match held.take() {
                Some(Stored::State(state)) => (Some(state), false),
                Some(Stored::Leased(leased)) => {
                    let is_marked = leased.bound.is_some() || !leased.slots.is_empty();
                    (Some(leased.state), is_marked)
                }
                Some(Stored::Reading(_)) | None => (None, false),
            };
            if changed & (1 << index) == 0 {
                kept += entry.put_back(state);
            } else {
                kept += entry.keep(state, now, is_marked);
            }
        }
        kept
    }

    /// Reserves capacity for each state that is new or has grown, one by one. If a shadow policy's
    /// state finds none, the previous state is kept.
    fn make_room(
        &mut self,
        held: &mut [Option<Stored>],
        before: &[Option<Stored>],
        step: &mut Step,
        room: &mut Room<'_>,
    ) -> Result<Load, Full> {
        let Step { decision, changed, .. } = step;
        let registry = self.opened.registry();
        let mut needed = Load::NONE;
        let mut notes = decision.warnings();
        let (opened, now) = (self.opened, self.now.micros);
        let entries = self.entries().zip(held).zip(opened.limit().members());
        for (index, ((entry, held), member)) in entries.enumerate() {
            if *changed & (1 << index) == 0 {
                continue;
            }
            let needed_with_it = needed + entry.needs_for(state_of(held));
            match entry.make_room(registry, now, room, needed_with_it) {
                Ok(()) => needed = needed_with_it,
                Err(full) => {
                    let matters = member.policy().enforcement() == Enforcement::Enforced;
                    let may_wait = full.may_wait && !room.final_try;
                    if may_wait || (matters && decision.is_allowed()) {
                        return Err(full);
                    }
                    held.clone_from(&before[index]);
                    *changed &= !(1 << index);
                    notes.full = true;
                }
            }
        }
        decision.set_warnings(notes);
        Ok(needed)
    }
}

fn leases_a_share(request: &Request<'_>) -> bool {
    request.leases().is_some_and(|leasing| leasing.pace.is_some())
}

fn state_of(held: &Option<Stored>) -> Option<&State> {
    match held {
        Some(Stored::State(state)) => Some(state),
        Some(Stored::Leased(leased)) => Some(&leased.state),
        Some(Stored::Reading(_)) | None => None,
    }
}

/// Maximum attempts to answer with more capacity. The first one succeeds unless states are evicted
/// between two attempts.
const RETRIES: usize = 4;

#[cfg(test)]
mod tests {
    use sluicegate_core::{Limit, OpenOptions, Store as _};

    use crate::kernels::AnyPolicy;
    use crate::store::MemoryStore;

    use super::*;

    /// Limits that share two tables lock them in one order, regardless of the order of their
    /// policies. A thread that waits for the second table holds the first.
    #[test]
    fn limits_that_share_tables_lock_them_in_one_order() {
        let store = MemoryStore::builder().max_keys(2.try_into().unwrap()).build();
        let specs = ["fixed_window 9/h as a", "fixed_window 9/h as b"];
        let open =
            |specs: [&str; 2]| store.open(Limit::new("x", specs).unwrap(), OpenOptions::default());
        let [one, other] = [open(specs), open([specs[1], specs[0]])];
        let [AnyPolicy::Window(a), AnyPolicy::Window(b)] = one.policies() else {
            panic!("two windows");
        };
        let is_a_first = one.lock_order() == [0, 1];
        let (first, second) = if is_a_first { (a, b) } else { (b, a) };
        for opened in [&one, &other] {
            let held = second.table.lock(Fingerprint::NONE);
            std::thread::scope(|scope| {
                let asked = scope.spawn(|| opened.decide(Request::check(b"k")).unwrap());
                let is_locked = (0..2_000_000).any(|_| {
                    std::thread::yield_now();
                    first.table.shards().try_lock(0).is_none()
                });
                drop(held);
                assert!(is_locked, "it waits for the second table without having the first");
                assert!(asked.join().unwrap().is_allowed());
            });
        }
    }
}
