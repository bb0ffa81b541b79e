//! The kernels asked directly, about states that requests alone lead to seldom or never.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate_core::kernel::log::{Entry, Log, State};
use sluicegate_core::kernel::{Ask, Rule, Times, bucket, counter, warm_up, window};
use sluicegate_core::{
    Cost, Costs, Limit, MAX_EXACT, Operation, Policy, Reading, RetryAfter, Standing,
    StoreErrorKind, Timestamp, evaluate,
};

const AT: u64 = 1_699_920_000_000_000;
const TIMES: Times = Times { now: AT, max_clock_back: Some(5_000_000) };

fn rule(spec: &str) -> Rule {
    spec.parse::<Policy>().unwrap().rule().clone()
}

fn log(spec: &str) -> Log {
    let Rule::Log(log) = rule(spec) else { panic!("{spec} is no log") };
    log
}

fn limit(specs: &[&str]) -> Limit {
    let policies = specs.iter().map(|spec| spec.parse().unwrap()).collect();
    Limit::new("test".parse().unwrap(), policies).unwrap()
}

fn state(newest: u64, base: u64, entries: &[(u64, u64)]) -> State {
    let entries = entries.iter().map(|&(stamp, total)| Entry { stamp, total }).collect();
    State { newest, base, entries }
}

#[test]
fn the_largest_exact_number_is_that_of_a_double() {
    assert_eq!(MAX_EXACT, 9_007_199_254_740_991);
    assert_eq!(Cost::try_from(7).unwrap().to_string(), "7");
    assert!(Cost::try_from(0).is_err());
}

#[test]
fn a_log_has_one_to_thirty_two_strategies_of_at_most_65_536_units() {
    let strategies = |count: usize| format!("sliding_log {}", vec!["9/s"; count].join(" and "));
    assert!(strategies(32).parse::<Policy>().is_ok());
    assert!(strategies(33).parse::<Policy>().is_err());
    let several = sluicegate_core::Algorithm::SlidingLog { strategies: Vec::new() };
    assert!(Policy::new(several).unwrap_err().to_string().contains("1 to 32"));
    assert!("sliding_log 65536/s".parse::<Policy>().is_ok());
    assert!("sliding_log 65537/s".parse::<Policy>().is_err());
    assert_eq!(log("sliding_log 3/s and 9/min").strategies().len(), 2);
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
    assert_eq!(exact.current(&state(AT, 0, &[(AT, 4)]), AT), 0);
    assert_eq!(ring.current(&state(AT, 1, &[(AT - 1_000_000, 3), (AT, 4)]), AT), 1);
}

#[test]
fn a_restamp_without_anything_ahead_only_moves_the_newest_time() {
    let ring = log("sliding_window 9/min slices 60");
    let mut held = state(AT + 9_000_000, 0, &[(AT - 3_000_000, 2)]);
    assert!(ring.needs_restamp(&held, TIMES));
    ring.restamp(&mut held, AT);
    assert_eq!(held, state(AT, 0, &[(AT - 3_000_000, 2)]));
    let mut ahead = state(AT + 9_000_000, 0, &[(AT - 3_000_000, 2), (AT + 8_000_000, 5)]);
    ring.restamp(&mut ahead, AT);
    assert_eq!(ahead, state(AT, 0, &[(AT - 3_000_000, 2), (AT, 5)]));
}

#[test]
fn running_totals_are_counted_anew_just_before_they_pass_what_is_exact() {
    let exact = log("sliding_log 9/min");
    let mut held = state(AT, MAX_EXACT - 5, &[(AT, MAX_EXACT - 3)]);
    exact.admit(&mut held, AT, 3).unwrap();
    assert_eq!(held, state(AT, MAX_EXACT - 5, &[(AT, MAX_EXACT)]), "it still fits");
    exact.admit(&mut held, AT, 1).unwrap();
    assert_eq!(held, state(AT, 0, &[(AT, 6)]));
}

#[test]
fn a_log_is_full_at_65_536_stamps_and_one_of_them_may_still_grow() {
    let exact = log("sliding_log 9/d");
    let mut held = State::default();
    let (last, later) = (AT + 65_535, AT + 86_400_000_000);
    for at in AT..=last {
        exact.can_admit(&held, at, 1).unwrap();
        // The first stamp has left by then: that is room, whatever else is held.
        exact.can_admit(&held, later, 1).unwrap();
        exact.admit(&mut held, at, 1).unwrap();
    }
    assert!(exact.can_admit(&held, last + 1, 1).is_err());
    assert!(exact.clone().admit(&mut held.clone(), last + 1, 1).is_err());
    exact.can_admit(&held, last, 1).unwrap();
    exact.admit(&mut held, last, 1).unwrap();
    // What has left makes room.
    exact.admit(&mut held, later, 1).unwrap();
    // Nor does one stamp grow beyond what is exact.
    let alone = state(AT, 0, &[(AT, 1)]);
    exact.can_admit(&alone, AT, MAX_EXACT - 1).unwrap();
    assert!(exact.can_admit(&alone, AT, MAX_EXACT).is_err());
}

#[test]
fn a_refund_gives_back_no_more_than_counts() {
    let exact = log("sliding_log 9/min");
    let mut held = state(AT, 10, &[(AT - 1, 12), (AT, 15)]);
    exact.refund(&mut held, AT, 1_000);
    assert_eq!(held, state(AT, 15, &[]));
    // What has left by now, but not when it was newest, stays as it was.
    let mut held = state(AT, 10, &[(AT - 1, 12), (AT, 15)]);
    exact.refund(&mut held, AT + 59_999_999, 1_000);
    assert_eq!(held, state(AT, 10, &[(AT - 1, 12)]));
}

#[test]
fn a_refund_of_nothing_leaves_nothing_to_keep() {
    let limit = limit(&["gcra 1/s burst 3 as a", "gcra 1/s burst 3 as b"]);
    let held = bucket::State { newest: AT, deficit: 5, unit: 1_000_000 };
    let held = sluicegate_core::packed::State::Bucket(held);
    let mut standings: Vec<_> = limit
        .members()
        .iter()
        .map(|member| Standing::of(member.policy().rule(), Some(&held), TIMES).unwrap().unwrap().0)
        .collect();
    let costs = Costs::Each(&[0, 1]);
    let evaluation = evaluate(&limit, &mut standings, Operation::Refund, costs).unwrap();
    assert_eq!(evaluation.changed, 0b10);
}

/// A log changes where it is: whatever else can't be charged has to be known before.
#[test]
fn a_log_is_untouched_when_another_policy_cannot_hold_the_cost() {
    let most = MAX_EXACT;
    for other in [
        "token_bucket 1/us burst 5 as z",
        "fixed_window 5/h as z",
        "sliding_counter 5/h as z",
        "warmup 5/s over 2s as z",
        "sliding_log 5/h as z",
    ] {
        let limit = limit(&["sliding_log 5/h as a", other]);
        let mut touched = state(AT, 0, &[(AT - 7, 2)]);
        let before = touched.clone();
        let (rule_a, rule_b) =
            (limit.members()[0].policy().rule(), limit.members()[1].policy().rule());
        let stand = |rule: &Rule| Standing::of(rule, None, TIMES).unwrap().map(|(it, _)| it);
        let Rule::Log(log_a) = rule_a else { panic!("a log") };
        let mut held;
        let second = match rule_b {
            Rule::Log(log_b) => {
                held = state(AT, 0, &[(AT - 7, most)]);
                Standing::of_log(log_b, &mut held, TIMES).0
            }
            rule => {
                // So much is there already that nothing more can be held.
                let mut standings = [stand(rule).unwrap()];
                let alone =
                    Limit::new("alone".parse().unwrap(), vec![limit.members()[1].policy().clone()])
                        .unwrap();
                // Bit by bit, of which each fits once or not at all.
                for bit in (0..=52).rev() {
                    let cost = Costs::Same(Cost::new(1 << bit).unwrap());
                    let _ = evaluate(&alone, &mut standings, Operation::Charge, cost);
                }
                let [standing] = standings;
                standing
            }
        };
        let mut standings = [Standing::of_log(log_a, &mut touched, TIMES).0, second];
        let error = evaluate(&limit, &mut standings, Operation::Charge, Costs::Own).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Overflow, "{other}");
        assert_eq!(touched, before, "{other}");
        // And the other way round: the log is what is full.
        let mut full = state(AT, 0, &[(AT - 7, most)]);
        let mut standings = [Standing::of_log(log_a, &mut full, TIMES).0];
        let alone = Limit::new("alone".parse().unwrap(), vec![limit.members()[0].policy().clone()])
            .unwrap();
        let error = evaluate(&alone, &mut standings, Operation::Charge, Costs::Own).unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Overflow);
        assert_eq!(full, state(AT, 0, &[(AT - 7, most)]));
    }
}

#[test]
fn a_log_that_the_store_judged_is_reported_as_it_said() {
    let limit = limit(&["sliding_log 5/h and 9/d"]);
    let reading = Reading {
        ask: Ask::Refuse { retry: Some(17) },
        violated: 0b10,
        remaining_before: 3,
        remaining: 2,
        reset_after: 99,
        total: 7,
        current: 4,
    };
    let answer = |reading: Reading, operation| {
        evaluate(&limit, &mut [Standing::Read(reading)], operation, Costs::Own).unwrap().decision
    };
    let denied = answer(reading, Operation::Check);
    let said = denied.policies()[0];
    assert!(matches!(said.retry_after(), RetryAfter::After(span) if span.as_micros() == 17));
    assert_eq!(said.violated().collect::<Vec<_>>(), [1]);
    assert_eq!((said.remaining(), said.window_total(), said.current_slice()), (Some(2), 7, 4));
    assert_eq!(said.reset_after().unwrap().as_micros(), 99);
    let passes = Reading { ask: Ask::Pass { wait: 0 }, violated: 0, ..reading };
    for operation in [Operation::Check, Operation::Charge, Operation::Refund, Operation::Reset] {
        assert!(answer(passes, operation).is_allowed(), "{operation:?}");
    }
    let cost = Costs::Same(Cost::new(9).unwrap());
    let partial = evaluate(&limit, &mut [Standing::Read(passes)], Operation::TakeUpTo, cost);
    assert_eq!(partial.unwrap().decision.granted(), 3);
}

#[test]
fn a_warm_up_holds_a_debt_up_to_what_is_exact() {
    let Rule::WarmUp(rule) = rule("warmup 5/s over 2s") else { panic!("a warm-up") };
    assert_eq!((rule.unit(), rule.refill(), rule.store()), (200_000, 1, 2_000_000));
    let wait = {
        let (mut standing, _) = rule.stand(None, TIMES).unwrap();
        rule.admit(&mut standing, 1, 0).unwrap();
        rule.state(&standing).debt
    };
    assert!(wait > 0);
    for (debt, holds) in [(MAX_EXACT - wait, true), (MAX_EXACT - wait + 1, false)] {
        let held = warm_up::State { newest: AT, debt, deficit: 0, unit: rule.unit() };
        let (mut standing, _) = rule.stand(Some(held), TIMES).unwrap();
        assert_eq!((standing.at(), standing.is_known()), (AT, true));
        assert_eq!(rule.admit(&mut standing, 1, 0).is_ok(), holds, "{debt}");
    }
}

#[test]
fn a_warm_up_that_is_full_after_the_longest_span_is_told_that_span() {
    let limit = limit(&["warmup 5/s over 2s"]);
    let [member] = limit.members() else { panic!("one policy") };
    let Rule::WarmUp(rule) = member.policy().rule() else { panic!("a warm-up") };
    let reset = |debt, deficit| {
        let held = warm_up::State { newest: AT, debt, deficit, unit: rule.unit() };
        let standing = Standing::WarmUp(rule.stand(Some(held), TIMES).unwrap().0);
        let peek = evaluate(&limit, &mut [standing], Operation::Peek, Costs::Own).unwrap();
        peek.decision.policies()[0].reset_after().unwrap().as_micros()
    };
    assert_eq!(reset(MAX_EXACT - 7, 7), MAX_EXACT);
    assert_eq!(reset(MAX_EXACT - 7, 8), MAX_EXACT);
    assert_eq!(reset(MAX_EXACT - 7, 6), MAX_EXACT - 1);
}

#[test]
fn a_request_brings_a_subject_for_each_part() {
    let part =
        |name: &str| Limit::new(name.parse().unwrap(), vec!["gcra 1/s".parse().unwrap()]).unwrap();
    let check = |limit: &Limit, also| {
        let request = sluicegate_core::Request { also, ..sluicegate_core::Request::check(b"k") };
        sluicegate_core::check_subjects(limit, &request).map_err(|error| error.to_string())
    };
    let two: &[&[u8]] = &[b"a", b"b"];
    let (one, three) = (part("a"), Limit::together(["a", "b", "c"].map(part)).unwrap());
    assert_eq!((check(&one, &[]), check(&three, two)), (Ok(()), Ok(())));
    let message = check(&one, two).unwrap_err();
    assert!(message.contains("needs 1 subjects") && message.contains("but 3 were"), "{message}");
    let message = check(&three, &two[..1]).unwrap_err();
    assert!(message.contains("`a + b + c` needs 3") && message.contains("but 2 were"), "{message}");
    assert!(check(&three, &[]).is_err());
}

/// Stores encode the kernels by these numbers.
#[test]
fn buckets_tell_the_numbers_they_decide_by() {
    let bucket = |spec: &str| match rule(spec) {
        Rule::Bucket(bucket) => bucket,
        other => panic!("{spec} is {other:?}"),
    };
    // 6 in 4,000,000 µs are 3 ticks a microsecond, at 2,000,000 ticks a unit.
    let meter = bucket("token_bucket 6/4s burst 5");
    assert_eq!((meter.unit(), meter.refill(), meter.capacity()), (2_000_000, 3, 10_000_000));
    assert_eq!((meter.limit(), meter.fresh_deficit()), (5, 0));
    assert_eq!((meter.is_shaper(), meter.is_smooth()), (false, false));
    let shaper = bucket("shaper 5/s queue 2");
    assert_eq!((shaper.unit(), shaper.refill(), shaper.capacity()), (200_000, 1, 600_000));
    assert_eq!((shaper.is_shaper(), shaper.is_smooth()), (true, false));
    let smooth = bucket("smooth 6/4s burst 1s");
    assert_eq!((smooth.capacity(), smooth.fresh_deficit()), (3_000_000, 3_000_000));
    assert_eq!((smooth.is_shaper(), smooth.is_smooth()), (false, true));
    assert_eq!(bucket("smooth 6/4s burst 1s start full").fresh_deficit(), 0);

    let kept = bucket::State { newest: AT - 10, deficit: 100, unit: 2_000_000 };
    let (standing, restamped) = meter.stand(Some(kept), TIMES).unwrap();
    assert_eq!((standing.at(), standing.deficit(), restamped), (AT, 70, false));
    assert!(standing.is_known());
    let (standing, _) = meter.stand(None, TIMES).unwrap();
    assert_eq!((standing.at(), standing.deficit(), standing.is_known()), (AT, 0, false));

    let Rule::WarmUp(warm_up) = rule("warmup 6/4s over 10s") else { panic!("a warm-up") };
    assert_eq!((warm_up.unit(), warm_up.refill(), warm_up.store()), (2_000_000, 3, 30_000_000));
    let kept = warm_up::State { newest: AT - 10, debt: 0, deficit: 5, unit: 2_000_000 };
    let (standing, _) = warm_up.stand(Some(kept), TIMES).unwrap();
    assert_eq!((standing.at(), standing.is_known()), (AT, true));
    assert!(!warm_up.stand(None, TIMES).unwrap().0.is_known());
}

#[test]
fn windows_tell_the_numbers_they_decide_by() {
    let Rule::Counter(counter) = rule("sliding_counter 9/h") else { panic!("a counter") };
    const HOUR: u64 = 3_600_000_000;
    assert_eq!((counter.limit(), counter.window(), counter.step()), (9, HOUR, 1));
    let Rule::Counter(coarse) = rule("sliding_counter 1000000000/h") else { panic!("a counter") };
    assert_eq!(coarse.step(), 1_000_000);
    let start = AT - AT % HOUR;
    let kept = counter::State { newest: start, start, previous: 4, current: 7 };
    let (standing, restamped) = counter.stand(Some(kept), TIMES).unwrap();
    assert_eq!((standing.at(), standing.previous(), standing.current()), (AT, 4, 7));
    assert!(!restamped);

    let Rule::Window(window) = rule("fixed_window 9/h") else { panic!("a window") };
    assert_eq!(window.limit(), 9);
    assert_eq!(*window.anchor(), window::Anchor::FirstAdmitted(HOUR));
    let kept = window::State { newest: AT - 10, start: AT - 20, used: 3 };
    let (standing, _) = window.stand(Some(kept), TIMES);
    assert_eq!((standing.at(), standing.is_open()), (AT, true));
    let (standing, _) = window.stand(None, TIMES);
    assert_eq!((standing.at(), standing.is_open()), (AT, false));

    assert_eq!(window.boundaries(AT), None);
    let Rule::Window(daily) = rule("fixed_window 9/d calendar UTC") else { panic!("a window") };
    let days = [0, 1, 2, 3].map(|day| AT + day * 24 * HOUR - 24 * HOUR);
    assert_eq!(daily.boundaries(AT).unwrap().map(Timestamp::as_micros), days);

    let exact = log("sliding_log 3/s and 9/min");
    assert_eq!((exact.quantum(), exact.horizon(), exact.is_ring()), (1, 60_000_000, false));
    assert_eq!(exact.limit(), 3);
    let ring = log("sliding_window 9/h slices 60");
    assert_eq!((ring.quantum(), ring.horizon(), ring.is_ring()), (60_000_000, HOUR, true));
}
