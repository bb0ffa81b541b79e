//! Tests that a packed value's data about the ends of records stays correct after any change, on
//! servers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
#![expect(unused_must_use, reason = "only the last answers matter")]

use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_core::{Decision, Hold, HoldId, Policy, Request, Span};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

const START: u64 = 1_699_920_000_000_000;
const SECOND: u64 = 1_000_000;

struct Both(Scripted, Kernels);

impl Both {
    fn new() -> Self {
        let policies: Vec<Policy> = vec!["concurrency 10 hold 1h".parse().unwrap()];
        let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
        Self(Scripted::new(policies.clone(), clock), Kernels::new(policies, clock))
    }

    /// Returns the answer `second` seconds after the start.
    fn ask(&mut self, second: u64, request: &Request<'_>) -> Decision {
        let got = self.0.ask(START + second * SECOND, request).unwrap();
        assert_eq!(got, self.1.ask(START + second * SECOND, request).unwrap(), "at {second} s");
        got
    }

    fn take(&mut self, second: u64, number: u64, seconds: u64) -> Decision {
        let lasts = Duration::from_secs(seconds);
        self.ask(second, &Request::check(b"a").hold(&Hold { id: id(number), lasts }))
    }

    fn renew(&mut self, second: u64, number: u64, seconds: u64) -> Decision {
        let lasts = Span::from_micros(seconds * SECOND).unwrap();
        self.ask(second, &Request::renew(b"a", id(number), lasts))
    }

    fn release(&mut self, second: u64, number: u64) -> Decision {
        self.ask(second, &Request::settle(b"a", id(number), &[]))
    }
}

fn id(number: u64) -> HoldId {
    HoldId::from_bytes(u128::from(number).to_be_bytes())
}

fn told(decision: &Decision) -> (u64, u64) {
    let policy = decision.policies().next().unwrap();
    (policy.remaining().unwrap(), Span::from(policy.reset_after().unwrap()).as_micros() / SECOND)
}

#[test]
fn a_permit_that_is_renewed_ends_when_it_was_renewed_to() {
    let mut both = Both::new();
    for number in 0..4 {
        both.take(number, number, 60);
    }
    both.renew(4, 1, 600);
    assert_eq!(told(&both.take(5, 5, 60)), (5, 599));
    assert_eq!(told(&both.release(6, 1)), (6, 59));
    // A hold renewed to end before all others is no longer in use then.
    both.renew(7, 2, 3);
    assert_eq!(told(&both.take(8, 6, 60)), (5, 60));
    assert_eq!(told(&both.take(11, 7, 60)), (5, 60));
}

#[test]
fn whichever_is_released_the_last_end_is_that_of_the_last() {
    let mut both = Both::new();
    for number in 0..6 {
        both.take(0, number, 10 * (number + 1));
    }
    assert_eq!(told(&both.release(1, 2)), (5, 59));
    assert_eq!(told(&both.release(1, 5)), (6, 49));
    assert_eq!(told(&both.release(1, 4)), (7, 39));
    assert_eq!(told(&both.take(2, 7, 5)), (6, 38));
    for number in [0, 1, 3, 7] {
        both.release(3, number);
    }
    assert_eq!(told(&both.take(4, 8, 7)), (9, 7));
    // All have ended.
    assert_eq!(told(&both.take(100, 9, 7)), (9, 7));
    assert_eq!(told(&both.release(101, 9)), (10, 0));
}
