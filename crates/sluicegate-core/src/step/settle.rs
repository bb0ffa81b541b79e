//! Settles and renews the holds of earlier requests, with their records.

use smallvec::SmallVec;

use super::hold::stored;
use super::judge::Judge;
use super::refusals::Refusals;
use super::{Call, PerPolicy, Step, evaluate, queue};
use crate::book::{Book, HeldUnits, HoldRecord, RecordContent};
use crate::decision::DecisionForStores as _;
use crate::failure::Error;
use crate::hold::{Hold, HoldFound, HoldId};
use crate::kernel::bound::Place;
use crate::kernel::slot::total;
use crate::kernel::{Charge, Now, Overflow, Rule, Second, Taken};
use crate::limit::{Limit, Member};
use crate::record::state_from;
use crate::request::{Costs, Operation, Request};
use crate::stored::Stored;
use crate::time::Span;

/// The result for a request that settles or renews a hold.
#[derive(Clone, Debug)]
pub struct Found {
    /// The result for the hold's id.
    pub hold: HoldFound,
    /// The units that each policy gave back; `None` for a policy with none to give back.
    pub given: SmallVec<[Option<u64>; 16]>,
}

/// Settles a hold, if it still exists.
pub(super) fn settle(
    limit: &Limit,
    request: &Request<'_>,
    (id, used): (HoldId, &[Option<u64>]),
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
) -> Result<Step, Error> {
    let records = Records::of(id, now, books);
    let found = records.found();
    if found != HoldFound::Live {
        let given = limit.members().iter();
        let given = given.map(|member| records.of_part(member)?.given_of(member.identity()));
        let given = given.collect();
        drop(records);
        let left = queue::leave(limit, id, now, books);
        let has_left = found == HoldFound::Unknown && left != 0;
        let hold = if has_left { HoldFound::Waited } else { found };
        let step = peek(limit, request, now, (held, books), Found { hold, given })?;
        return Ok(Step { books: left, ..step });
    }
    let settlement = settle_records(limit, |member| records.of_part(member), used, now, held)?;
    let Settlement { given, changed, lives } = settlement;
    let mut settled = 0;
    let live = records.live();
    // A settlement without the units used removes the record, so its repeat finds no hold.
    let says_nothing = used.iter().all(Option::is_none);
    for (part, until) in live {
        settled |= 1 << part;
        if says_nothing {
            books[part].remove(id);
            continue;
        }
        let members = limit.members().iter().zip(&given);
        let given = members.filter(|(member, _)| member.part() == part);
        let given = given.map(|(member, given)| (member.identity(), *given)).collect();
        let content = RecordContent::Settled(given);
        books[part].put(id, HoldRecord { until, content });
    }
    settled |= queue::leave(limit, id, now, books);
    let step = peek(limit, request, now, (held, books), Found { hold: found, given })?;
    Ok(Step { changed, lives, books: settled, ..step })
}

/// The effect of a settlement on the policies.
struct Settlement {
    /// The units that each policy gave back; `None` for a policy with none to give back.
    given: PerPolicy<Option<u64>>,
    /// The policies whose states changed, as bits.
    changed: u64,
    lives: SmallVec<[u64; 4]>,
}

/// Settles by live or settled records.
fn settle_records<'b>(
    limit: &Limit,
    record_of: impl Fn(&Member) -> Option<&'b HoldRecord>,
    used: &[Option<u64>],
    now: Now,
    held: &mut [Option<Stored>],
) -> Result<Settlement, Overflow> {
    let was_stored = stored(held);
    let mut judge = Judge::new(limit);
    judge.open(now, held)?;
    let members = limit.members().iter().zip(&was_stored).enumerate();
    let claims: PerPolicy<Claim<'_>> = members
        .map(|(index, (member, stored))| {
            let used = used.get(index).copied().flatten();
            Claim::of(record_of(member), member, used, stored.as_deref())
        })
        .collect();
    let (given, undone) = match judge.settle_claims(&claims) {
        Ok(settled) => settled,
        Err(overflow) => {
            judge.close(held, 0);
            return Err(overflow);
        }
    };
    let changed = judge.changed | judge.restamped;
    let lives = judge.lives(now, changed);
    judge.close(held, changed);
    let members = limit.members().iter().zip(&claims).enumerate();
    for ((index, (member, claim)), held) in members.zip(held.iter_mut()) {
        if undone & (1 << index) != 0 {
            let states = claim.entry.and_then(HeldUnits::states);
            *held = states.and_then(|states| state_from(&states.found, member));
        }
    }
    Ok(Settlement { given, changed, lives })
}

/// Settles a record of a part as if none of its units had been used, and returns the changed
/// policies as bits.
pub(super) fn cancel(
    limit: &Limit,
    (part, record): (usize, &HoldRecord),
    now: Now,
    held: &mut [Option<Stored>],
) -> Result<u64, Overflow> {
    let record_of = |member: &Member| Some(record).filter(|_| member.part() == part);
    let nothing: PerPolicy<_> = SmallVec::from_elem(Some(0), limit.members().len());
    Ok(settle_records(limit, record_of, &nothing, now, held)?.changed)
}

/// Returns `true` if states must be restamped.
pub(super) fn are_restamped(
    limit: &Limit,
    now: Now,
    held: &mut [Option<Stored>],
) -> Result<bool, Overflow> {
    let mut judge = Judge::new(limit);
    judge.open(now, held)?;
    let are_restamped = judge.restamped != 0;
    judge.close(held, 0);
    Ok(are_restamped)
}

/// Extends a hold, if it still exists.
pub(super) fn renew(
    limit: &Limit,
    request: &Request<'_>,
    (id, lasts): (HoldId, Span),
    now: Now,
    held: &mut [Option<Stored>],
    books: &mut [Book],
) -> Result<Step, Error> {
    let records = Records::of(id, now, books);
    let (found, live) = (records.found(), records.live());
    let (held_before, mut before) = (held.to_vec(), Vec::new());
    let (mut renewed, mut changed) = (0, 0);
    for (part, _) in live {
        let Some(record) = books[part].get(id, now.micros).cloned() else { continue };
        before.push((part, record.clone()));
        let (record, moved) = renewed_record(limit, part, record, (id, lasts), now, held);
        books[part].put(id, record);
        (renewed, changed) = (renewed | 1 << part, changed | moved);
    }
    let found = Found { hold: found, given: SmallVec::new() };
    let peeked = peek(limit, request, now, (held, books), found);
    let step = peeked.inspect_err(|_| {
        held.clone_from_slice(&held_before);
        before.into_iter().for_each(|(part, record)| books[part].put(id, record));
    })?;
    Ok(Step { books: renewed, changed, ..step })
}

/// Returns an extended record with its units moved to other slots, and the policies whose units
/// moved, as bits.
fn renewed_record(
    limit: &Limit,
    part: usize,
    mut record: HoldRecord,
    (id, lasts): (HoldId, Span),
    now: Now,
    held: &mut [Option<Stored>],
) -> (HoldRecord, u64) {
    record.until = now.micros.saturating_add(lasts.as_micros());
    let (place, mut changed) = (Place::of(id, lasts, now), 0);
    for (index, (member, held)) in limit.members().iter().zip(held).enumerate() {
        let rule = member.policy().rule();
        if member.part() == part
            && let Some(entry) = record.units_mut(member.identity())
            && let (Some(slot), Some(Stored::Leased(leased))) = (entry.slot(), held)
            && let Some(moved) = leased.move_held(rule, now, (slot, entry.units), place)
        {
            entry.more.get_or_insert_default().slot = Some(moved);
            changed |= 1 << index;
        }
    }
    (record, changed)
}

/// The records of one id: one for each part that has one.
struct Records<'b>(PerPolicy<Option<&'b HoldRecord>>);

impl<'b> Records<'b> {
    fn of(id: HoldId, now: Now, books: &'b [Book]) -> Self {
        Self(books.iter().map(|book| book.get(id, now.micros)).collect())
    }

    fn of_part(&self, member: &Member) -> Option<&'b HoldRecord> {
        self.0.get(member.part()).copied().flatten()
    }

    /// Returns the parts with a record that hasn't been settled, and the record's end.
    fn live(self) -> PerPolicy<(usize, u64)> {
        let parts = self.0.into_iter().enumerate();
        parts
            .filter_map(|(part, record)| Some((part, record.filter(|it| it.is_live())?.until)))
            .collect()
    }

    fn found(&self) -> HoldFound {
        let mut all = self.0.iter().flatten();
        match all.clone().next() {
            None => HoldFound::Unknown,
            Some(_) if all.any(|record| record.is_live()) => HoldFound::Live,
            Some(_) => HoldFound::Settled,
        }
    }
}

/// Returns the policies' outcomes now, at no cost, for a request that settles or renews a hold.
pub(super) fn peek(
    limit: &Limit,
    request: &Request<'_>,
    now: Now,
    (held, books): (&mut [Option<Stored>], &mut [Book]),
    Found { hold, given }: Found,
) -> Result<Step, Error> {
    let nothing: PerPolicy<u64> = SmallVec::from_elem(0, limit.members().len());
    let peek = request.as_peek().costs(Costs::Each(&nothing));
    let call = Call { limit, request: &peek, operation: Operation::Peek, now };
    let mut step = evaluate(call, held, books, Refusals::before(call, books))?;
    step.decision = step.decision.of_hold(hold, given.into_iter());
    if let (Operation::Renew { id, lasts }, HoldFound::Live) = (request.operation(), hold) {
        step.decision.set_hold(Hold { id, lasts: lasts.into() });
    }
    Ok(step)
}

/// The units that a policy gives back or is charged when a hold is settled.
pub(super) struct Claim<'b> {
    entry: Option<&'b HeldUnits>,
    units: u64,
    used: u64,
    is_last: bool,
}

impl<'b> Claim<'b> {
    fn of(
        record: Option<&'b HoldRecord>,
        member: &Member,
        used: Option<u64>,
        stored: Option<&[u8]>,
    ) -> Self {
        let live = record.filter(|record| record.is_live());
        let entry = live.and_then(|record| record.units_of(member.identity()));
        let units = entry.map_or(0, |entry| entry.units);
        // A permit is given back, regardless of its use.
        let is_permit = matches!(member.policy().rule(), Rule::Permits(_));
        let used = if is_permit { Some(0) } else { used };
        let used = used.filter(|_| live.is_some()).unwrap_or(units);
        let left = entry.and_then(HeldUnits::states).map(|states| &*states.left);
        let is_last = left.is_some() && left == stored;
        Self { entry, units, used, is_last }
    }

    /// Returns `true` if the settlement undoes the request completely.
    const fn is_undone(&self) -> bool {
        self.is_last && self.used == 0 && self.units > 0
    }

    /// Returns the charged units to give back.
    fn unused(&self) -> Option<Taken> {
        let entry = self.entry?;
        let units = self.units.checked_sub(self.used).filter(|units| *units > 0)?;
        Some(Taken { units, at: entry.at, flow: entry.flow(), is_last: self.is_last })
    }

    /// Returns the slot of the units.
    fn slot(&self) -> Option<u64> {
        self.entry?.slot()
    }

    fn charge(&self) -> Option<Charge> {
        let more = self.used.checked_sub(self.units).filter(|more| *more > 0);
        more.map(Charge::at_once)
    }
}

impl<'l> Judge<'l> {
    /// Gives unused units back and charges additional use, completely or not at all.
    ///
    /// Returns the units that each policy gave back, and the policies for which the request was
    /// undone.
    fn settle_claims(
        &mut self,
        claims: &[Claim<'_>],
    ) -> Result<(PerPolicy<Option<u64>>, u64), Overflow> {
        self.charge_all(|_, index| claims[index].charge())?;
        let mut undone = 0;
        let mut given: PerPolicy<Option<u64>> = SmallVec::new();
        for (index, claim) in claims.iter().enumerate() {
            let leased = total(self.slots(index));
            let (mut bound, mut is_released) = (self.take_bound(index), false);
            let unused = claim.unused();
            if let Some(bound) = &mut bound {
                is_released = claim.slot().is_some_and(|slot| bound.release(slot, claim.units));
                match unused {
                    // None of the units has drained.
                    Some(taken) if is_released => _ = bound.account.refund(taken.units),
                    Some(taken) => {
                        let taken = Taken { is_last: false, ..taken };
                        _ = bound.account.give_back(taken);
                    }
                    None => {}
                }
                bound.pin(leased);
                self.changed |= u64::from(is_released) << index;
            }
            let is_held = bound.as_ref().is_some_and(|bound| !bound.is_empty());
            let given_back = match unused {
                Some(taken) if claim.is_undone() && !is_held => {
                    undone |= 1 << index;
                    Some(taken.units)
                }
                Some(taken) => {
                    let bound = bound.as_ref().map(|bound| (bound, is_released));
                    self.give_back_under(index, taken, bound)
                }
                None => None,
            };
            if is_held {
                self.outstanding_mut(index).bound = bound;
            }
            self.changed |= u64::from(given_back.is_some()) << index;
            given.push(unused.map(|_| given_back.unwrap_or(0)));
        }
        Ok((given, undone))
    }

    /// Gives the remaining units back. With a second bound, also gives back the units that it shows
    /// as unused.
    fn give_back_under(
        &mut self,
        index: usize,
        taken: Taken,
        bound: Option<(&Second<'l>, bool)>,
    ) -> Option<u64> {
        let Some((bound, is_released)) = bound else { return self.give_back(index, taken) };
        let leased = total(self.slots(index));
        let before = self.accounts[index].used_beyond(leased);
        let gives = self.give_back(index, taken).is_some();
        let account = &mut self.accounts[index];
        account.lower_to(&bound.account);
        (gives || is_released).then(|| before - account.used_beyond(leased))
    }
}
