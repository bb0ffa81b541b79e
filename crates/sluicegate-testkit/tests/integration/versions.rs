//! Tests of two program versions with different policies on one server. The states of each are kept
//! for as long as they are needed, regardless of the other's writes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate_conformance::reference::Clock;
use sluicegate_core::{Costs, Decision, Operation, Policy};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
const CLOCK: Clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
const START: u64 = 1_700_000_000 * SECOND;

/// Every kind of entry, with windows of an hour.
const LONG: [&str; 7] = [
    "token_bucket 6/h",
    "warmup 600/h over 1h",
    "fixed_window 6/h",
    "sliding_counter 6/h",
    "sliding_window 6/h slices 6",
    "sliding_window 720/h slices 90",
    "sliding_log 6/h",
];
/// Every kind of entry, with windows of a second.
const SHORT: [&str; 7] = [
    "token_bucket 100/s",
    "warmup 100/s over 1s",
    "fixed_window 100/s",
    "sliding_counter 100/s",
    "sliding_window 100/s slices 10",
    "sliding_window 100/s slices 100",
    "sliding_log 100/s",
];

fn policies(spec: &str, name: &str) -> Vec<Policy> {
    vec![format!("{spec} as {name}").parse().unwrap()]
}

fn scripted(spec: &str) -> Scripted {
    Scripted::new(policies(spec, "old"), CLOCK)
}

fn ask(scripted: &mut Scripted, now: u64, operation: Operation<'_>) -> Decision {
    scripted.decide(now, b"alice", operation, Costs::Own).unwrap()
}

#[test]
fn a_states_life_is_not_cut_short_by_another_version() {
    for old in LONG {
        for new in SHORT {
            let (mut alone, mut shared) = (scripted(old), scripted(old));
            for now in [START, START + SECOND] {
                let expected = ask(&mut alone, now, Operation::Check);
                assert_eq!(ask(&mut shared, now, Operation::Check), expected);
            }
            for after in [2 * SECOND, 600 * SECOND, HOUR / 2, HOUR - SECOND] {
                shared.set_policies(policies(new, "new"));
                assert!(ask(&mut shared, START + after, Operation::Check).is_allowed());
                shared.set_policies(policies(old, "old"));
                // Long after the other version's key would have expired.
                let then = START + after + 5 * SECOND;
                let expected = ask(&mut alone, then, Operation::Peek);
                let got = ask(&mut shared, then, Operation::Peek);
                assert_eq!(got, expected, "{old} beside {new}, {after} µs later");
            }
        }
    }
}

#[test]
fn a_state_goes_when_it_means_nothing_to_the_other_version_any_more() {
    for old in SHORT {
        for new in LONG {
            let mut shared = scripted(old);
            let _ = ask(&mut shared, START, Operation::Check);
            let mut alone = Scripted::new(policies(new, "new"), CLOCK);
            shared.set_policies(policies(new, "new"));
            for now in [START, START + SECOND / 2, START + 60 * SECOND] {
                let expected = ask(&mut alone, now, Operation::Check);
                assert_eq!(ask(&mut shared, now, Operation::Check), expected);
            }
            assert_eq!(shared.stored(), alone.stored(), "{new} beside {old}");
        }
    }
}
