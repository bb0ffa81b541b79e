//! Where the state of a policy is, or would be.

use sluicegate_core::kernel::{Rule, Times, counter, log, warm_up, window};
use sluicegate_core::packed::State;
use sluicegate_core::{Standing, StoreError};

use crate::cell::{BucketCell, Cell, LogCell, SmallCell};
use crate::fingerprint::Fingerprint;
use crate::handle::{Seat, SeatOf};
use crate::lock::Guard;
use crate::registry::{Full, Registry};
use crate::shard::Shard;

/// Which logs are copied rather than changed where they are.
#[derive(Clone, Copy)]
pub(crate) enum Copies {
    All,
    /// Those that are brought to another time before anything is judged: a peek must not keep
    /// that, nor a request that fails.
    Restamped,
}

/// Where a policy's state is, or would be, in its locked shard.
pub(crate) enum Place<'h> {
    Bucket(PlaceOf<'h, BucketCell>),
    Counter(PlaceOf<'h, counter::State>),
    /// A log is changed where it is, unless it may turn out that it must not be: then a copy is.
    Log(PlaceOf<'h, LogCell>, Option<log::State>),
    WarmUp(PlaceOf<'h, warm_up::State>),
    Window(PlaceOf<'h, window::State>),
}

pub(crate) struct PlaceOf<'h, C: Cell> {
    seat: &'h SeatOf<C>,
    fingerprint: Fingerprint,
    shard: Guard<'h, Shard<C>>,
    found: Option<usize>,
}

impl<'h> Place<'h> {
    pub(crate) fn lock(seat: &'h Seat, fingerprint: Fingerprint) -> Self {
        match seat {
            Seat::Bucket(seat) => Self::Bucket(PlaceOf::lock(seat, fingerprint)),
            Seat::Counter(seat) => Self::Counter(PlaceOf::lock(seat, fingerprint)),
            Seat::Log(seat) => Self::Log(PlaceOf::lock(seat, fingerprint), None),
            Seat::WarmUp(seat) => Self::WarmUp(PlaceOf::lock(seat, fingerprint)),
            Seat::Window(seat) => Self::Window(PlaceOf::lock(seat, fingerprint)),
        }
    }

    pub(crate) fn is_found(&self) -> bool {
        match self {
            Self::Bucket(place) => place.found.is_some(),
            Self::Counter(place) => place.found.is_some(),
            Self::Log(place, _) => place.found.is_some(),
            Self::WarmUp(place) => place.found.is_some(),
            Self::Window(place) => place.found.is_some(),
        }
    }

    /// The state that is kept of a policy that can be reserved.
    pub(crate) fn kept(&self) -> Option<State> {
        match self {
            Self::Bucket(place) => place.kept(),
            Self::WarmUp(place) => place.kept(),
            Self::Counter(_) | Self::Log(..) | Self::Window(_) => None,
        }
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
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
    pub(crate) fn put_back(&mut self, state: Option<&State>) {
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
    pub(crate) fn copy_log(&mut self, copies: Copies, times: Times) {
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

    pub(crate) fn stand(
        &mut self,
        rule: &Rule,
        times: Times,
    ) -> Result<(Standing<'_>, bool), StoreError> {
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
    pub(crate) fn keep(&mut self, state: Option<&State>, now: u64) -> bool {
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

    pub(crate) fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        match self {
            Self::Bucket(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::Counter(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::Log(place, _) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::WarmUp(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
            Self::Window(place) => registry.make_room(&place.seat.table, &mut place.shard, now),
        }
    }

    pub(crate) fn forget(&mut self) {
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
    pub(crate) fn lock(seat: &'h SeatOf<C>, fingerprint: Fingerprint) -> Self {
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

    pub(crate) fn forget(&mut self) {
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
    pub(crate) fn kept(&self) -> Option<State> {
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
    pub(crate) fn log(&self) -> Option<&log::State> {
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
