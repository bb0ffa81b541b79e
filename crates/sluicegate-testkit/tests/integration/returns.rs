//! Tests of limits that return unsettled holds: the script against the kernels, and its data on a
//! server.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![expect(unused_must_use, reason = "only the final state matters")]

use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_core::for_stores::Book;
use sluicegate_core::{
    Costs, Decision, Hold, HoldFound, HoldId, OnExpiry, Operation, Policy, Request, Span,
};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

/// A midnight.
const START: u64 = 1_699_920_000_000_000;
const SECOND: u64 = 1_000_000;
const CLOCK: Clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };

/// The script and the kernels, whose answers must be equal.
struct Both {
    scripted: Scripted,
    kernels: Kernels,
}

impl Both {
    fn new(specs: &[&str]) -> Self {
        Self::of(specs, CLOCK, OnExpiry::Return)
    }

    fn of(specs: &[&str], clock: Clock, on_expiry: OnExpiry) -> Self {
        let policies: Vec<Policy> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        let scripted = Scripted::new(policies.clone(), clock).with_on_expiry(on_expiry);
        let kernels = Kernels::new(policies, clock).with_on_expiry(on_expiry);
        Self { scripted, kernels }
    }

    /// Returns the answer `after` the start, in µs.
    fn ask(&mut self, after: u64, request: &Request<'_>) -> Decision {
        let got = self.scripted.ask(START + after, request).unwrap();
        let expected = self.kernels.ask(START + after, request).unwrap();
        assert_eq!(got, expected, "{after} µs after the start");
        got
    }

    /// Holds `cost` of each policy for `lasts` µs.
    fn hold(&mut self, after: u64, number: u64, cost: u64, lasts: u64) -> Decision {
        let hold = Hold { id: id(number), lasts: Duration::from_micros(lasts) };
        let costs = vec![cost; self.scripted.limit().members().len()];
        self.ask(after, &Request::check(b"a").costs(Costs::Each(&costs)).hold(&hold))
    }

    fn peek(&mut self, after: u64) -> Vec<u64> {
        remaining(&self.ask(after, &Request::new(Operation::Peek, b"a")))
    }
}

fn id(number: u64) -> HoldId {
    HoldId::from_bytes(u128::from(number).to_be_bytes())
}

fn remaining(decision: &Decision) -> Vec<u64> {
    decision.policies().map(|policy| policy.remaining().unwrap()).collect()
}

#[test]
fn one_request_returns_sixteen_and_the_next_ones_the_others() {
    let mut both =
        Both::new(&["fixed_window 1000/h", "sliding_log 1000/h", "concurrency 500 hold 1min"]);
    for number in 0..40 {
        assert!(both.hold(number, number, 2, SECOND).is_allowed());
    }
    assert_eq!(both.peek(SECOND - 1), [920, 920, 420]);
    // A peek returns no holds. A request that leaves a record doesn't remove holds that have yet to
    // be returned.
    assert_eq!(both.peek(10 * SECOND), [952, 952, 500]);
    assert_eq!(remaining(&both.hold(10 * SECOND, 100, 1, SECOND)), [951, 951, 499]);
    assert_eq!(remaining(&both.hold(10 * SECOND, 101, 1, SECOND)), [982, 982, 498]);
    assert_eq!(remaining(&both.hold(10 * SECOND, 102, 1, SECOND)), [997, 997, 497]);
    assert_eq!(both.peek(60 * SECOND), [1000, 1000, 500]);
}

#[test]
fn a_request_that_restamps_returns_nothing_and_the_next_one_does() {
    let mut both = Both::new(&["fixed_window 1000/h", "sliding_log 1000/h"]);
    for number in 0..40 {
        both.hold(number, number, 2, SECOND);
    }
    assert_eq!(remaining(&both.hold(20 * SECOND, 100, 1, SECOND)), [951, 951]);
    // Stepped back by 15 s, while 5 s are tolerated.
    let restamped = both.hold(5 * SECOND, 101, 1, SECOND);
    assert!(restamped.warnings().restamped);
    assert_eq!(remaining(&restamped), [950, 950]);
    assert_eq!(both.peek(5 * SECOND), [982, 982]);
}

#[test]
fn entries_of_a_log_are_returned_one_after_the_other() {
    let mut both = Both::new(&["sliding_log 100/h"]);
    let take = |both: &mut Both, after| both.ask(after, &Request::check(b"a"));
    // Another request came at the same time as the first one.
    both.hold(0, 1, 3, 10 * SECOND);
    take(&mut both, 0);
    both.hold(SECOND, 2, 5, 10 * SECOND);
    take(&mut both, 2 * SECOND);
    both.hold(3 * SECOND, 3, 7, 10 * SECOND);
    take(&mut both, 4 * SECOND);
    assert_eq!(both.peek(9 * SECOND), [82]);
    assert_eq!(both.peek(20 * SECOND), [97]);
    assert_eq!(remaining(&take(&mut both, 20 * SECOND)), [96]);
    // The entries expire by their original stamps.
    assert_eq!(both.peek(3_600 * SECOND), [97]);
    assert_eq!(both.peek(3_602 * SECOND), [98]);
    assert_eq!(both.peek(3_604 * SECOND), [99]);
}

#[test]
fn a_look_writes_nothing_and_a_denial_writes_what_has_ended() {
    let mut both = Both::new(&["fixed_window 10/h"]);
    both.hold(0, 1, 4, SECOND);
    both.ask(0, &Request::new(Operation::Charge, b"a").costs(Costs::Each(&[6])));
    both.scripted.expire(START + 2 * SECOND);
    let before = both.scripted.stored();
    assert_eq!(both.peek(2 * SECOND), [4]);
    assert_eq!(both.scripted.stored(), before);
    let denied = both.ask(2 * SECOND, &Request::check(b"a").costs(Costs::Each(&[5])));
    assert!(denied.is_denied() && remaining(&denied) == [4]);
    assert_ne!(both.scripted.stored(), before);
    assert!(both.scripted.holds(b"a").is_none());
    assert_eq!(both.peek(2 * SECOND), [4]);
}

#[test]
fn what_is_settled_or_renewed_in_time_is_not_returned() {
    let mut both = Both::new(&["fixed_window 100/h", "sliding_log 100/h"]);
    for number in 1..=3 {
        both.hold(0, number, 10, SECOND);
    }
    both.ask(1, &Request::settle(b"a", id(1), &[Some(7), Some(7)]));
    both.ask(2, &Request::renew(b"a", id(2), Span::MINUTE));
    assert_eq!(both.peek(2 * SECOND), [83, 83]);
    let late = both.ask(2 * SECOND, &Request::settle(b"a", id(3), &[Some(9), Some(9)]));
    assert_eq!(late.hold_found(), Some(HoldFound::Unknown));
    assert_eq!(remaining(&late), [83, 83]);
    assert_eq!(both.peek(60 * SECOND), [83, 83]);
    assert_eq!(both.peek(61 * SECOND), [93, 93]);
}

/// Tests that a bucket counts held units as used until their slot ends, so that all of them come
/// back.
#[test]
fn a_bucket_gets_all_back_that_nobody_used_if_others_ask_soon_enough() {
    let mut both = Both::new(&["token_bucket 60000/min burst 60000"]);
    for number in 0..10 {
        both.hold(0, number, 6_000, 60 * SECOND);
    }
    // Other requests use the units that flow in meanwhile.
    for second in 1..60 {
        both.ask(second * SECOND, &Request::check(b"a").costs(Costs::Each(&[1_000])));
    }
    assert_eq!(both.peek(60 * SECOND - 1), [999]);
    assert_eq!(both.peek(60 * SECOND), [60_000]);
}

#[test]
fn what_is_returned_outlives_its_end_by_as_long_as_that_is_of_use() {
    let mut both = Both::new(&["fixed_window 10/h"]);
    both.hold(0, 1, 4, SECOND);
    let end = 3_600 * SECOND;
    both.scripted.expire(START + end - 1);
    assert_eq!(both.peek(end - 1), [10]);
    both.scripted.expire(START + end + 10_000);
    assert!(both.scripted.stored().is_empty() && both.scripted.holds(b"a").is_none());
}

/// Tests that a record's key can outlive it, when time is injected or the clock steps back.
#[test]
fn what_was_returned_is_not_there_any_more_though_time_steps_back() {
    for spec in ["fixed_window 100/h", "sliding_log 100/h", "token_bucket 60/min burst 100"] {
        for clock in [Clock::Injected, CLOCK] {
            let mut both = Both::of(&[spec], clock, OnExpiry::Return);
            both.scripted.expires = false;
            both.hold(0, 1, 20, SECOND);
            both.hold(0, 2, 20, 60 * SECOND);
            let unknown = Request::settle(b"a", id(99), &[Some(0)]);
            both.ask(1_100_000, &unknown);
            let settled = both.ask(500_000, &Request::settle(b"a", id(1), &[Some(0)]));
            assert_eq!(settled.hold_found(), Some(HoldFound::Unknown), "{spec}");
            assert!(both.hold(500_000, 1, 1, SECOND).hold().is_some());
        }
    }
}

#[test]
fn an_id_that_is_taken_again_takes_nothing_from_what_is_to_be_returned() {
    let mut both = Both::new(&["fixed_window 1000/h", "concurrency 500 hold 1min"]);
    for number in 0..20 {
        both.hold(0, number, 2, SECOND);
    }
    // 16 holds are returned, but not yet this one.
    both.hold(2 * SECOND, 19, 1, SECOND);
    assert_eq!(both.peek(2 * SECOND), [999, 499]);
    assert_eq!(both.peek(10 * SECOND), [1_000, 500]);
}

#[test]
fn however_many_were_settled_what_was_not_is_returned() {
    let mut both = Both::new(&["fixed_window 1000/h"]);
    for number in 0..150 {
        both.hold(0, number, 2, SECOND);
        both.ask(0, &Request::settle(b"a", id(number), &[Some(1)]));
    }
    both.hold(1, 1_000, 5, SECOND);
    assert_eq!(both.peek(3 * SECOND), [850]);
}

/// Tests that the permits of a crashed holder expire, even if the key's states last longer than the
/// set of permits in use.
#[test]
fn permits_of_the_dead_come_back_whatever_keeps_the_key() {
    for on_expiry in [OnExpiry::Keep, OnExpiry::Return] {
        let mut both = Both::of(&["concurrency 10 hold 1min"], CLOCK, on_expiry);
        for number in 0..24 {
            let taken = both.hold(5 * number * SECOND, number, 1, SECOND);
            assert_eq!(remaining(&taken), [9], "{on_expiry} {number}");
        }
        let specs = ["concurrency 100 hold 1min", "fixed_window 1000/s"];
        let mut both = Both::of(&specs, CLOCK, on_expiry);
        for number in 0..Book::ENDED as u64 - 2 {
            both.hold(0, number, 1, SECOND);
        }
        // Denied requests and settlements write the states.
        both.hold(55 * SECOND, 100, 101, SECOND);
        both.hold(58 * SECOND, 101, 1, 2 * SECOND);
        both.ask(59 * SECOND, &Request::settle(b"a", id(101), &[Some(0), Some(0)]));
        assert_eq!(remaining(&both.hold(70 * SECOND, 102, 1, SECOND))[0], 99);
        assert_eq!(remaining(&both.hold(100 * SECOND, 103, 1, SECOND))[0], 99);
    }
}

#[test]
fn what_was_held_under_another_rule_goes_by_that() {
    let mut scripted = Scripted::new(vec!["fixed_window 10/h".parse().unwrap()], CLOCK);
    let hold = |number| Hold { id: id(number), lasts: Duration::from_secs(1) };
    let take = |scripted: &mut Scripted, hold: &Hold| {
        let request = Request::check(b"a").costs(Costs::Each(&[2])).hold(hold);
        scripted.ask(START, &request).unwrap()
    };
    take(&mut scripted, &hold(1));
    let mut scripted = scripted.with_on_expiry(OnExpiry::Return);
    take(&mut scripted, &hold(2));
    take(&mut scripted, &hold(3));
    // A hold that is settled under a limit that keeps holds has nothing to return.
    let mut scripted = scripted.with_on_expiry(OnExpiry::Keep);
    let settle = Request::settle(b"a", id(3), &[Some(1)]);
    assert_eq!(remaining(&scripted.ask(START + 1, &settle).unwrap()), [5]);
    let peek = Request::new(Operation::Peek, b"a");
    let later = START + 2 * SECOND;
    assert_eq!(remaining(&scripted.ask(later, &peek).unwrap()), [5]);
    let mut scripted = scripted.with_on_expiry(OnExpiry::Return);
    assert_eq!(remaining(&scripted.ask(later, &peek).unwrap()), [7]);
}
