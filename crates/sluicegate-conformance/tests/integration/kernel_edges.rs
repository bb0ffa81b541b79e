//! Edge cases of the kernels that random schedules rarely reach, and the advice of refused
//! policies.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_core::{
    CalendarUnit, CalendarWindow, Cost, Costs, Decision, Error, MAX_EXACT, Operation, Policy, Rate,
    RequestErrorKind, Timestamp,
};

const NOW: u64 = 1_699_920_000_000_000;

fn kernels(spec: &str) -> Kernels {
    Kernels::new(vec![spec.parse().unwrap()], Clock::Injected)
}

fn ask(kernels: &mut Kernels, operation: Operation<'_>, cost: u64) -> Result<Decision, Error> {
    kernels.decide(NOW, b"key", operation, Costs::Same(Cost::new(cost).unwrap()))
}

fn refusal(spec: &str) -> String {
    let policy = spec.parse::<Policy>();
    policy.map_or_else(|error| error.to_string(), |policy| panic!("`{policy}` was accepted"))
}

fn accepts(spec: &str) -> bool {
    spec.parse::<Policy>().is_ok()
}

/// Returns the whole number after the first `words`.
fn number_after(text: &str, words: &str) -> u64 {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("no `{words}` in: {text}"));
    rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn a_rate_that_is_not_exact_is_refused_with_the_nearest_ones_that_are() {
    for (count, per) in [(123_457, "30d"), (65_537, "w"), (999_983, "d")] {
        let message = refusal(&format!("token_bucket {count}/{per}"));
        let below = number_after(&message, "nearest exact rates are ");
        let above = number_after(&message, " and ");
        assert!(below < count && count < above, "{message}");
        for rate in below..=above {
            let is_named = rate == below || rate == above;
            assert_eq!(
                accepts(&format!("token_bucket {rate}/{per}")),
                is_named,
                "{rate}: {message}"
            );
        }
        assert!(message.contains("rate"), "{message}");
    }
}

#[test]
fn a_burst_that_is_not_exact_is_refused_with_the_largest_that_is() {
    for rate in ["7/s", "3/d", "1000/h"] {
        let message = refusal(&format!("token_bucket {rate} burst {MAX_EXACT}"));
        let most = number_after(&message, "burst is at most ");
        assert!(accepts(&format!("token_bucket {rate} burst {most}")), "{message}");
        assert!(!accepts(&format!("token_bucket {rate} burst {}", most + 1)), "{message}");
    }
    let message = refusal(&format!("token_bucket 3/d burst {MAX_EXACT}"));
    assert!(!message.contains("nearest"), "a rate of nothing is no advice: {message}");
    let message = refusal("gcra 1/h burst 9007199254");
    assert!(!message.contains("nearest"), "thousands an hour are another rate: {message}");

    // With an explicit burst, the advised rates are valid with that burst.
    let message = refusal("token_bucket 123457/30d burst 100000");
    let below = number_after(&message, "nearest exact rates are ");
    let above = number_after(&message, " and ");
    for rate in [below, above] {
        assert!(accepts(&format!("token_bucket {rate}/30d burst 100000")), "{message}");
    }
}

#[test]
fn a_saved_up_burst_that_is_not_exact_is_refused_with_the_longest_that_is() {
    for rate in ["7/s", "2000000/s", "3/d"] {
        let message = refusal(&format!("smooth {rate} burst {MAX_EXACT}us"));
        let most = number_after(&message, "the longest burst at this rate is ");
        assert!(accepts(&format!("smooth {rate} burst {most}us")), "{message}");
        assert!(!accepts(&format!("smooth {rate} burst {}us", most + 1)), "{message}");
    }
}

#[test]
fn a_counter_that_is_not_exact_is_refused_with_the_largest_limit_that_is() {
    // Measured in steps of 1 s, 1 ms and 1 µs.
    for window in ["1000d", "7ms", "999983us"] {
        let message = refusal(&format!("sliding_counter {MAX_EXACT}/{window}"));
        let most = number_after(&message, "the largest limit is ");
        assert!(accepts(&format!("sliding_counter {most}/{window}")), "{message}");
        assert!(!accepts(&format!("sliding_counter {}/{window}", most + 1)), "{message}");
    }
}

#[test]
fn a_window_is_from_a_microsecond_to_a_hundred_years() {
    for algorithm in ["fixed_window", "sliding_counter", "sliding_log"] {
        assert!(accepts(&format!("{algorithm} 1/us")));
        assert!(accepts(&format!("{algorithm} 1/36525d")), "{algorithm}");
        let longer = 36_525 * 86_400 * 1_000_000_u64 + 1;
        assert!(!accepts(&format!("{algorithm} 1/{longer}us")), "{algorithm}");
    }
    assert!(accepts(&format!("fixed_window {MAX_EXACT}/s")));
    assert!(!accepts(&format!("fixed_window {}/s", MAX_EXACT + 1)));
}

#[test]
fn a_state_holds_exactly_as_much_as_is_exact() {
    for spec in [
        "token_bucket 1/us",
        "leaky_bucket 1/us",
        "fixed_window 5/h",
        "fixed_window 5/h aligned",
        "sliding_counter 5/h",
        "sliding_log 5/h",
        "sliding_window 4/h slices 4",
    ] {
        let mut kernels = kernels(spec);
        let mut charge = |units: u64| ask(&mut kernels, Operation::Charge, units);
        assert!(charge(MAX_EXACT - 1).unwrap().is_allowed(), "{spec}");
        assert!(charge(1).unwrap().is_allowed(), "{spec}");
        let error = charge(1).unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Overflow, "{spec}");
    }
}

const HOUR: u64 = 3_600_000_000;

/// Sends a request at `now` to a store whose own clock has jumped.
fn ask_at(
    kernels: &mut Kernels,
    now: u64,
    operation: Operation<'static>,
    cost: u64,
) -> Result<Decision, Error> {
    kernels.decide(now, b"key", operation, Costs::Same(Cost::new(cost).unwrap()))
}

fn kernels_on_own_clock(spec: &str) -> Kernels {
    Kernels::new(vec![spec.parse().unwrap()], Clock::Own { max_clock_back_us: 5_000_000 })
}

#[test]
fn a_counter_whose_cell_has_begun_is_restamped_to_now() {
    let mut kernels = kernels_on_own_clock("sliding_counter 5/h");
    let ahead = ask_at(&mut kernels, NOW + 10_000_000, Operation::Check, 5).unwrap();
    assert!(ahead.is_allowed());
    let decision = ask_at(&mut kernels, NOW, Operation::Peek, 1).unwrap();
    assert!(decision.warnings().restamped);
    let reset = decision.policy(0).unwrap().reset_after();
    assert_eq!(
        reset,
        Some(Duration::from_micros(2 * HOUR)),
        "counted from now, not from the time ahead"
    );
}

#[test]
fn two_cells_that_lie_ahead_count_as_one_as_far_as_it_can_hold_them() {
    for (current, fits) in [(1, true), (2, false), (3, false)] {
        let mut kernels = kernels_on_own_clock("sliding_counter 5/h");
        assert!(ask_at(&mut kernels, NOW + HOUR, Operation::Charge, MAX_EXACT - 1).is_ok());
        assert!(ask_at(&mut kernels, NOW + 2 * HOUR, Operation::Charge, current).is_ok());
        let peek = ask_at(&mut kernels, NOW, Operation::Peek, 1);
        match peek {
            Ok(decision) => assert!(fits && !decision.is_allowed(), "{current}"),
            Err(error) => {
                assert!(
                    !fits && error.as_request().unwrap().kind() == RequestErrorKind::Overflow,
                    "{current}: {error}"
                );
            }
        }
    }
}

/// Tests the newest time that a state can claim. It once cost a walk through every day to the year
/// 9999.
#[test]
fn the_last_instant_has_a_calendar_window_found_in_a_few_steps() {
    for unit in [CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month, CalendarUnit::Year] {
        let calendar = CalendarWindow::new(unit, "Asia/Tokyo").unwrap();
        let boundaries = calendar.boundaries(Timestamp::MAX);
        let [before, start, end, after] = boundaries.map(|boundary| boundary.at);
        assert!(before < start && start < Timestamp::MAX, "{unit:?}");
        assert_eq!((end, after), (Timestamp::MAX, Timestamp::MAX), "{unit:?}");
        // The window before it is an ordinary one that ends where the last one starts.
        let last = Timestamp::from_micros(start.as_micros() - 1).unwrap();
        assert_eq!(calendar.window_at(last), (before, start), "{unit:?}");
    }
}

#[test]
fn a_counter_in_steps_of_a_millisecond_says_when_enough_of_the_last_cell_has_left() {
    let mut kernels = kernels("sliding_counter 1000000/d");
    let day = 24 * HOUR;
    let mut check = |now, cost| ask_at(&mut kernels, now, Operation::Check, cost).unwrap();
    assert!(check(NOW, 1_000_000).is_allowed());
    let refused = check(NOW + day + 6 * HOUR, 500_000);
    let wait = refused.retry_after().duration().unwrap();
    assert_eq!(wait.as_micros(), u128::from(6 * HOUR), "from three quarters left to a half");
    assert!(!check(NOW + day + 12 * HOUR - 1, 500_000).is_allowed());
    assert!(check(NOW + day + 12 * HOUR, 500_000).is_allowed());
}

#[test]
fn numbers_that_are_not_exact_are_blamed_on_who_gave_them() {
    let month = Duration::from_secs(30 * 86_400);
    let rate = Rate::new(123_457, month).unwrap();
    // Without an explicit burst, the burst follows the rate, so the rate must change.
    let error = Policy::token_bucket(rate, 123_457).unwrap_err();
    assert_eq!(error.parameter, "rate", "{error}");
    assert!(error.to_string().contains("123456/30d"), "{error}");
    let error = Policy::token_bucket(rate, 1_000_000).unwrap_err();
    assert_eq!(error.parameter, "burst", "{error}");
    let error = Policy::leaky_bucket(rate, 1_000_000).unwrap_err();
    assert_eq!(error.parameter, "capacity", "{error}");
}
