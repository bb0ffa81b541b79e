//! Holds: an allowed request leaves a record of its charges, with which they are settled later.

use smallvec::SmallVec;

use super::judge::Judge;
use super::{Call, PerPolicy, Step};
use crate::book::{Book, ChargedState, HeldUnits, HoldRecord, MoreOfUnits, RecordContent};
use crate::failure::{Error, RequestError};
use crate::hold::Hold;
use crate::kernel::bound::Place;
use crate::kernel::slot::total;
use crate::kernel::{Now, Second};
use crate::limit::Limit;
use crate::on_expiry::OnExpiry;
use crate::record::numbers_of;
use crate::request::Request;
use crate::stored::Stored;

/// The stored bytes of each policy's state, empty if there was none. `None` for a state that can be
/// long, or isn't needed later.
pub(super) type StateBytes = PerPolicy<Option<Box<[u8]>>>;

pub(super) fn stored(held: &[Option<Stored>]) -> StateBytes {
    held.iter().map(|held| numbers_of(held.as_ref())).collect()
}

/// The hold that a request creates.
pub(super) struct ToHold<'r> {
    hold: &'r Hold,
    stored: StateBytes,
    /// The charge of each policy, for an allowed request.
    charged: Option<PerPolicy<Option<HeldUnits>>>,
}

/// First of all: checks that a record can be left under the hold's id.
pub(super) fn has_room(limit: &Limit, hold: &Hold, now: Now, books: &[Book]) -> Result<(), Error> {
    if books.iter().any(|book| book.get(hold.id, now.micros).is_some()) {
        return Err(RequestError::id_in_use(limit, hold.id).into());
    }
    if books.iter().all(|book| book.has_room(now.micros)) {
        return Ok(());
    }
    Err(RequestError::too_many_holds(limit).into())
}

/// Returns the maximum number of bytes that a record, or a ticket instead of it, adds to a book.
pub(super) fn growth(request: &Request<'_>, book: &Book) -> Option<usize> {
    request.holds().map(|_| book.hold_growth_bytes())
}

impl<'r> ToHold<'r> {
    /// Before the decision: keeps the stored states, for comparison when the hold is settled.
    pub(super) fn before(call: Call<'r>, held: &[Option<Stored>]) -> Option<Self> {
        call.request.holds().map(|hold| Self { hold, stored: stored(held), charged: None })
    }

    /// Puts an allowed request's units into slots with the charge, and notes the charge of each
    /// policy.
    pub(super) fn charge(&mut self, call: Call<'_>, judge: &mut Judge<'_>) {
        let place = Place::of(self.hold.id, self.hold.lasts.into(), call.now);
        let stored = std::mem::take(&mut self.stored);
        let members = call.limit.members().iter().zip(stored).enumerate();
        let charged = members.map(|(index, (member, stored))| {
            let units = judge.taken(index, call.operation)?;
            let has_slots = member.policy().rule().held_kind().is_some();
            let slot = if has_slots { judge.put_into_slot(index, units, place) } else { None };
            let account = &judge.accounts[index];
            let is_restamped = judge.restamped & (1 << index) != 0;
            let found = stored.filter(|_| !is_restamped);
            let states = found.map(|found| ChargedState { found, ..ChargedState::default() });
            Some(HeldUnits {
                identity: member.identity(),
                returns: call.limit.on_expiry(member.part()) == OnExpiry::Return,
                units,
                at: account.judged_at(),
                more: MoreOfUnits { flow: account.flow(), slot, states }.boxed(),
            })
        });
        self.charged = Some(charged.collect());
    }

    /// After the decision: leaves a record in each part that was charged. For a denied request,
    /// removes expired records if there are more than a request examines.
    pub(super) fn after(
        self,
        Call { limit, now, .. }: Call<'_>,
        step: &mut Step,
        held: &[Option<Stored>],
        books: &mut [Book],
    ) {
        let Some(charged) = self.charged else {
            for (part, book) in books.iter_mut().enumerate() {
                let has_made = book.make_room(now.micros, limit.on_expiry(part));
                step.books |= u64::from(has_made) << part;
            }
            return;
        };
        let left = leave(limit, self.hold, now, charged, held, &step.lives, books);
        if left != 0 {
            step.decision.set_hold(*self.hold);
        }
        step.books |= left;
    }
}

impl Judge<'_> {
    /// Puts a policy's charge into a slot of its second bound, and returns the slot's tag.
    fn put_into_slot(&mut self, index: usize, units: u64, place: Place) -> Option<u64> {
        if !place.is_after(self.accounts[index].judged_at()) {
            return None;
        }
        let leased = total(self.slots(index));
        let mut bound = match self.take_bound(index) {
            Some(bound) => bound,
            None => {
                self.accounts[index].pin(leased);
                Second::of(&self.accounts[index])
            }
        };
        let slot = bound.hold(units, place);
        self.outstanding_mut(index).bound = Some(bound).filter(|bound| !bound.is_empty());
        slot
    }
}

/// Leaves a record in each part that was charged, and returns those parts as bits.
fn leave(
    limit: &Limit,
    hold: &Hold,
    now: Now,
    charged: PerPolicy<Option<HeldUnits>>,
    held: &[Option<Stored>],
    lives: &[u64],
    books: &mut [Book],
) -> u64 {
    let until = now.after(hold.lasts);
    let mut entries: SmallVec<[SmallVec<[HeldUnits; 1]>; 1]> =
        SmallVec::from_elem(SmallVec::new(), books.len());
    for ((charged, member), held) in charged.into_iter().zip(limit.members()).zip(held) {
        let Some(mut charged) = charged else { continue };
        charged.more = charged.more.and_then(|more| {
            let states = more.states.and_then(|states| {
                let left = numbers_of(held.as_ref()).filter(|left| !left.is_empty())?;
                Some(ChargedState { left, ..states })
            });
            MoreOfUnits { states, ..*more }.boxed()
        });
        entries[member.part()].push(charged);
    }
    let mut parts = 0;
    for (part, (book, entries)) in books.iter_mut().zip(entries).enumerate() {
        if !entries.is_empty() {
            book.remove_ended(now.micros, limit.on_expiry(part));
            if limit.on_expiry(part) == OnExpiry::Return {
                book.free(hold.id);
            }
            let content = RecordContent::Live(entries.into_iter().collect());
            book.put(hold.id, HoldRecord { until, content });
            let life = lives.get(part).copied().unwrap_or_default();
            book.keep_returns_until(now.micros.saturating_add(life));
            parts |= 1 << part;
        }
    }
    parts
}
