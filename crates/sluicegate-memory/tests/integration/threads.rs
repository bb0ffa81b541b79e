//! Many threads at the same time: exact counts, and nothing is lost while shards grow.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use sluicegate_core::{Limit, ManualClock, OpenOptions, Request, Store, Timestamp};
use sluicegate_memory::{MemoryLimit, MemoryStore};

const THREADS: usize = 4;

fn set_up(specs: &[&str]) -> (MemoryStore, MemoryLimit) {
    let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000).unwrap());
    let store = MemoryStore::builder().clock(clock).build();
    let handle = store.open(Limit::new("x", specs).unwrap(), OpenOptions::default());
    (store, handle)
}

fn on_threads(work: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(thread);
            });
        }
    });
}

#[test]
fn exactly_the_limit_is_admitted() {
    let several = [
        "fixed_window 700/h",
        "sliding_log 800/h",
        "token_bucket 1/h burst 900",
        "sliding_counter 999/h",
    ];
    for (specs, most) in [(&["token_bucket 1/h burst 1000"][..], 1_000), (&several, 700)] {
        let (_store, handle) = set_up(specs);
        let admitted = [const { AtomicUsize::new(0) }; 3];
        on_threads(|_| {
            for round in 0..3_000 {
                let key = round % 3;
                let request = Request::check(std::slice::from_ref(&b"abc"[key]));
                if handle.decide(request).unwrap().is_allowed() {
                    admitted[key].fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(admitted.map(AtomicUsize::into_inner), [most; 3], "{specs:?}");
    }
}

#[test]
fn limits_that_share_policies_in_another_order_do_not_deadlock() {
    let (store, one) = set_up(&["gcra 1/h burst 600 as a", "fixed_window 600/h as b"]);
    let other = store.open(
        Limit::new("x", ["fixed_window 600/h as b", "gcra 1/h burst 600 as a"]).unwrap(),
        OpenOptions::default(),
    );
    let admitted = AtomicUsize::new(0);
    on_threads(|thread| {
        let handle = if thread % 2 == 0 { &one } else { &other };
        for _ in 0..2_000 {
            if handle.decide(Request::check(b"a")).unwrap().is_allowed() {
                admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(admitted.into_inner(), 600);
}

#[test]
fn growing_loses_no_state() {
    let (store, handle) = set_up(&["token_bucket 1/h burst 3"]);
    const KEYS: usize = 20_000;
    let admitted = AtomicUsize::new(0);
    on_threads(|thread| {
        for round in 0..2 * KEYS {
            // Each thread checks every key twice, starting at its own position.
            let key = (round + thread * 4_999) % KEYS;
            if handle.decide(Request::check(&key.to_le_bytes())).unwrap().is_allowed() {
                admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(admitted.into_inner(), 3 * KEYS);
    assert_eq!(store.stats().keys, KEYS);
    assert_eq!(store.stats().evicted_live, 0);
}

#[test]
fn the_cap_holds_against_all_threads() {
    let clock = ManualClock::new(Timestamp::from_micros(1_700_000_000_000_000).unwrap());
    let store = MemoryStore::builder().clock(clock).max_keys(2_000.try_into().unwrap()).build();
    let handle = store
        .open(Limit::new("x", ["gcra 1/h", "sliding_log 5/h"]).unwrap(), OpenOptions::default());
    on_threads(|thread| {
        for key in 0..5_000_usize {
            let key = [thread.to_le_bytes(), key.to_le_bytes()].concat();
            let _ = handle.decide(Request::check(&key)).unwrap();
            assert!(store.stats().keys <= 2_000);
        }
    });
    assert!(store.stats().keys > 1_900);
}
