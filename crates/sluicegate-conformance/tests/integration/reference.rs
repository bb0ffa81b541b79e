//! Tests of the reference model against the conformance samples and manually computed numbers.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which may fail in place")]

use serde_json::Value;
use sluicegate_conformance::cases::{self, Failure, SAMPLES, at_once};
use sluicegate_conformance::reference::{Answer, Clock, Costs, Model, Operation, Refusal, Retry};
use sluicegate_core::{MAX_EXACT, Policy};

const MS: u64 = 1_000;
const S: u64 = 1_000_000;
const HOUR: u64 = 3_600 * S;
/// The start of a day, as in the conformance cases.
const T: u64 = 1_699_920_000 * S;

fn policies(specs: &[&str]) -> Vec<Policy> {
    specs.iter().map(|spec| spec.parse().unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn model(specs: &[&str]) -> Model {
    Model::new(policies(specs))
}

fn check(units: u64) -> Operation {
    Operation::Check { costs: Costs::All(units) }
}

fn each(units: &[u64]) -> Operation {
    Operation::Check { costs: Costs::Each(units.to_vec()) }
}

fn peek(units: u64) -> Operation {
    Operation::Peek { costs: Costs::All(units) }
}

fn reserve(units: u64, within_us: u64) -> Operation {
    Operation::Reserve { costs: Costs::All(units), within_us }
}

fn up_to(units: u64) -> Operation {
    Operation::Take { costs: Costs::All(units) }
}

fn charge(units: u64) -> Operation {
    Operation::Charge { costs: Costs::All(units) }
}

fn refund(units: u64) -> Operation {
    Operation::Refund { costs: Costs::All(units) }
}

trait At {
    /// Applies the operation to one key, `after` µs from [`T`].
    fn at(&mut self, after: u64, operation: &Operation) -> Answer;
}

impl At for Model {
    fn at(&mut self, after: u64, operation: &Operation) -> Answer {
        self.apply(T + after, b"key", operation).unwrap()
    }
}

/// Returns the verdict, the wait, the retry-after and the first policy's remaining units.
fn gist(answer: &Answer) -> (bool, u64, Retry, Option<u64>) {
    (answer.allowed, answer.wait_us, answer.retry, answer.policies[0].remaining)
}

const fn pass(wait: u64, remaining: u64) -> (bool, u64, Retry, Option<u64>) {
    (true, wait, Retry::Now, Some(remaining))
}

const fn refuse(retry: u64, remaining: u64) -> (bool, u64, Retry, Option<u64>) {
    (false, 0, Retry::After(retry), Some(remaining))
}

const fn never(remaining: u64) -> (bool, u64, Retry, Option<u64>) {
    (false, 0, Retry::Never, Some(remaining))
}

fn failures(cases: &str) -> Vec<Failure> {
    let cases = cases::read(cases).unwrap();
    let mut model = Model::new(Vec::new());
    at_once(cases::run(&mut model, &cases, |_, _| {})).unwrap().unwrap().failures
}

#[test]
fn the_samples_pass() {
    let cases = cases::read(SAMPLES).unwrap();
    let mut model = Model::new(Vec::new());
    let mut observed = 0;
    let report = at_once(cases::run(&mut model, &cases, |_, _| observed += 1)).unwrap().unwrap();
    assert_eq!(report.failures, []);
    assert_eq!(report.to_string(), "17 passed, 0 failed");
    assert_eq!(observed, 17);
}

/// Falsifies each answer of each sample, one at a time, and checks that exactly this answer is
/// reported.
#[test]
fn a_wrong_answer_is_reported_where_it_is() {
    let mut mutants = 0;
    for line in SAMPLES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        for index in 0..case["events"].as_array().unwrap().len() {
            for field in ["expect", "remaining", "retry_after_ms", "wait_ms", "violated"] {
                let mut mutant = case.clone();
                let Some(value) = mutant["events"][index].get_mut(field) else { continue };
                *value = match &*value {
                    Value::String(word) if word == "allow" => "deny".into(),
                    Value::String(_) => "allow".into(),
                    Value::Number(number) => (number.as_u64().unwrap() + 1).into(),
                    Value::Null => 1.into(),
                    _ => vec![7].into(),
                };
                let found = failures(&mutant.to_string());
                let place = (found.len(), found[0].event, found[0].field);
                assert_eq!(place, (1, Some(index), field), "{mutant}: {found:?}");
                mutants += 1;
            }
        }
    }
    assert!(mutants > 120, "{mutants}");
}

#[test]
fn parameters_that_are_taken_or_refused_wrongly_are_reported() {
    let fine =
        r#"{"id":"a","algorithm":"sliding_log","params":{"limit":1,"window_ms":5},"invalid":true}"#;
    let wrong =
        r#"{"id":"b","algorithm":"sliding_log","params":{"limit":1,"window_ms":0},"events":[]}"#;
    let later = r#"{"id":"c","algorithm":"sliding_log","params":{"limit":1,"window_ms":5},"events":[
        {"t_ms":0,"set_params":{"limit":70000}},{"t_ms":0,"expect":"allow","remaining":0}]}"#;
    let found = failures(&format!("{fine}\n{wrong}\n{}", later.replace('\n', " ")));
    let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown[0], "a: params: expected refused, got accepted");
    assert!(shown[1].starts_with("b: params: expected accepted, got window_ms: "), "{}", shown[1]);
    assert!(
        shown[2].starts_with("c: event 0: set_params: expected accepted, got limit: "),
        "{}",
        shown[2]
    );
    assert_eq!(shown.len(), 3);
}

#[test]
fn a_shaper_answers_when_to_act() {
    let mut shaper = model(&["shaper 5/s queue 2"]);
    assert_eq!(gist(&shaper.at(0, &peek(4))), never(3));
    assert_eq!(gist(&shaper.at(0, &check(1))), pass(0, 2));
    assert_eq!(gist(&shaper.at(0, &check(1))), pass(200 * MS, 1));
    assert_eq!(gist(&shaper.at(50 * MS, &reserve(1, 300 * MS))), refuse(50 * MS, 1));
    assert_eq!(gist(&shaper.at(50 * MS, &reserve(1, 350 * MS))), pass(350 * MS, 0));
    // 2.75 units are queued: the next unit is free after 150 ms.
    assert_eq!(gist(&shaper.at(50 * MS, &check(1))), refuse(150 * MS, 0));
    assert_eq!(shaper.at(50 * MS, &peek(1)).policies[0].reset, Some(550 * MS));
    assert_eq!(gist(&model(&["shaper 0/s queue 2"]).at(0, &check(1))), never(0));
}

/// Tests 2/s over 4 s: the store holds 8 permits, half of them cold. A permit costs 0.5 s when warm
/// and 1.5 s from a full store, with a straight line between 4 and 8.
#[test]
fn a_warm_up_costs_the_area_under_its_line() {
    let next = |units: u64| {
        let mut warm_up = model(&["warmup 2/s over 4s"]);
        let first = warm_up.at(0, &check(units));
        assert_eq!((first.allowed, first.wait_us, first.policies[0].limit), (true, 0, None));
        assert_eq!(first.policies[0].remaining, Some(0));
        match warm_up.at(0, &check(1)).retry {
            Retry::After(micros) => micros,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(next(1), 1_375 * MS); // (1.5 + 1.25) / 2
    assert_eq!(next(4), 4_000 * MS); // 4 × (1.5 + 0.5) / 2
    assert_eq!(next(5), 4_500 * MS);
    assert_eq!(next(8), 6_000 * MS);
    assert_eq!(next(10), 7_000 * MS); // two of them fresh

    let mut warm_up = model(&["warmup 2/s over 4s"]);
    warm_up.at(0, &check(1));
    assert_eq!(warm_up.at(1_374 * MS, &check(1)).retry, Retry::After(MS));
    assert_eq!(warm_up.at(1_000 * MS, &reserve(1, 374 * MS)).retry, Retry::After(MS));
    let second = warm_up.at(1_000 * MS, &reserve(1, 375 * MS));
    assert_eq!((second.allowed, second.wait_us), (true, 375 * MS));
    // From 7 to 6 costs (1.25 + 1) / 2, after the 0.375 s still owed. Then two permits return per
    // second.
    assert_eq!(warm_up.at(1_000 * MS, &peek(1)).retry, Retry::After(1_500 * MS));
    assert_eq!(warm_up.at(1_000 * MS, &peek(1)).policies[0].reset, Some(2_500 * MS));
    assert_eq!(warm_up.at(2_500 * MS, &peek(1)).policies[0].remaining, None);
    // Giving one back reduces the debt by 0.5 s; the store gets nothing of it.
    warm_up.at(1_000 * MS, &refund(1));
    assert_eq!(warm_up.at(1_000 * MS, &peek(1)).retry, Retry::After(1_000 * MS));
    // The remaining second of debt is worth two; two more fill the store.
    warm_up.at(1_000 * MS, &refund(4));
    assert_eq!(warm_up.at(1_000 * MS, &peek(1)).policies[0].reset, Some(0));
}

#[test]
fn a_warm_up_rounds_each_grant_up_to_a_microsecond() {
    // A permit takes a third of a second: the store of 3·10^-6 × 2 µs is almost nothing.
    let mut warm_up = model(&["warmup 3/s over 2us"]);
    warm_up.at(0, &check(1));
    // 6/10^6 of a unit is stored. Half of it costs twice as much, the other half as much as a fresh
    // one. (1 + 3·10^-6) / 3 s = 333,334.33 µs.
    assert_eq!(warm_up.at(0, &check(1)).retry, Retry::After(333_335));
}

#[test]
fn calendar_days_have_the_hours_that_their_zone_gives_them() {
    for (start, hours) in [
        (1_679_785_200, 23), // 26 March 2023
        (1_679_868_000, 24),
        (1_698_530_400, 25), // 29 October 2023
    ] {
        let mut day = model(&["fixed_window 2/d calendar Europe/Berlin"]);
        let start = start * S;
        let mut apply = |at: u64, units| gist(&day.apply(at, b"key", &check(units)).unwrap());
        assert_eq!(apply(start - 1, 2), pass(0, 0));
        assert_eq!(apply(start - 1, 1), refuse(1, 0));
        assert_eq!(apply(start, 1), pass(0, 1));
        assert_eq!(apply(start, 2), refuse(hours * HOUR, 1));
        assert_eq!(apply(start + hours * HOUR - 1, 2), refuse(1, 1));
        assert_eq!(apply(start + hours * HOUR, 3), never(2));
        assert_eq!(apply(start + hours * HOUR, 2), pass(0, 0));
    }
}

#[test]
fn calendar_weeks_begin_on_monday_and_months_and_years_where_the_calendar_says() {
    for (spec, start, end) in [
        ("fixed_window 1/month calendar Europe/Berlin", 1_706_742_000, 1_709_247_600), // February 2024
        ("fixed_window 1/year calendar Asia/Tokyo", 1_735_657_200, 1_767_193_200),     // 2025
        ("fixed_window 1/w calendar UTC", 1_719_792_000, 1_720_396_800), // from 1 July 2024
        // From Sunday 30 June 2024, 06:00.
        ("fixed_window 1/w calendar UTC start sunday at 06:00", 1_719_727_200, 1_720_332_000),
        // From 31 January 2023, to 28 February.
        ("fixed_window 1/month calendar UTC from 31", 1_675_123_200, 1_677_542_400),
        // From 6 April 2024 in London, where summer time has begun.
        ("fixed_window 1/year calendar Europe/London from 04-06", 1_712_358_000, 1_743_894_000),
    ] {
        let mut window = model(&[spec]);
        let mut apply = |at: u64| window.apply(at, b"key", &check(1)).unwrap();
        assert!(apply(start * S - 1).allowed, "{spec}");
        let first = apply(start * S);
        assert_eq!(
            (first.allowed, first.policies[0].reset),
            (true, Some((end - start) * S)),
            "{spec}"
        );
        assert_eq!(apply(end * S - 1).retry, Retry::After(1), "{spec}");
        assert!(apply(end * S).allowed, "{spec}");
    }
}

#[test]
fn a_denied_request_changes_nothing_unless_the_policy_says_so() {
    for (spec, retries) in [
        // Half a unit remains; the second attempt charges it.
        ("token_bucket 1/s burst 2", [500 * MS, 500 * MS]),
        ("token_bucket 1/s burst 2 charge_denied", [500 * MS, 1_000 * MS]),
    ] {
        let mut bucket = model(&[spec]);
        bucket.at(0, &check(2));
        for retry in retries {
            assert_eq!(gist(&bucket.at(500 * MS, &check(1))), refuse(retry, 0), "{spec}");
        }
        assert_eq!(bucket.at(500 * MS, &check(3)).retry, Retry::Never);
    }

    let mut window = model(&["fixed_window 5/s aligned charge_denied"]);
    window.at(0, &check(3));
    assert_eq!(gist(&window.at(0, &check(9))), never(0));
    assert_eq!(gist(&window.at(S, &check(6))), never(0));

    let mut window = model(&["fixed_window 5/s aligned count_denied"]);
    let used = |answer: &Answer| answer.policies[0].used;
    assert_eq!(used(&window.at(0, &check(3))), Some(3));
    let over = window.at(0, &check(3));
    assert_eq!((gist(&over), used(&over)), (refuse(S, 0), Some(6)));
    let never_fits = window.at(0, &check(9));
    assert_eq!((gist(&never_fits), used(&never_fits)), (never(0), Some(15)));
    assert_eq!(used(&window.at(0, &peek(1))), Some(15));
    assert_eq!(used(&window.at(0, &check(MAX_EXACT))), Some(MAX_EXACT));
    assert_eq!(used(&window.at(0, &check(1))), Some(MAX_EXACT));
    assert_eq!(used(&window.at(S, &check(1))), Some(1));

    let mut log = model(&["sliding_log 5/s charge_denied"]);
    log.at(0, &check(5));
    // Five and three count. Without the oldest there would be fewer than five.
    assert_eq!(gist(&log.at(100 * MS, &check(3))), refuse(900 * MS, 0));
    assert_eq!(log.at(100 * MS, &peek(1)).policies[0].reset, Some(S));
    // Five, three and three: the oldest is no longer needed.
    assert_eq!(gist(&log.at(200 * MS, &check(3))), refuse(900 * MS, 0));
    assert_eq!(gist(&log.at(200 * MS, &peek(2))), refuse(900 * MS, 0));
    assert_eq!(gist(&log.at(1_100 * MS, &check(2))), pass(0, 0));

    let mut both = model(&["sliding_counter 10/s charge_denied", "fixed_window 1/s aligned"]);
    assert_eq!(gist(&both.at(0, &check(4))), never(6));
    assert_eq!(gist(&both.at(0, &check(8))), never(0));
    assert_eq!(both.at(0, &peek(1)).binding, Some(0));
}

#[test]
fn a_shadow_is_judged_and_charged_as_if_it_were_alone() {
    let mut limit = model(&["token_bucket 1/s burst 3", "token_bucket 1/s burst 1 shadow"]);
    let first = limit.at(0, &check(1));
    assert_eq!(
        (first.allowed, first.policies[1].admitted, first.policies[1].remaining),
        (true, true, Some(0))
    );
    let second = limit.at(0, &check(1));
    assert_eq!((second.allowed, second.binding, second.policies[1].admitted), (true, None, false));
    assert_eq!(second.policies[1].retry, Retry::After(S));
    // A request that the other policy refuses is charged if the shadow alone would admit it.
    limit.at(0, &check(1));
    let fourth = limit.at(S, &each(&[3, 1]));
    assert_eq!(
        (fourth.allowed, fourth.binding, fourth.policies[1].admitted),
        (false, Some(0), true)
    );
    assert_eq!(limit.at(S, &peek(1)).policies[1].remaining, Some(0));
}

#[test]
fn a_cost_of_nothing_is_no_reason_to_refuse() {
    let mut limit = model(&["fixed_window 0/s", "sliding_window 4/s slices 4 cost 3"]);
    assert!(!limit.at(0, &check(1)).allowed);
    let answer = limit.at(0, &each(&[0, 1]));
    assert_eq!(
        (answer.allowed, answer.policies[0].remaining, answer.policies[1].remaining),
        (true, Some(0), Some(3))
    );
    let unsaid = model(&["sliding_window 4/s slices 4 cost 3"])
        .at(0, &Operation::Check { costs: Costs::Unsaid });
    assert_eq!(gist(&unsaid), pass(0, 1));
}

#[test]
fn a_ring_tells_its_current_slice_and_its_total() {
    let mut ring = model(&["sliding_window 10/s slices 4"]);
    ring.at(0, &check(2));
    ring.at(260 * MS, &check(3));
    let last = ring.at(499 * MS, &check(1));
    assert_eq!((last.policies[0].current_slice, last.policies[0].used), (Some(4), Some(6)));
    assert_eq!(last.policies[0].reset, Some(751 * MS));
    let idle = ring.at(1_000 * MS, &peek(1));
    assert_eq!((idle.policies[0].current_slice, idle.policies[0].used), (Some(0), Some(4)));
}

#[test]
fn as_many_as_you_can_grants_and_charges_the_same() {
    let mut limit = model(&["token_bucket 1/s burst 5", "fixed_window 3/s aligned"]);
    let first = limit.at(0, &up_to(9));
    assert_eq!(
        (first.granted, first.policies[0].remaining, first.policies[1].remaining),
        (Some(3), Some(2), Some(0))
    );
    let second = limit.at(250 * MS, &up_to(9));
    assert_eq!((second.allowed, second.granted, second.binding), (false, Some(0), Some(1)));
    assert_eq!(second.retry, Retry::After(750 * MS));
    assert_eq!(limit.at(S, &up_to(2)).granted, Some(2));
    assert_eq!(limit.at(S, &up_to(2)).granted, Some(1));
    assert_eq!(model(&["smooth 5/s"]).at(0, &up_to(1_000)).granted, Some(1_000));
}

#[test]
fn reservations_act_together_at_the_latest_instant() {
    let mut limit = model(&["token_bucket 2/s burst 2", "token_bucket 1/s burst 1 as slow"]);
    assert_eq!(gist(&limit.at(0, &reserve(1, 0))), pass(0, 1));
    assert_eq!(gist(&limit.at(0, &reserve(1, 999 * MS))), refuse(MS, 1));
    // Both act in a second. The faster one counts as idle until then, and owes two units and one.
    let second = limit.at(0, &reserve(1, S));
    assert_eq!(gist(&second), pass(S, 0));
    assert_eq!((second.policies[0].wait_us, second.policies[1].wait_us), (0, S));
    assert_eq!(second.policies[0].reset, Some(1_500 * MS));
    assert_eq!(limit.at(0, &check(1)).binding, Some(1));

    let mut window = model(&["token_bucket 2/s burst 2", "fixed_window 9/s"]);
    assert_eq!(window.apply(T, b"key", &reserve(1, 0)), Err(Refusal::NotReservable));
    // Next to a shaper, a window counts immediately.
    let mut limit = model(&["shaper 1/s queue 5", "fixed_window 2/s aligned"]);
    assert_eq!(limit.at(0, &check(2)).wait_us, 0);
    assert_eq!(limit.at(S, &check(2)).wait_us, S);
    assert_eq!(limit.at(S, &check(1)).binding, Some(1));
}

#[test]
fn units_given_back_are_there_again_and_never_more() {
    for (spec, remaining) in [
        ("token_bucket 1/d burst 5", [3, 5]),
        ("fixed_window 5/d", [3, 5]),
        ("fixed_window 5/d aligned", [3, 5]),
        ("sliding_log 5/d", [3, 5]),
        ("sliding_window 5/d slices 24", [3, 5]),
        ("sliding_counter 5/d", [3, 5]),
    ] {
        let mut limit = model(&[spec]);
        limit.at(0, &refund(2));
        limit.at(0, &check(4));
        assert_eq!(gist(&limit.at(1, &refund(2))), pass(0, remaining[0]), "{spec}");
        assert_eq!(gist(&limit.at(1, &refund(9))), pass(0, remaining[1]), "{spec}");
    }

    // The units of an old window aren't given back.
    let mut window = model(&["fixed_window 5/s aligned"]);
    window.at(0, &check(5));
    window.at(S, &check(1));
    assert_eq!(gist(&window.at(S, &refund(9))), pass(0, 5));
    // Two cells: only the units in the current one.
    let mut cells = model(&["sliding_counter 10/s"]);
    cells.at(0, &check(8));
    cells.at(S, &check(1));
    assert_eq!(gist(&cells.at(S, &refund(5))), pass(0, 2));
    // A log: the oldest first.
    let mut log = model(&["sliding_log 5/s"]);
    log.at(0, &check(2));
    log.at(400 * MS, &check(2));
    log.at(500 * MS, &refund(2));
    assert_eq!(log.at(500 * MS, &check(4)).retry, Retry::After(900 * MS));
    // A window opened by a request stays open; resetting the key closes it.
    let mut window = model(&["fixed_window 5/s"]);
    window.at(300 * MS, &check(1));
    window.at(300 * MS, &refund(1));
    assert_eq!(window.at(400 * MS, &peek(1)).policies[0].reset, Some(900 * MS));
    assert_eq!(window.at(400 * MS, &Operation::Reset).policies[0].reset, Some(0));
    assert_eq!(window.at(400 * MS, &check(1)).policies[0].reset, Some(S));
}

#[test]
fn a_charge_goes_into_debt() {
    for (spec, retry) in [
        ("token_bucket 2/s burst 2", 2_500 * MS),
        ("fixed_window 2/s aligned", S),
        ("sliding_log 2/s", S),
        // 6 units count for the whole next second and fade over it: 6·(1 − e) ≤ 1.
        ("sliding_counter 2/s", S + 833_334),
    ] {
        let mut limit = model(&[spec]);
        limit.at(0, &charge(6));
        assert_eq!(gist(&limit.at(0, &check(1))), refuse(retry, 0), "{spec}");
    }
    let mut smooth = model(&["smooth 2/s burst 1s start full"]);
    smooth.at(0, &charge(6));
    assert_eq!(gist(&smooth.at(0, &check(1))), refuse(2 * S, 0));
}

#[test]
fn numbers_that_no_state_can_hold_are_refused_and_change_nothing() {
    let mut limit = model(&["smooth 1/s", "sliding_log 9/s shadow"]);
    let costs = Costs::All(MAX_EXACT);
    assert_eq!(limit.apply(T, b"key", &Operation::Check { costs }), Err(Refusal::TooLarge));
    assert_eq!(limit.at(0, &check(3)).policies[1].remaining, Some(6));
    let mut window = model(&["fixed_window 9/d"]);
    window.at(0, &charge(MAX_EXACT));
    assert_eq!(window.apply(T, b"key", &charge(1)), Err(Refusal::TooLarge));
    window.at(0, &refund(MAX_EXACT));
    assert_eq!(gist(&window.at(0, &check(9))), pass(0, 0));
}

#[test]
fn a_state_too_far_ahead_of_its_own_clock_counts_as_made_now() {
    let own = Clock::Own { max_clock_back_us: 5 * S };
    for (spec, back, retry, restamped) in [
        ("token_bucket 1/s burst 1", 5 * S, S, false),
        ("token_bucket 1/s burst 1", 5 * S + 1, S, true),
        ("sliding_log 1/s", 5 * S + 1, S, true),
        ("fixed_window 1/s", 5 * S + 1, S, true),
        ("fixed_window 1/s aligned", 5 * S + 1, 1, true),
    ] {
        let mut limit = Model::with_clock(policies(&[spec]), own);
        limit.at(100 * S, &check(1));
        let back = 100 * S - back;
        for operation in [peek(1), check(1)] {
            let answer = limit.at(back, &operation);
            assert_eq!(
                (answer.retry, answer.policies[0].restamped),
                (Retry::After(retry), restamped),
                "{spec}"
            );
        }
        // A denial wrote the state, so its time continues from there.
        assert_eq!(limit.at(back + S, &check(1)).allowed, restamped, "{spec}");
    }
    let mut injected = model(&["token_bucket 1/s burst 1"]);
    injected.at(100 * S, &check(1));
    assert_eq!(injected.at(0, &check(1)).retry, Retry::After(S));
}

#[test]
fn new_numbers_keep_what_was_consumed_and_a_new_window_does_not() {
    let mut limit = model(&["token_bucket 3/s burst 9", "fixed_window 5/h"]);
    limit.at(0, &check(4));
    // After 0.1 s of the new rate 3.3 units are still owed, and 7/s counts in sevenths of a µs.
    limit.set_policies(policies(&["token_bucket 7/s burst 4", "fixed_window 9/h"]));
    let answer = limit.at(100 * MS, &peek(1));
    assert_eq!((answer.policies[0].remaining, answer.policies[1].remaining), (Some(0), Some(5)));
    assert_eq!(answer.policies[0].reset, Some(471_429));
    limit.set_policies(policies(&["token_bucket 7/s burst 4", "fixed_window 9/min"]));
    assert_eq!(limit.at(200 * MS, &peek(1)).policies[1].remaining, Some(9));
}
