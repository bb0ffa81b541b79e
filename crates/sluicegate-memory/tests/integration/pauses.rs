//! Pauses: every path and every handle heeds them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Decision, Hold, HoldId, Limit, ManualClock, OpenOptions, Operation, Request, Store, Timestamp,
};
use sluicegate_memory::{MemoryLimit, MemoryStore};

const START: u64 = 1_700_000_000_000_000;

fn store() -> (Arc<ManualClock>, MemoryStore) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(START).unwrap()));
    (clock.clone(), MemoryStore::builder().clock(clock).build())
}

fn open(store: &MemoryStore, specs: &[&str]) -> MemoryLimit {
    store.open(Limit::new("l", specs).unwrap(), OpenOptions::default())
}

fn ask(opened: &MemoryLimit, operation: Operation<'_>, key: &[u8]) -> Decision {
    opened.decide(Request::new(operation, key)).unwrap()
}

fn pause(opened: &MemoryLimit, lasts: Duration) -> Decision {
    ask(opened, Operation::Pause { lasts: lasts.into(), policy: None }, b"acme")
}

#[test]
fn every_handle_and_every_path_heeds_a_pause_until_it_ends() {
    let second = Duration::from_secs(1);
    for specs in
        [&["gcra 9/s burst 9"][..], &["fixed_window 9/h"], &["gcra 9/s", "fixed_window 9/h"]]
    {
        let (clock, store) = store();
        let (one, other) = (open(&store, specs), open(&store, specs));
        assert!(ask(&other, Operation::Check, b"beta").is_allowed(), "{specs:?}");
        assert!(pause(&one, second).is_allowed(), "{specs:?}");
        for opened in [&one, &other, &open(&store, specs)] {
            for operation in [Operation::Check, Operation::Peek, Operation::Take] {
                let denied = ask(opened, operation, b"acme");
                let ends_in = denied.pause().map(|pause| pause.ends_in);
                assert_eq!((denied.is_denied(), ends_in), (true, Some(second)), "{specs:?}");
            }
            let mut allowed = Vec::new();
            let requests = [b"acme", b"beta"].map(|key| Request::check(key));
            opened.decide_many(requests, |_, answer| allowed.push(answer.unwrap().is_allowed()));
            assert_eq!(allowed, [false, true], "{specs:?}");
            assert!(ask(opened, Operation::Charge, b"acme").is_allowed(), "{specs:?}");
            assert!(ask(opened, Operation::Refund, b"acme").is_allowed(), "{specs:?}");
        }
        clock.advance(second);
        assert!(ask(&other, Operation::Check, b"acme").is_allowed(), "{specs:?}");
    }
}

#[test]
fn a_resume_and_a_reset_end_a_pause() {
    let (_, store) = store();
    let opened = open(&store, &["gcra 9/s burst 9"]);
    for (operation, forgotten) in
        [(Operation::Resume { policy: None }, true), (Operation::Reset, true)]
    {
        let _ = pause(&opened, Duration::from_secs(60));
        assert!(ask(&opened, Operation::Check, b"acme").is_denied());
        assert_eq!(ask(&opened, operation, b"acme").forgotten(), Some(forgotten));
        assert!(ask(&opened, Operation::Check, b"acme").is_allowed());
    }
    assert_eq!(ask(&opened, Operation::Resume { policy: None }, b"acme").forgotten(), Some(false));
}

#[test]
fn permits_of_a_paused_key_are_refused_and_released() {
    let (clock, store) = store();
    let opened = open(&store, &["concurrency 9 hold 1min"]);
    let hold = |byte| Hold { id: HoldId::from_bytes([byte; 16]), lasts: Duration::from_secs(60) };
    let (first, second) = (hold(1), hold(2));
    let take = |hold| opened.decide(Request::check(b"acme").hold(hold)).unwrap();
    assert!(take(&first).is_allowed());
    let _ = pause(&opened, Duration::from_secs(1));
    assert!(take(&second).pause().is_some());
    let release = Request::settle(b"acme", first.id, &[]);
    assert!(opened.decide(release).unwrap().is_allowed());
    assert!(take(&second).pause().is_some());
    clock.advance(Duration::from_secs(1));
    assert!(take(&second).is_allowed());
}

#[test]
fn a_clock_that_steps_back_leaves_no_pause_longer_than_it_was() {
    let (clock, store) = store();
    let opened = open(&store, &["gcra 9/s burst 9"]);
    let _ = pause(&opened, Duration::from_secs(60));
    clock.set(Timestamp::from_micros(START - 86_400_000_000).unwrap());
    let denied = ask(&opened, Operation::Check, b"acme");
    assert_eq!(denied.pause().map(|pause| pause.ends_in), Some(Duration::from_secs(60)));
    clock.advance(Duration::from_secs(60));
    assert!(ask(&opened, Operation::Check, b"acme").is_allowed());
}
