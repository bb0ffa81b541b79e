//! Direct tests of the kernels with states that requests rarely or never create.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use sluicegate_core::for_stores::{Stored, step};
use sluicegate_core::kernel::log::{Balance, Entry, Log, State};
use sluicegate_core::kernel::{
    self, Charge, Kernel, Now, Reading, Rule, Verdict, bucket, counter, warm_up, window,
};
use sluicegate_core::{
    Cost, Costs, Limit, MAX_EXACT, Operation, Policy, Request, RequestErrorKind, RetryAfter,
};

const AT: u64 = 1_699_920_000_000_000;
const NOW: Now = Now { micros: AT, max_clock_back: Some(5_000_000) };

fn rule(spec: &str) -> Rule {
    spec.parse::<Policy>().unwrap().rule().clone()
}

fn log(spec: &str) -> Log {
    let Rule::Log(log) = rule(spec) else { panic!("{spec} is no log") };
    log
}

fn limit(specs: &[&str]) -> Limit {
    Limit::new("test", specs).unwrap()
}

fn state(newest: u64, base: u64, entries: &[(u64, u64)]) -> State {
    let entries = entries.iter().map(|&(stamp, total)| Entry { stamp, total }).collect();
    State { newest, base, entries }
}

/// Returns the balance of a log at a time.
fn balance(log: &Log, state: &State, at: u64) -> Balance {
    log.balance(Some(state.clone()), Now { micros: at, max_clock_back: None }).unwrap().0
}

/// Charges units to a log and returns its state.
fn admitted(log: &Log, state: &State, at: u64, cost: u64) -> Result<State, kernel::Overflow> {
    let mut balance = balance(log, state, at);
    log.charge(&mut balance, Charge::at_once(cost))?;
    Ok(log.state(balance).unwrap())
}

fn refunded(log: &Log, state: &State, at: u64, units: u64) -> State {
    let mut balance = balance(log, state, at);
    log.refund(&mut balance, units);
    log.state(balance).unwrap()
}

fn ask<'a>(operation: Operation<'a>, costs: Costs<'a>) -> Request<'a> {
    Request::new(operation, b"key").costs(costs)
}

#[test]
fn the_largest_exact_number_is_that_of_a_double() {
    assert_eq!(MAX_EXACT, 9_007_199_254_740_991);
    assert_eq!(Cost::try_from(7).unwrap().to_string(), "7");
    assert!(Cost::try_from(0).is_err());
}

#[test]
fn a_log_has_one_to_thirty_two_strategies_of_at_most_65_536_units() {
    let tiers = |count: usize| format!("sliding_log {}", vec!["9/s"; count].join(" and "));
    assert!(tiers(32).parse::<Policy>().is_ok());
    assert!(tiers(33).parse::<Policy>().is_err());
    let several = sluicegate_core::Algorithm::SlidingLog { tiers: Vec::new() };
    assert!(Policy::new(several).unwrap_err().to_string().contains("1 to 32"));
    assert!("sliding_log 65536/s".parse::<Policy>().is_ok());
    assert!("sliding_log 65537/s".parse::<Policy>().is_err());
    assert_eq!(log("sliding_log 3/s and 9/min").tiers().len(), 2);
}

#[test]
fn a_ring_has_one_to_65_536_slices_and_a_wrong_number_of_them_is_told_the_nearest_right_ones() {
    let ring = |slices: u64| format!("sliding_window 9/65536s slices {slices}").parse::<Policy>();
    assert!(ring(1).is_ok());
    assert!(ring(65_536).is_ok());
    for wrong in [0, 65_537] {
        let message = ring(wrong).unwrap_err().to_string();
        assert!(message.contains("whole number from 1 to 65536"), "{message}");
    }
    for (wrong, hint) in [(3, "2 and 4 do"), (7, "5 and 8 do"), (65_535, "64000 and 65536 do")] {
        let message = ring(wrong).unwrap_err().to_string();
        assert!(message.contains(hint), "{message}");
    }
    let ring = log("sliding_window 9/min slices 60");
    assert_eq!((ring.quantum(), ring.horizon(), ring.is_ring()), (1_000_000, 60_000_000, true));
    let exact = log("sliding_log 9/min");
    assert_eq!((exact.quantum(), exact.is_ring()), (1, false));
    // Only a ring has slices.
    assert_eq!(exact.report(&balance(&exact, &state(AT, 0, &[(AT, 4)]), AT)).current, 0);
    let two = state(AT, 1, &[(AT - 1_000_000, 3), (AT, 4)]);
    assert_eq!(ring.report(&balance(&ring, &two, AT)).current, 1);
}

#[test]
fn a_restamp_without_anything_ahead_only_moves_the_newest_time() {
    let ring = log("sliding_window 9/min slices 60");
    let held = state(AT + 9_000_000, 0, &[(AT - 3_000_000, 2)]);
    let (restamped, is_restamped) = ring.balance(Some(held), NOW).unwrap();
    assert!(is_restamped);
    assert_eq!(restamped.state(), &state(AT, 0, &[(AT - 3_000_000, 2)]));
    let ahead = state(AT + 9_000_000, 0, &[(AT - 3_000_000, 2), (AT + 8_000_000, 5)]);
    let (restamped, is_restamped) = ring.balance(Some(ahead), NOW).unwrap();
    assert!(is_restamped);
    assert_eq!(restamped.state(), &state(AT, 0, &[(AT - 3_000_000, 2), (AT, 5)]));
}

#[test]
fn running_totals_are_counted_anew_just_before_they_pass_what_is_exact() {
    let exact = log("sliding_log 9/min");
    let held = state(AT, MAX_EXACT - 5, &[(AT, MAX_EXACT - 3)]);
    let held = admitted(&exact, &held, AT, 3).unwrap();
    assert_eq!(held, state(AT, MAX_EXACT - 5, &[(AT, MAX_EXACT)]), "it still fits");
    assert_eq!(admitted(&exact, &held, AT, 1).unwrap(), state(AT, 0, &[(AT, 6)]));
}

#[test]
fn a_log_is_full_at_65_536_stamps_and_one_of_them_may_still_grow() {
    let exact = log("sliding_log 9/d");
    let (last, later) = (AT + 65_535, AT + 86_400_000_000);
    let one = Charge::at_once(1);
    let now = |micros| Now { micros, max_clock_back: None };
    let mut held = None;
    for at in AT..=last {
        // One state for all: copying it each time would be slow.
        let (mut balance, _) = exact.balance(held, now(at)).unwrap();
        exact.can_charge(&balance, one).unwrap();
        exact.charge(&mut balance, one).unwrap();
        held = exact.state(balance);
    }
    let held = held.unwrap();
    assert_eq!(held.entries.len(), 65_536);
    let one_more = balance(&exact, &held, last + 1);
    assert!(exact.can_charge(&one_more, one).is_err());
    assert!(exact.charge(&mut one_more.clone(), one).is_err());
    let same = balance(&exact, &held, last);
    exact.can_charge(&same, one).unwrap();
    let held = admitted(&exact, &held, last, 1).unwrap();
    // The first stamp has expired by then, so there is capacity for a new one.
    exact.can_charge(&balance(&exact, &held, later), one).unwrap();
    assert_eq!(admitted(&exact, &held, later, 1).unwrap().newest, later);
    // A single stamp doesn't grow beyond `MAX_EXACT` either.
    let alone = balance(&exact, &state(AT, 0, &[(AT, 1)]), AT);
    exact.can_charge(&alone, Charge::at_once(MAX_EXACT - 1)).unwrap();
    assert!(exact.can_charge(&alone, Charge::at_once(MAX_EXACT)).is_err());
}

#[test]
fn a_refund_gives_back_no_more_than_counts() {
    let exact = log("sliding_log 9/min");
    let held = state(AT, 10, &[(AT - 1, 12), (AT, 15)]);
    assert_eq!(refunded(&exact, &held, AT, 1_000), state(AT, 15, &[]));
    // Units that have expired now, but hadn't at the newest time, are unchanged.
    let later = refunded(&exact, &held, AT + 59_999_999, 1_000);
    assert_eq!(later, state(AT, 10, &[(AT - 1, 12)]));
}

#[test]
fn a_refund_of_nothing_leaves_nothing_to_keep() {
    let limit = limit(&["gcra 1/s burst 3 as a", "gcra 1/s burst 3 as b"]);
    let bucket = bucket::State { newest: AT, deficit: 5, unit: 1_000_000 };
    let bucket = Some(Stored::State(kernel::State::Bucket(bucket)));
    let mut held = [bucket.clone(), bucket.clone()];
    let refund = ask(Operation::Refund, Costs::Each(&[0, 1]));
    assert_eq!(step(&limit, &refund, NOW, &mut held).unwrap().changed, 0b10);
    assert_eq!(held[0], bucket);
}

/// Tests that an overflow of any other policy is detected before the log is charged.
#[test]
fn a_log_is_untouched_when_another_policy_cannot_hold_the_cost() {
    for other in [
        "token_bucket 1/us burst 5 as z",
        "fixed_window 5/h as z",
        "sliding_counter 5/h as z",
        "warmup 5/s over 2s as z",
        "sliding_log 5/h as z",
    ] {
        let alone = limit(&[other]);
        let mut full = [None];
        // Fill the state until it can hold nothing more: each bit fits once or not at all.
        for bit in (0..=52).rev() {
            let cost = Costs::Same(Cost::new(1 << bit).unwrap());
            let _ = step(&alone, &ask(Operation::Charge, cost), NOW, &mut full);
        }
        let [full] = full;
        let log = Some(Stored::State(kernel::State::Log(state(AT, 0, &[(AT - 7, 2)]))));
        // In both orders: each of them is evaluated first once.
        for (specs, held) in [
            (["sliding_log 5/h as a", other], [log.clone(), full.clone()]),
            ([other, "sliding_log 5/h as a"], [full, log]),
        ] {
            let mut touched = held.clone();
            let charge = ask(Operation::Charge, Costs::Own);
            let error = step(&limit(&specs), &charge, NOW, &mut touched).unwrap_err();
            assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Overflow, "{other}");
            assert_eq!(touched, held, "{other}");
        }
    }
}

#[test]
fn a_log_that_the_store_judged_is_reported_as_it_said() {
    let limit = limit(&["sliding_log 5/h and 9/d"]);
    let reading = Reading {
        judged_at: 5,
        verdict: Verdict::Refuse { retry: Some(17) },
        violated: 0b10,
        restamped: false,
        remaining_before: 3,
        remaining: 2,
        reset_after: 99,
        used: 7,
        current: 4,
        given_back: 6,
    };
    let answer = |reading: Reading, operation, costs| {
        let mut held = [Some(Stored::Reading(reading))];
        step(&limit, &ask(operation, costs), NOW, &mut held).unwrap().decision
    };
    let denied = answer(reading, Operation::Check, Costs::Own);
    let said = denied.policy(0).unwrap();
    assert!(matches!(said.retry_after(), RetryAfter::After(span) if span.as_micros() == 17));
    assert_eq!(said.violated().collect::<Vec<_>>(), [1]);
    assert_eq!((said.remaining(), said.used(), said.current_slice()), (Some(2), Some(7), 4));
    assert_eq!(said.reset_after().unwrap().as_micros(), 99);
    assert!(!denied.warnings().restamped);
    let restamped = Reading { restamped: true, ..reading };
    assert!(answer(restamped, Operation::Check, Costs::Own).warnings().restamped);
    let passes = Reading { verdict: Verdict::Pass { wait: 0 }, violated: 0, ..reading };
    for operation in [Operation::Check, Operation::Charge, Operation::Refund, Operation::Reset] {
        let done = answer(passes, operation, Costs::Own);
        assert!(done.is_allowed(), "{operation:?}");
        let given_back = (operation == Operation::Refund).then_some(6);
        assert_eq!(done.policy(0).unwrap().given_back(), given_back, "{operation:?}");
    }
    let cost = Costs::Same(Cost::new(9).unwrap());
    assert_eq!(answer(passes, Operation::Take, cost).granted(), 3);
}

#[test]
fn a_warm_up_holds_a_debt_up_to_what_is_exact() {
    let Rule::WarmUp(rule) = rule("warmup 5/s over 2s") else { panic!("a warm-up") };
    assert_eq!((rule.unit(), rule.refill(), rule.store()), (200_000, 1, 2_000_000));
    let wait = {
        let (mut balance, _) = rule.balance(None, NOW).unwrap();
        rule.charge(&mut balance, Charge::at_once(1)).unwrap();
        rule.state(balance).unwrap().debt
    };
    assert!(wait > 0);
    for (debt, holds) in [(MAX_EXACT - wait, true), (MAX_EXACT - wait + 1, false)] {
        let held = warm_up::State { newest: AT, debt, deficit: 0, unit: rule.unit() };
        let (mut balance, _) = rule.balance(Some(held), NOW).unwrap();
        assert_eq!((rule.report(&balance).evaluated_at, rule.state(balance).is_some()), (AT, true));
        assert_eq!(rule.charge(&mut balance, Charge::at_once(1)).is_ok(), holds, "{debt}");
    }
}

#[test]
fn a_warm_up_that_is_full_after_the_longest_span_is_told_that_span() {
    let limit = limit(&["warmup 5/s over 2s"]);
    let [member] = limit.members() else { panic!("one policy") };
    let Rule::WarmUp(rule) = member.policy().rule() else { panic!("a warm-up") };
    let reset = |debt, deficit| {
        let held = warm_up::State { newest: AT, debt, deficit, unit: rule.unit() };
        let mut held = [Some(Stored::State(kernel::State::WarmUp(held)))];
        let peek = step(&limit, &ask(Operation::Peek, Costs::Own), NOW, &mut held).unwrap();
        peek.decision.policy(0).unwrap().reset_after().unwrap()
    };
    assert_eq!(reset(MAX_EXACT - 7, 7), Duration::from_micros(MAX_EXACT));
    assert_eq!(reset(MAX_EXACT - 7, 8), Duration::from_micros(MAX_EXACT));
    assert_eq!(reset(MAX_EXACT - 7, 6), Duration::from_micros(MAX_EXACT - 1));
}

#[test]
fn a_request_brings_a_subject_for_each_part() {
    let part = |name: &str| Limit::new(name, vec!["gcra 1/s"]).unwrap();
    let check = |limit: &Limit, also| {
        Request::check(b"k").also(also).validate(limit).map_err(|error| error.to_string())
    };
    let two: &[&[u8]] = &[b"a", b"b"];
    let (one, three) = (part("a"), Limit::together(["a", "b", "c"].map(part)).unwrap());
    assert_eq!((check(&one, &[]), check(&three, two)), (Ok(()), Ok(())));
    let message = check(&one, two).unwrap_err();
    assert!(message.contains("takes one key, but 3 were"), "{message}");
    let message = check(&three, &two[..1]).unwrap_err();
    assert!(message.contains("`a + b + c` take 3 keys, one each, but 2 were"), "{message}");
    assert!(check(&three, &[]).is_err());
}

/// Tests the numbers by which stores encode the kernels.
#[test]
fn buckets_tell_the_numbers_they_decide_by() {
    let bucket = |spec: &str| match rule(spec) {
        Rule::Bucket(bucket) => bucket,
        other => panic!("{spec} is {other:?}"),
    };
    // 6 per 4,000,000 µs are 3 ticks per microsecond, at 2,000,000 ticks per unit.
    let meter = bucket("token_bucket 6/4s burst 5");
    assert_eq!((meter.unit(), meter.refill(), meter.capacity()), (2_000_000, 3, 10_000_000));
    assert_eq!((meter.profile().limit, meter.fresh_deficit()), (5, 0));
    assert_eq!((meter.profile().is_shaper, meter.is_smooth()), (false, false));
    let shaper = bucket("shaper 5/s queue 2");
    assert_eq!((shaper.unit(), shaper.refill(), shaper.capacity()), (200_000, 1, 600_000));
    assert_eq!((shaper.profile().is_shaper, shaper.is_smooth()), (true, false));
    let smooth = bucket("smooth 6/4s burst 1s");
    assert_eq!((smooth.capacity(), smooth.fresh_deficit()), (3_000_000, 3_000_000));
    assert_eq!((smooth.profile().is_shaper, smooth.is_smooth()), (false, true));
    assert_eq!(bucket("smooth 6/4s burst 1s start full").fresh_deficit(), 0);

    let kept = bucket::State { newest: AT - 10, deficit: 100, unit: 2_000_000 };
    let (balance, restamped) = meter.balance(Some(kept), NOW).unwrap();
    // 70 ticks of the deficit remain, at 3 ticks per microsecond.
    assert_eq!((meter.report(&balance).evaluated_at, restamped), (AT, false));
    assert_eq!((meter.keep_for(&balance), meter.state(balance).is_some()), (24, true));
    let (balance, _) = meter.balance(None, NOW).unwrap();
    assert_eq!((meter.report(&balance).evaluated_at, meter.keep_for(&balance)), (AT, 0));
    assert!(meter.state(balance).is_none());

    let Rule::WarmUp(warm_up) = rule("warmup 6/4s over 10s") else { panic!("a warm-up") };
    assert_eq!((warm_up.unit(), warm_up.refill(), warm_up.store()), (2_000_000, 3, 30_000_000));
    let kept = warm_up::State { newest: AT - 10, debt: 0, deficit: 5, unit: 2_000_000 };
    let (balance, _) = warm_up.balance(Some(kept), NOW).unwrap();
    assert_eq!(
        (warm_up.report(&balance).evaluated_at, warm_up.state(balance).is_some()),
        (AT, true)
    );
    assert_eq!(warm_up.state(warm_up.balance(None, NOW).unwrap().0), None);
}

#[test]
fn windows_tell_the_numbers_they_decide_by() {
    let Rule::Counter(counter) = rule("sliding_counter 9/h") else { panic!("a counter") };
    const HOUR: u64 = 3_600_000_000;
    assert_eq!((counter.profile().limit, counter.window(), counter.step()), (9, HOUR, 1));
    let Rule::Counter(coarse) = rule("sliding_counter 1000000000/h") else { panic!("a counter") };
    assert_eq!(coarse.step(), 1_000_000);
    let start = AT - AT % HOUR;
    let kept = counter::State { newest: start, start, previous: 4, current: 7 };
    let (balance, restamped) = counter.balance(Some(kept), NOW).unwrap();
    assert_eq!((counter.report(&balance).evaluated_at, restamped), (AT, false));
    let now_kept = counter::State { newest: start, start, previous: 4, current: 7 };
    assert_eq!(counter.state(balance), Some(now_kept));

    let Rule::Window(window) = rule("fixed_window 9/h") else { panic!("a window") };
    assert_eq!(window.profile().limit, 9);
    assert_eq!(*window.anchor(), window::Anchor::FirstAdmitted(HOUR));
    let kept = window::State { newest: AT - 10, start: AT - 20, used: 3 };
    let (balance, _) = window.balance(Some(kept), NOW).unwrap();
    assert_eq!((window.report(&balance).evaluated_at, window.state(balance).is_some()), (AT, true));
    let (balance, _) = window.balance(None, NOW).unwrap();
    assert_eq!(
        (window.report(&balance).evaluated_at, window.state(balance).is_some()),
        (AT, false)
    );

    assert_eq!(window.boundaries(AT), None);
    let Rule::Window(daily) = rule("fixed_window 9/d calendar UTC") else { panic!("a window") };
    let days = [0, 1, 2, 3].map(|day| AT + day * 24 * HOUR - 24 * HOUR);
    assert_eq!(daily.boundaries(AT).unwrap(), days.map(|day| (day, day)));
    let across = rule("fixed_window 9/d calendar UTC across_zones");
    let Rule::Window(across) = across else { panic!("a window") };
    assert_eq!(across.boundaries(AT).unwrap(), days.map(|day| (day, day / (24 * HOUR))));
    assert_eq!((daily.kept_across_zones(), across.kept_across_zones()), (None, Some(72 * HOUR)));

    let exact = log("sliding_log 3/s and 9/min");
    assert_eq!((exact.quantum(), exact.horizon(), exact.is_ring()), (1, 60_000_000, false));
    assert_eq!(exact.profile().limit, 3);
    let ring = log("sliding_window 9/h slices 60");
    assert_eq!((ring.quantum(), ring.horizon(), ring.is_ring()), (60_000_000, HOUR, true));
}
