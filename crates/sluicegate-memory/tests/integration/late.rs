//! A request with an old clock reading isn't mistaken for a clock that stepped back.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Clock, Limit, ManualClock, OpenOptions, Operation, Request, Span, Store, TimeSource, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

const START: u64 = 1_700_000_000_000_000;

fn open(store: &MemoryStore, specs: &[&str], time: TimeSource) -> MemoryLimit {
    store.open(Limit::new("x", specs).unwrap(), OpenOptions::default().time(time))
}

/// Limits that admit 10 at one instant, and 10 more 10 s later.
const TENS: [&[&str]; 5] = [
    &["token_bucket 1/s burst 10"],
    &["fixed_window 10/10s"],
    &["sliding_log 10/10s"],
    &["sliding_window 10/10s slices 10"],
    &["token_bucket 1/s burst 10", "sliding_log 10/10s", "gcra 9/s burst 99"],
];

#[test]
fn a_batch_that_takes_long_gives_no_time_to_a_key_twice() {
    for specs in TENS {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START).unwrap()));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let limit = open(&store, specs, TimeSource::Store);
        let drain = || {
            let ask = |_: &_| limit.decide(Request::check(b"a")).unwrap().is_allowed();
            (0..20).filter(ask).count()
        };
        let mut admitted = 0;
        let requests = [b"b", b"a"].into_iter().inspect(|key| {
            if *key == b"a" {
                // Others are served while the batch waits for its next request.
                clock.advance(Duration::from_secs(10));
                admitted += drain();
            }
        });
        limit.decide_many(requests.map(|key| Request::check(key)), |index, decision| {
            let decision = decision.unwrap();
            assert_eq!(decision.is_allowed(), index == 0, "{specs:?}");
            assert!(!decision.warnings().restamped, "{specs:?}");
        });
        admitted += drain();
        assert_eq!(admitted, 10, "{specs:?} at one instant");
    }
}

#[test]
fn a_late_request_is_judged_by_the_present() {
    for specs in TENS {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START).unwrap()));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let limit = open(&store, specs, TimeSource::Store);
        let before = store.now();
        clock.advance(Duration::from_secs(60));
        for _ in 0..10 {
            let request = Request::check(b"a");
            assert!(limit.decide(request).unwrap().is_allowed(), "{specs:?}");
        }
        clock.advance(Duration::from_secs(10));
        let late = limit.decide_at(Request::check(b"a"), before).unwrap();
        assert!(late.is_allowed(), "{specs:?}");
    }
}

/// A clock that shows a later time at each reading.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros_clamped(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn a_clock_that_stepped_back_and_goes_on_restamps_a_key_once() {
    for specs in TENS {
        let clock = Arc::new(Ticking(AtomicU64::new(START)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let limit = open(&store, specs, TimeSource::Store);
        let ask = || limit.decide(Request::check(b"a")).unwrap().warnings().restamped;
        assert!(!ask());
        clock.0.fetch_sub(Span::MINUTE.as_micros(), Ordering::Relaxed);
        assert_eq!([ask(), ask()], [true, false], "{specs:?}");
    }
}

/// A clock that shows an old time once, as a thread sees it that is suspended before it takes a
/// lock.
struct Suspending(ManualClock, AtomicU64);

impl Clock for Suspending {
    fn now(&self) -> Timestamp {
        match self.1.swap(0, Ordering::Relaxed) {
            0 => self.0.now(),
            micros => Timestamp::from_micros_clamped(micros),
        }
    }
}

#[test]
fn a_thread_that_was_suspended_reserves_and_reads_by_the_present() {
    let present = Timestamp::from_micros(START).unwrap();
    let clock = Arc::new(Suspending(ManualClock::new(present), AtomicU64::new(0)));
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let suspend = || clock.1.store(START - Span::MINUTE.as_micros(), Ordering::Relaxed);
    let ring = open(&store, &["sliding_window 10/10s slices 10"], TimeSource::Store);
    assert!(ring.decide(Request::check(b"a")).unwrap().is_allowed());
    suspend();
    let slices = ring.decide(Request::slices(b"a")).unwrap();
    let slices = slices.slices().unwrap();
    assert_eq!((slices.at(), slices.iter().collect()), (present, vec![(present, 1)]));

    let bucket = open(&store, &["token_bucket 1/s burst 1"], TimeSource::Store);
    assert!(bucket.decide(Request::check(b"a")).unwrap().is_allowed());
    suspend();
    let reserve = Operation::Reserve { within: Span::ZERO };
    let reserved = bucket.decide(Request::new(reserve, b"a")).unwrap();
    assert!(reserved.is_denied() && !reserved.warnings().restamped);
}

#[test]
fn injected_time_may_go_back_as_far_as_it_likes() {
    let store = MemoryStore::new();
    let run = TimeSource::Injected { run: "one".to_owned() };
    let limit = open(&store, &["token_bucket 1/s burst 1"], run);
    let at = |micros| Request::check(b"a").at(Timestamp::from_micros(micros).unwrap());
    assert!(limit.decide(at(60_000_000)).unwrap().is_allowed());
    let back = limit.decide(at(0)).unwrap();
    assert!(back.is_denied() && !back.warnings().restamped);
}
