//! Pauses in the scripts: every fast path gives way to them.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::time::Duration;

use sluicegate_conformance::reference::Clock;
use sluicegate_core::for_stores::Pause;
use sluicegate_core::record::{Entry, Record};
use sluicegate_core::{
    Costs, Decision, Hold, HoldId, Idempotency, Operation, Policy, PolicyName, Request, RequestId,
    Span,
};

use crate::scripted::Scripted;

const START: u64 = 1_700_000_000_000_000;
const SECOND: u64 = 1_000_000;

fn scripted(specs: &[&str]) -> Scripted {
    let policies: Vec<Policy> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
    Scripted::new(policies, Clock::Own { max_clock_back_us: 5 * SECOND })
}

fn span(micros: u64) -> Span {
    Span::from_micros(micros).unwrap()
}

fn pause(scripted: &mut Scripted, at: u64, micros: u64, policy: Option<u8>) -> Decision {
    let pause = Operation::Pause { lasts: span(micros), policy };
    scripted.decide(START + at, b"acme", pause, Costs::Own).unwrap()
}

fn resume(scripted: &mut Scripted, at: u64, policy: Option<u8>) -> Option<bool> {
    let resume = Operation::Resume { policy };
    scripted.decide(START + at, b"acme", resume, Costs::Own).unwrap().forgotten()
}

/// Limits whose checks take a fast path each.
const PATHS: [&[&str]; 8] = [
    &["gcra 1/s burst 99"],
    &["smooth 9/s burst 9s start full"],
    &["fixed_window 99/h"],
    &["sliding_counter 99/h"],
    &["sliding_log 99/h"],
    &["sliding_window 99/h slices 60"],
    &["gcra 1/s burst 99", "fixed_window 99/h", "sliding_log 99/d"],
    &["warmup 99/s over 10s"],
];

#[test]
fn every_fast_path_of_checks_gives_way_to_a_pause() {
    for specs in PATHS {
        for (policy, has_state) in [(None, true), (None, false), (Some(0), true)] {
            let mut scripted = scripted(specs);
            let check = |scripted: &mut Scripted, at| {
                scripted.decide(START + at, b"acme", Operation::Check, Costs::Own).unwrap()
            };
            if has_state {
                assert!(check(&mut scripted, 0).is_allowed(), "{specs:?}");
            }
            assert!(pause(&mut scripted, SECOND, 10 * SECOND, policy).is_allowed(), "{specs:?}");
            let before = scripted.stored();
            for operation in [Operation::Check, Operation::Peek, Operation::Take] {
                let at = START + 2 * SECOND;
                let denied = scripted.decide(at, b"acme", operation, Costs::Own).unwrap();
                let paused =
                    denied.pause().map(|it| (it.policy, Span::from(it.ends_in).as_micros()));
                let expected = Some((policy.map(usize::from), 9 * SECOND));
                assert_eq!((denied.is_denied(), paused), (true, expected), "{specs:?}");
            }
            assert_eq!(before, scripted.stored(), "{specs:?}");
            assert!(check(&mut scripted, 11 * SECOND - 1).is_denied(), "{specs:?}");
            assert!(check(&mut scripted, 11 * SECOND).is_allowed(), "{specs:?}");
            // That check has removed the pause, so the next one takes a fast path again.
            let value = scripted.stored().remove(&scripted.keys(b"acme")[0]).unwrap().value;
            let is_pause = |entry: &Entry<'_>| entry.kind == Pause::KIND;
            assert!(!Record::decode(&value).entries().iter().any(is_pause), "{specs:?}");
        }
    }
}

#[test]
fn holds_ids_and_permits_give_way_to_a_pause_and_settlements_do_not() {
    for specs in [["gcra 1/s burst 99"], ["concurrency 9 hold 1min"]] {
        let mut scripted = scripted(&specs);
        let hold =
            |byte| Hold { id: HoldId::from_bytes([byte; 16]), lasts: Duration::from_secs(60) };
        let (held, other) = (hold(1), hold(2));
        let first = scripted.ask(START, &Request::check(b"acme").hold(&held)).unwrap();
        assert!(first.is_allowed(), "{specs:?}");
        let _ = pause(&mut scripted, 1, 10 * SECOND, None);
        let denied = scripted.ask(START + 2, &Request::check(b"acme").hold(&other)).unwrap();
        assert!(denied.pause().is_some() && denied.hold().is_none(), "{specs:?}");
        let renew = Request::renew(b"acme", held.id, Span::MINUTE);
        assert!(scripted.ask(START + 3, &renew).unwrap().is_allowed(), "{specs:?}");
        let settle = Request::settle(b"acme", held.id, &[Some(0)]);
        let settled = scripted.ask(START + 4, &settle).unwrap();
        assert!(settled.is_allowed(), "{specs:?}");
        assert_eq!(settled.policy(0).unwrap().given_back(), Some(1), "{specs:?}");
        let denied = scripted.ask(START + 5, &Request::check(b"acme").hold(&other)).unwrap();
        assert!(denied.pause().is_some(), "{specs:?}: it is still paused");
        assert_eq!(resume(&mut scripted, 6, None), Some(true));
        let allowed = scripted.ask(START + 7, &Request::check(b"acme").hold(&other)).unwrap();
        assert!(allowed.is_allowed(), "{specs:?}");
    }
    let mut scripted = scripted(&["gcra 1/s burst 99"]);
    let once = |byte| Idempotency {
        id: RequestId::from_bytes([byte; 16]),
        lasts: Duration::from_secs(60),
    };
    let check = |byte| Request::check(b"acme").idempotent(once(byte));
    assert!(scripted.ask(START, &check(1)).unwrap().is_allowed());
    let _ = pause(&mut scripted, 1, 10 * SECOND, None);
    assert!(scripted.ask(START + 2, &check(2)).unwrap().pause().is_some());
    assert!(scripted.ask(START + 3, &check(1)).unwrap().is_repeat());
}

#[test]
fn charges_and_refunds_of_a_paused_subject_are_answered_and_a_reset_forgets_the_pause() {
    let mut scripted = scripted(&["fixed_window 9/h"]);
    let _ = pause(&mut scripted, 0, 10 * SECOND, None);
    for (operation, left) in [(Operation::Charge, 8), (Operation::Refund, 9)] {
        let answer = scripted.decide(START + 1, b"acme", operation, Costs::Own).unwrap();
        assert_eq!((answer.is_allowed(), answer.remaining()), (true, Some(left)), "{operation:?}");
    }
    let check = |scripted: &mut Scripted| {
        scripted.decide(START + 2, b"acme", Operation::Check, Costs::Own).unwrap()
    };
    assert!(check(&mut scripted).is_denied());
    let reset = scripted.decide(START + 2, b"acme", Operation::Reset, Costs::Own).unwrap();
    assert_eq!(reset.forgotten(), Some(true));
    assert!(check(&mut scripted).is_allowed());
}

#[test]
fn a_pause_of_one_policy_leaves_requests_that_cost_it_nothing() {
    let mut scripted = scripted(&["gcra 1/s burst 9 as requests", "fixed_window 9/h as tokens"]);
    let _ = pause(&mut scripted, 0, 10 * SECOND, Some(1));
    let mut check = |costs: &[u64]| {
        scripted.decide(START + 1, b"acme", Operation::Check, Costs::Each(costs)).unwrap()
    };
    assert!(check(&[1, 0]).is_allowed());
    let denied = check(&[1, 1]);
    assert_eq!(denied.paused_policy().map(PolicyName::as_str), Some("tokens"));
    assert_eq!(resume(&mut scripted, 2, Some(0)), Some(false));
    assert_eq!(resume(&mut scripted, 3, Some(1)), Some(true));
}

#[test]
fn an_ended_pause_leaves_the_value_with_the_next_charge() {
    let mut scripted = scripted(&["gcra 1/s burst 9"]);
    let key = scripted.keys(b"acme").remove(0);
    let length = |scripted: &Scripted| scripted.stored()[&key].value.len();
    let _ = pause(&mut scripted, 0, SECOND, None);
    assert_eq!(length(&scripted), 22);
    let charge = |scripted: &mut Scripted, at| {
        scripted.decide(START + at, b"acme", Operation::Charge, Costs::Own).unwrap()
    };
    let _ = charge(&mut scripted, 1);
    assert_eq!(length(&scripted), 49);
    let _ = charge(&mut scripted, SECOND);
    assert_eq!(length(&scripted), 27);
}
