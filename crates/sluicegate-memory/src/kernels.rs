//! The tables of all kernels: what a new kernel is added to.

use std::sync::Arc;

use sluicegate_core::Cost;
use sluicegate_core::kernel::{Rule, State, counter, warm_up, window};

use crate::cell::{BucketCell, Cell, LogCell, PlainCell};
use crate::fingerprint::Fingerprint;
use crate::place::PlaceOf;
use crate::registry::{Full, Registry};
use crate::seat::SeatOf;
use crate::table::{AnyTable, Table};

type CounterCell = PlainCell<counter::Counter>;
type WarmUpCell = PlainCell<warm_up::WarmUp>;
type WindowCell = PlainCell<window::FixedWindow>;

/// A table of any kernel.
#[derive(Clone)]
pub(crate) enum Kept {
    Bucket(Arc<Table<BucketCell>>),
    Counter(Arc<Table<CounterCell>>),
    Log(Arc<Table<LogCell>>),
    WarmUp(Arc<Table<WarmUpCell>>),
    Window(Arc<Table<WindowCell>>),
}

/// An opened limit's share in the table of one policy.
pub(crate) enum Seat {
    Bucket(SeatOf<BucketCell>),
    Counter(SeatOf<CounterCell>),
    Log(SeatOf<LogCell>),
    WarmUp(SeatOf<WarmUpCell>),
    Window(SeatOf<WindowCell>),
}

/// Where a policy's state is, or would be, in its locked shard.
pub(crate) enum Place<'s> {
    Bucket(PlaceOf<'s, BucketCell>),
    Counter(PlaceOf<'s, CounterCell>),
    Log(PlaceOf<'s, LogCell>),
    WarmUp(PlaceOf<'s, WarmUpCell>),
    Window(PlaceOf<'s, WindowCell>),
}

/// Does the same with a value of whatever kernel.
macro_rules! each {
    ($of:ident, $value:expr, $inner:ident => $body:expr) => {
        match $value {
            $of::Bucket($inner) => $body,
            $of::Counter($inner) => $body,
            $of::Log($inner) => $body,
            $of::WarmUp($inner) => $body,
            $of::Window($inner) => $body,
        }
    };
}

impl Seat {
    /// A seat for a rule at the table that is there, or at a new one.
    pub(crate) fn at(
        rule: &Rule,
        there: Option<Kept>,
        cost: Cost,
        tables: &NewTables<'_>,
    ) -> (Self, Kept) {
        macro_rules! seat {
            ($kernel:ident, $rule:expr) => {{
                let there = if let Some(Kept::$kernel(table)) = there { Some(table) } else { None };
                let seat = SeatOf::at(there, $rule, cost, || tables.make());
                let table = Arc::clone(&seat.table);
                (Self::$kernel(seat), Kept::$kernel(table))
            }};
        }
        match rule {
            Rule::Bucket(rule) => seat!(Bucket, rule),
            Rule::Counter(rule) => seat!(Counter, rule),
            Rule::Log(rule) => seat!(Log, rule),
            Rule::WarmUp(rule) => seat!(WarmUp, rule),
            Rule::Window(rule) => seat!(Window, rule),
        }
    }

    pub(crate) fn table_id(&self) -> u64 {
        each!(Self, self, seat => seat.table.id())
    }

    /// Locks the shard of a fingerprint.
    pub(crate) fn lock(&self, fingerprint: Fingerprint) -> Place<'_> {
        match self {
            Self::Bucket(seat) => Place::Bucket(PlaceOf::lock(seat, fingerprint)),
            Self::Counter(seat) => Place::Counter(PlaceOf::lock(seat, fingerprint)),
            Self::Log(seat) => Place::Log(PlaceOf::lock(seat, fingerprint)),
            Self::WarmUp(seat) => Place::WarmUp(PlaceOf::lock(seat, fingerprint)),
            Self::Window(seat) => Place::Window(PlaceOf::lock(seat, fingerprint)),
        }
    }
}

impl Place<'_> {
    pub(crate) fn is_found(&self) -> bool {
        each!(Self, self, place => place.is_found())
    }

    /// Takes the state that is kept, to be [put](Place::put) back or [kept](Place::keep) anew.
    pub(crate) fn take(&mut self) -> Option<State> {
        match self {
            Self::Bucket(place) => place.take().map(State::Bucket),
            Self::Counter(place) => place.take().map(State::Counter),
            Self::Log(place) => place.take().map(State::Log),
            Self::WarmUp(place) => place.take().map(State::WarmUp),
            Self::Window(place) => place.take().map(State::Window),
        }
    }

    /// Keeps a state, or nothing; gives whether it is one more than before.
    pub(crate) fn keep(&mut self, state: Option<State>, now: u64) -> bool {
        match (self, state) {
            (Self::Bucket(place), Some(State::Bucket(state))) => place.keep(state, now),
            (Self::Counter(place), Some(State::Counter(state))) => place.keep(state, now),
            (Self::Log(place), Some(State::Log(state))) => place.keep(state, now),
            (Self::WarmUp(place), Some(State::WarmUp(state))) => place.keep(state, now),
            (Self::Window(place), Some(State::Window(state))) => place.keep(state, now),
            (place, _) => {
                place.forget();
                false
            }
        }
    }

    /// Puts back what was taken, which did not change. Only what is large was really taken.
    pub(crate) fn put_back(&mut self, state: Option<State>) {
        if let (Self::Log(place), Some(State::Log(state))) = (self, state)
            && place.is_found()
        {
            place.keep(state, 0);
        }
    }

    pub(crate) fn forget(&mut self) {
        each!(Self, self, place => place.forget());
    }

    /// Makes room for one more state in this place's table.
    pub(crate) fn make_room(&mut self, registry: &Registry, now: u64) -> Result<(), Full> {
        each!(Self, self, place => place.make_room(registry, now))
    }
}

impl Kept {
    pub(crate) fn any(&self) -> &dyn AnyTable {
        each!(Self, self, table => &**table)
    }

    /// Whether anything but the ring holds it.
    pub(crate) fn has_seats(&self) -> bool {
        each!(Self, self, table => Arc::strong_count(table) > 1)
    }
}

/// How new tables are made.
pub(crate) struct NewTables<'r> {
    pub(crate) registry: &'r Registry,
    /// How far ahead of now a state may lie; `None` under injected time.
    pub(crate) max_clock_back: Option<u64>,
}

impl NewTables<'_> {
    fn make<C: Cell>(&self) -> Arc<Table<C>> {
        Arc::new(self.registry.table(self.max_clock_back))
    }
}
