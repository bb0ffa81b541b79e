//! The recorder: the newest decisions in memory, for simulations.

mod arg;
mod ring;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::available_parallelism;

use sluicegate::admin::{Answered, Observer};
use sluicegate::config::RecorderSize;
use sluicegate::policy::LimitName;
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate_core::Cost;

use super::key_form::KeyForm;
use super::row::{Row, RowCost, Seen};
use ring::{Copied, Record, Ring};

pub(crate) use arg::RecorderArg;
pub(crate) use ring::{Flags, RecordedCost};

/// Records checks, takes, reservations and waits: time, limit, key, cost and result.
///
/// Each thread has a ring of its own, so threads don't wait for each other. A reader holds the lock of a ring while it
/// copies the ring's memory. Once a ring is full, a decision allocates nothing.
#[derive(Debug)]
pub(crate) struct Recorder {
    rings: Box<[Mutex<Ring>]>,
    names: RwLock<Names>,
    /// Rows that no ring could take.
    left_out: AtomicU64,
    /// Time of the start, in µs since the epoch.
    started: u64,
}

/// The names of limits by number. Names are never forgotten, because records have their numbers.
#[derive(Debug, Default)]
struct Names {
    numbers: HashMap<LimitName, u32>,
    names: Vec<LimitName>,
}

/// The records at one moment.
#[derive(Debug)]
pub(crate) struct Recorded {
    rings: Vec<Copied>,
    names: Vec<LimitName>,
    /// Every decision after this time is here; `None` if that is true of all decisions.
    pub(crate) complete_after: Option<u64>,
    /// Rows that no ring could take.
    pub(crate) left_out: u64,
}

/// A recorded decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct RecordedDecision<'r> {
    /// Time of the decision, in µs since the epoch.
    pub(crate) time: u64,
    pub(crate) limit: &'r LimitName,
    pub(crate) key: &'r [u8],
    pub(crate) cost: RecordedCost,
    pub(crate) flags: Flags,
}

thread_local! {
    /// The number of this thread, which chooses its ring.
    static THREAD: Cell<Option<usize>> = const { Cell::new(None) };
    /// The memory in which a thread writes the beginning of long keys.
    static LONG_KEY: RefCell<String> = const { RefCell::new(String::new()) };
}

impl Recorder {
    /// Maximum number of rings.
    const MOST_RINGS: usize = 16;
    /// Minimum size of a ring, so that few records are refused.
    const LEAST_RING: usize = 32 << 10;
    /// Maximum number of limits whose decisions are recorded.
    const MOST_NAMES: usize = 65_536;

    /// Makes a recorder; `None` if it is off.
    pub(crate) fn new(size: RecorderSize) -> Option<Self> {
        let bytes = NonZeroUsize::new(size.bytes())?.get();
        let threads = available_parallelism().map_or(1, NonZeroUsize::get);
        let most = (bytes / Self::LEAST_RING).max(1);
        let rings = threads.min(Self::MOST_RINGS).min(most);
        let ring = |_| Mutex::new(Ring::new(bytes / rings));
        Some(Self {
            rings: (0..rings).map(ring).collect(),
            names: RwLock::default(),
            left_out: AtomicU64::new(0),
            started: SystemClock::new().now().as_micros(),
        })
    }

    /// Returns the time since when it records, in µs since the epoch.
    pub(crate) const fn started(&self) -> u64 {
        self.started
    }

    /// Returns a copy of all records.
    pub(crate) fn copy(&self) -> Recorded {
        // The names last: every record's number has one by then.
        let rings: Vec<_> = self.rings.iter().map(|ring| lock(ring).copy()).collect();
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner).names.clone();
        let complete_after = rings.iter().filter_map(|ring| ring.dropped).max();
        Recorded { rings, names, complete_after, left_out: self.left_out.load(Ordering::Relaxed) }
    }

    fn add(&self, row: &Row<'_>, time: u64) {
        let decision = row.seen.decision;
        let Some(limit) = self.number(row.limit) else { return self.leave_out() };
        let cost = match row.cost() {
            RowCost::None | RowCost::Same(0) => RecordedCost::Own,
            RowCost::Same(units) => Cost::new(units).map_or(RecordedCost::Own, RecordedCost::Same),
            RowCost::Each => RecordedCost::Each,
        };
        let flags = Flags {
            was_denied: decision.is_denied(),
            is_take: row.seen.is_take(),
            is_bypass: row.is_bypass(),
        };
        let add = |key: &[u8]| {
            let record = Record { time, limit, key, cost, flags };
            if !lock(self.ring()).add(&record) {
                self.leave_out();
            }
        };
        if row.key.len() <= KeyForm::MOST_WHOLE {
            return add(row.key);
        }
        LONG_KEY.with_borrow_mut(|long| {
            KeyForm::cut_into(row.key, long);
            add(long.as_bytes());
        });
    }

    fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the ring of this thread.
    fn ring(&self) -> &Mutex<Ring> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        let thread = THREAD.get().unwrap_or_else(|| {
            let thread = THREADS.fetch_add(1, Ordering::Relaxed);
            THREAD.set(Some(thread));
            thread
        });
        &self.rings[thread % self.rings.len()]
    }

    /// Returns the number of a limit's name; `None` if there are too many.
    fn number(&self, limit: &LimitName) -> Option<u32> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = names.numbers.get(limit) {
            return Some(*number);
        }
        drop(names);
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = names.numbers.get(limit) {
            return Some(*number);
        }
        if names.names.len() >= Self::MOST_NAMES {
            return None;
        }
        let number = u32::try_from(names.names.len()).ok()?;
        names.names.push(limit.clone());
        names.numbers.insert(limit.clone(), number);
        Some(number)
    }
}

impl Observer for Recorder {
    fn answered(&self, answered: &Answered<'_>) {
        let Some(seen) = Seen::of(answered).filter(Seen::is_admission) else { return };
        // A repeat was recorded when it was charged.
        if seen.decision.is_repeat() {
            return;
        }
        let time = seen.decision.evaluated_at().unwrap_or_else(|| SystemClock::new().now());
        for row in seen.rows() {
            // Another limit denied it, so other numbers of this limit change nothing.
            if !row.denied_by().any(|limit| limit != row.limit) {
                self.add(&row, time.as_micros());
            }
        }
    }
}

impl Recorded {
    /// Returns the decisions since a time, in µs since the epoch. Their order is that of each thread.
    pub(crate) fn since(&self, time: u64) -> impl Iterator<Item = RecordedDecision<'_>> {
        let after = self.complete_after;
        let is_whole = move |ring: &Copied| ring.dropped == after;
        self.rings.iter().flat_map(move |ring| {
            let is_whole = is_whole(ring);
            ring.records().filter_map(move |record| {
                let Record { time: at, limit, key, cost, flags } = record;
                // Another ring has lost decisions of that time.
                let is_known = is_whole || Some(at) > after;
                let limit = self.names.get(usize::try_from(limit).ok()?)?;
                (at >= time && is_known).then_some(RecordedDecision {
                    time: at,
                    limit,
                    key,
                    cost,
                    flags,
                })
            })
        })
    }
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}
