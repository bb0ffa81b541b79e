//! A clock that steps while several threads decide by it.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use sluicegate_core::{
    Clock, Limit, ManualClock, OpenOptions, Request, Span, Store as _, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

const START: u64 = 1_700_000_000_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

fn open(store: &MemoryStore, specs: &[&str]) -> MemoryLimit {
    store.open(Limit::new("x", specs).unwrap(), OpenOptions::default())
}

/// Limits that admit 10 at one instant.
const TENS: [&[&str]; 4] = [
    &["token_bucket 1/s burst 10"],
    &["fixed_window 10/10s aligned"],
    &["sliding_log 10/10s"],
    &["token_bucket 1/s burst 10", "sliding_counter 99/10s", "gcra 9/s burst 99"],
];

/// A clock that, once armed, is set back by an hour directly after it is read. Another thread then
/// decides before the reader, if it can.
struct SetBackAfterReading {
    clock: ManualClock,
    is_armed: AtomicBool,
    limit: OnceLock<Arc<MemoryLimit>>,
}

impl Clock for SetBackAfterReading {
    fn now(&self) -> Timestamp {
        let read = self.clock.now();
        if self.is_armed.swap(false, Ordering::AcqRel) {
            self.clock.set(at(read.as_micros() - Span::HOUR.as_micros()));
            let limit = Arc::clone(self.limit.get().unwrap());
            let other = thread::spawn(move || drop(limit.decide(Request::check(b"a"))));
            // It either decides or waits for the reader's locks.
            for _ in 0..5_000 {
                if other.is_finished() {
                    break;
                }
                thread::yield_now();
            }
        }
        read
    }
}

#[test]
fn a_reading_from_before_the_clock_was_set_back_is_no_hour_that_has_passed() {
    for specs in TENS {
        let clock = Arc::new(SetBackAfterReading {
            clock: ManualClock::new(at(START)),
            is_armed: AtomicBool::new(false),
            limit: OnceLock::new(),
        });
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let limit = Arc::new(open(&store, specs));
        assert!(clock.limit.set(Arc::clone(&limit)).is_ok());
        let is_allowed = || limit.decide(Request::check(b"a")).unwrap().is_allowed();
        assert_eq!((0..20).filter(|_| is_allowed()).count(), 10, "{specs:?}");
        clock.is_armed.store(true, Ordering::Release);
        assert_eq!([is_allowed(), is_allowed()], [false; 2], "{specs:?}");
    }
}

/// A step back and forth of less than 5 s admits nothing. A larger step admits at most the rate for
/// its duration.
#[test]
fn threads_that_read_a_clock_that_steps_to_and_fro_admit_no_more() {
    const THREADS: usize = 4;
    let slow: [&[&str]; 4] = [
        &["token_bucket 1/30d burst 500"],
        &["fixed_window 500/30d"],
        &["sliding_log 500/30d"],
        &["gcra 1/30d burst 500", "sliding_counter 900/30d", "sliding_window 900/30d slices 30"],
    ];
    for specs in slow {
        let clock = Arc::new(ManualClock::new(at(START)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let limit = open(&store, specs);
        let admitted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (clock, limit, admitted) = (&clock, &limit, &admitted);
                scope.spawn(move || {
                    for round in 0..1_000_usize {
                        let back = [0, 4_000_000, 3_600_000_000, 6_000_000][round % 4];
                        if thread == 0 && round % 10 < 4 {
                            clock.set(at(START - back));
                        }
                        let answer = limit.decide(Request::check(b"a")).unwrap();
                        admitted.fetch_add(usize::from(answer.is_allowed()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 500, "{specs:?}");
    }
}
