//! Counts the processes that share a store.
//!
//! Each process keeps one entry in a sliding log in the store. Every few seconds it adds a new entry and gives the
//! previous one back. The entry of a crashed process expires with the window. The number of units in the log is the
//! number of processes; only the store's clock matters. A process that is between the two steps counts twice, never
//! zero times.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use sluicegate_core::for_stores::Driver;
use sluicegate_core::{
    Decision, Error, Limit, LimitName, LogTier, OpenOptions, OpenedLimit, Operation, Policy,
    Request, Span, Store, Timestamp,
};

use super::super::options::FallsBack;

/// Lifetime of an entry in intervals.
const LIFE: u64 = 3;
/// The number of recent counts that are kept. The largest one is in force. They cover the lifetime of an entry and one
/// interval more. After an outage of the store, entries of processes that haven't reconnected yet are missing.
const MEMORY: usize = 4;
/// Maximum count: the limit of a log.
const MOST: u64 = 65_536;
/// The key for the entries of all processes.
const KEY: &[u8] = b"all";

/// Counts processes, including this one.
pub(super) struct Census<L> {
    opened: L,
    interval: Span,
    state: Mutex<State>,
    /// Whether a task renews the entry.
    is_kept: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// When this process made its entry, by the clock of the store.
    entry: Option<Timestamp>,
    counts: [Option<u64>; MEMORY],
}

impl<L: OpenedLimit> Census<L> {
    /// Makes a process count in a store. It takes two calls in every `interval`.
    pub(super) fn new<S: Store<Opened = L>>(store: &S, interval: Span) -> Option<Self> {
        let window = Span::from_micros(interval.as_micros().saturating_mul(LIFE)).ok()?;
        let tier = LogTier { limit: MOST, window: window.into() };
        let policy = Policy::sliding_log([tier]).ok()?;
        let name: LimitName = "sluicegate:processes".parse().ok()?;
        let limit = Limit::new(name, vec![policy]).ok()?;
        let opened = store.open(limit, OpenOptions::default().layer(FallsBack(false)));
        let (state, is_kept) = (Mutex::default(), AtomicBool::new(false));
        Some(Self { opened, interval, state, is_kept })
    }

    /// Returns the number of processes as far as it is known; `None` if the store has never answered.
    pub(super) fn count(&self) -> Option<NonZeroU16> {
        let most = self.state().counts.into_iter().max().flatten()?;
        // At least this process; at most the largest number that fits.
        Some(u16::try_from(most).ok().and_then(NonZeroU16::new).unwrap_or(if most == 0 {
            NonZeroU16::MIN
        } else {
            NonZeroU16::MAX
        }))
    }

    /// Renews the entry of this process, and counts.
    ///
    /// # Errors
    /// Returns the store's error; the count is then unchanged.
    pub(super) async fn renew(&self) -> Result<(), Error> {
        let made = self.opened.ask(Request::check(KEY)).wait().await?;
        let mut count = total(&made);
        // A full log has no entry of this process.
        let earlier = made.taken_at().and_then(|at| self.state().entry.replace(at));
        if let Some(taken_at) = earlier {
            let operation = Operation::GiveBack { taken_at };
            // If that fails, the entry counts until it expires.
            if let Ok(decision) = self.opened.ask(Request::new(operation, KEY)).wait().await {
                count = total(&decision);
            }
        }
        let counts = &mut self.state().counts;
        counts.rotate_right(1);
        counts[0] = Some(count);
        Ok(())
    }

    /// Starts a task that renews the entry until `self` is dropped, unless there already is one.
    pub(super) fn keep(self: &Arc<Self>) {
        if self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = Driver::home() else { return };
        if !self.is_kept.swap(true, Ordering::Relaxed) {
            runtime.spawn(keep(Keeper(Arc::downgrade(self))));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under this lock panics half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that renews the entry. It ends with its runtime, and another one may follow.
struct Keeper<L>(Weak<Census<L>>);

impl<L> Drop for Keeper<L> {
    fn drop(&mut self) {
        if let Some(census) = self.0.upgrade() {
            census.is_kept.store(false, Ordering::Relaxed);
        }
    }
}

async fn keep<L: OpenedLimit>(keeper: Keeper<L>) {
    /// A store that is down is retried sooner, so that an entry outlasts a short outage.
    const SOONER: u64 = 4;
    while let Some(census) = keeper.0.upgrade() {
        let interval = census.interval.as_micros();
        let longest = if census.renew().await.is_ok() { interval } else { interval / SOONER };
        // Random, because processes that renew at the same time would each count all others twice.
        let pause = longest - fastrand::u64(0..=longest / 4);
        drop(census);
        tokio::time::sleep(std::time::Duration::from_micros(pause)).await;
    }
}

fn total(decision: &Decision) -> u64 {
    // A full log got no entry.
    decision.policies().next().and_then(|policy| policy.used()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use sluicegate_core::ManualClock;
    use sluicegate_memory::MemoryStore;

    use super::*;

    struct Fleet {
        clock: Arc<ManualClock>,
        store: MemoryStore,
    }

    fn fleet() -> Fleet {
        let start = Timestamp::from_micros(1_790_000_000_000_000).unwrap();
        let clock = Arc::new(ManualClock::new(start));
        Fleet { store: MemoryStore::builder().clock(clock.clone()).build(), clock }
    }

    impl Fleet {
        fn census(&self) -> Census<sluicegate_memory::MemoryLimit> {
            Census::new(&self.store, seconds(10)).unwrap()
        }

        fn pass(&self, span: Span) {
            self.clock.advance(span.into());
        }
    }

    fn seconds(seconds: u64) -> Span {
        Span::from_millis(seconds * 1_000).unwrap()
    }

    fn renew<L: OpenedLimit>(census: &Census<L>) -> Option<u16> {
        let renewed = std::pin::pin!(census.renew());
        let Poll::Ready(renewed) = renewed.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the embedded store answers at once")
        };
        renewed.unwrap();
        census.count().map(NonZeroU16::get)
    }

    #[test]
    fn every_process_counts_once_for_as_long_as_it_renews_its_entry() {
        let fleet = fleet();
        let processes: Vec<_> = (0..5).map(|_| fleet.census()).collect();
        assert_eq!(processes[0].count(), None, "nobody knows yet");
        for (process, started) in processes.iter().zip(1..) {
            assert_eq!(renew(process), Some(started));
            fleet.pass(seconds(1));
        }
        for _ in 0..20 {
            for process in &processes {
                fleet.pass(seconds(2));
                assert_eq!(renew(process), Some(5));
            }
        }
    }

    #[test]
    fn a_process_that_ends_is_counted_for_thirty_seconds_and_remembered_for_as_long() {
        let fleet = fleet();
        let [stays, ends] = [fleet.census(), fleet.census()];
        assert_eq!((renew(&ends), renew(&stays)), (Some(1), Some(2)));
        let counts: Vec<_> = (0..8)
            .map(|_| {
                fleet.pass(seconds(10));
                renew(&stays).unwrap()
            })
            .collect();
        assert_eq!(counts, [2, 2, 2, 2, 2, 1, 1, 1]);
    }

    #[test]
    fn who_is_not_back_yet_after_an_absence_of_the_store_is_still_counted() {
        let fleet = fleet();
        let processes: Vec<_> = (0..3).map(|_| fleet.census()).collect();
        for _ in 0..5 {
            fleet.pass(seconds(3));
            processes.iter().for_each(|process| assert!(renew(process).is_some()));
        }
        fleet.pass(seconds(3_600));
        assert_eq!(renew(&processes[0]), Some(3), "it is the first to come back");
        fleet.pass(seconds(9));
        assert_eq!(renew(&processes[1]), Some(3));
    }

    #[test]
    fn entries_of_one_microsecond_are_told_apart_by_their_number() {
        let fleet = fleet();
        let processes: Vec<_> = (0..4).map(|_| fleet.census()).collect();
        for _ in 0..3 {
            processes.iter().for_each(|process| assert!(renew(process).is_some()));
        }
        assert_eq!(renew(&processes[0]), Some(4));
    }
}
