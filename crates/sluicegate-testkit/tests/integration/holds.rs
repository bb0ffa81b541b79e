//! Tests of short holds against the reference model: a record of a charge gives the charged units
//! back.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::{
    Answer, Clock, Costs as Told, Leasing, Model, Operation as Asked, Refusal, Repeat, Settlement,
    differences, settlement_differences,
};
use sluicegate_conformance::schedules::{
    Dice, HoldStep, Kind, Numbers, Plan, Settling, each, random_policy,
};
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Book, LeaseReport, ReportedUnits};
use sluicegate_core::{
    Algorithm, Costs, Decision, Error, Hold, HoldFound, HoldId, OnExpiry, Operation, Policy,
    Request, Span, StoreErrorKind, Ticket,
};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};
use sluicegate_testkit::lua::StoredValue;

const START: u64 = 1_699_920_000_000_000;
const SUBJECT: &[u8] = b"alice";
const CLOCK: Clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };

fn span(micros: u64) -> Span {
    Span::from_micros(micros).unwrap()
}

/// Returns an id that no other hold of this program has.
fn new_id() -> HoldId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    HoldId::from_bytes(u128::from(NEXT.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// Compares complete decisions, including how much each policy gave back, which the model doesn't
/// report.
#[test]
fn the_scripts_settle_what_is_held_as_the_kernels_do() {
    assert_scripts_hold_as_the_kernels_do("holds", &Kind::HELD, false, OnExpiry::Keep);
}

#[test]
fn the_scripts_return_what_nobody_settles_as_the_kernels_do() {
    let on_expiry = OnExpiry::Return;
    assert_scripts_hold_as_the_kernels_do("returns", &Kind::HELD, false, on_expiry);
    assert_scripts_hold_as_the_kernels_do("returns of permits", &Kind::QUEUED, true, on_expiry);
}

#[test]
fn the_scripts_let_wait_as_the_kernels_do() {
    assert_scripts_hold_as_the_kernels_do("queues", &Kind::QUEUED, true, OnExpiry::Keep);
}

fn assert_scripts_hold_as_the_kernels_do(
    what: &str,
    kinds: &[Kind],
    queues: bool,
    on_expiry: OnExpiry,
) {
    for (name, clock) in [("injected", Clock::Injected), ("own", CLOCK)] {
        each(&format!("scripts with {what}, {name}"), 250, |seed| {
            let (bans, kinds) = (seed % 3 == 0, kinds.to_vec());
            let max_policies = 4;
            let may_step_back = seed % 4 < 2 || clock == Clock::Injected;
            let plan = Plan {
                kinds,
                clock,
                may_step_back,
                bans,
                pauses: seed % 4 == 1,
                max_policies,
                queues,
                on_expiry,
                ..Plan::default()
            };
            let schedule = plan.hold_schedule(seed);
            let ban = schedule.ban;
            let scripted = Scripted::new(schedule.policies.clone(), clock).banning(ban);
            let scripted = scripted.crowded(seed % 2 == 0);
            let kernels = Kernels::new(schedule.policies.clone(), clock).banning(ban);
            let mut scripted = scripted.with_on_expiry(on_expiry);
            let mut kernels = kernels.with_on_expiry(on_expiry);
            // If time doesn't step back and the numbers don't change, a key must not expire while
            // it is needed. But a state that starts empty expires after a day.
            let starts_empty = |policy: &Policy| policy.to_string().starts_with("smooth");
            scripted.expires = !may_step_back && !schedule.policies.iter().any(starts_empty);
            for (index, step) in schedule.steps.iter().enumerate() {
                let (got, expected) = match step {
                    HoldStep::SetPolicies(_) if scripted.expires => continue,
                    HoldStep::SetPolicies(policies) => {
                        scripted.set_policies(policies.clone());
                        kernels.set_policies(policies.clone());
                        continue;
                    }
                    HoldStep::Ask { now_us, key, operation, hold, ticket, once, .. } => {
                        let (operation, costs) = operation.for_store();
                        let asked = Request::new(operation, key).costs(costs);
                        let asked = hold.as_ref().map_or(asked, |hold| asked.hold(hold));
                        let asked = ticket.as_ref().map_or(asked, |ticket| asked.waiting(ticket));
                        let asked = once.map_or(asked, |once| asked.idempotent(once));
                        (scripted.ask(*now_us, &asked), kernels.ask(*now_us, &asked))
                    }
                    // Only a limit that a store has opened lists requests in flight.
                    HoldStep::List { .. } => continue,
                    HoldStep::Settle { now_us, key, id, how, .. } => {
                        let asked = match how {
                            Settling::Used(used) => Request::settle(key, *id, used),
                            Settling::Renewed(lasts) => Request::renew(key, *id, *lasts),
                        };
                        (scripted.ask(*now_us, &asked), kernels.ask(*now_us, &asked))
                    }
                };
                match (&got, &expected) {
                    (Ok(got), Ok(expected)) if is_renumbered(step) && !scripted.expires => {
                        let said = |it: &Decision| (it.is_allowed(), it.granted(), it.hold());
                        assert_eq!(said(got), said(expected), "step {index}\n{schedule}");
                        assert!(got.is_repeat() && expected.is_repeat(), "step {index}");
                    }
                    (Ok(got), Ok(expected)) => {
                        assert_eq!(got, expected, "step {index}\n{schedule}");
                    }
                    (Err(Error::Request(got)), Err(Error::Request(expected))) => {
                        assert_eq!(got.kind(), expected.kind(), "step {index}\n{schedule}");
                    }
                    _ => panic!("step {index}: {got:?} instead of {expected:?}\n{schedule}"),
                }
            }
        });
    }
}

/// Returns `true` if a step repeats an answer given under other numbers. Its policies may show
/// either numbers.
fn is_renumbered(step: &HoldStep) -> bool {
    let HoldStep::Ask { expected: Ok(answer), .. } = step else { return false };
    answer.repeat == Repeat::Renumbered
}

/// A charge, with the model before and after it.
struct Taken {
    id: HoldId,
    at: u64,
    units: u64,
    ends: u64,
    before: Model,
    after: Model,
}

/// Returns `true` if giving back restores the state before the charge, when no request came since.
/// This is so for states of few numbers; a record stores two such states.
fn is_small(policy: &Policy) -> bool {
    !matches!(policy.algorithm(), Algorithm::SlidingLog { .. } | Algorithm::SlidingWindow { .. })
}

/// Gives `most` units back in the model.
fn give_back(model: &mut Model, now: u64, policy: &Policy, taken: &Taken, most: u64) {
    let is_last = is_small(policy) && format!("{model:?}") == format!("{:?}", taken.after);
    let can_lower = matches!(
        policy.algorithm(),
        Algorithm::TokenBucket { .. }
            | Algorithm::Gcra { .. }
            | Algorithm::LeakyBucket { .. }
            | Algorithm::Smooth { .. }
    );
    let costs = |units| Told::Each(vec![units]);
    if is_last && most >= taken.units {
        *model = taken.before.clone();
    } else if is_last && can_lower {
        *model = taken.before.clone();
        let kept = Asked::Charge { costs: costs(taken.units - most) };
        model.apply(taken.at, SUBJECT, &kept).unwrap();
    } else {
        let given = Asked::GiveBack { costs: costs(most.min(taken.units)), taken_at_us: taken.at };
        model.apply(now, SUBJECT, &given).unwrap();
    }
}

#[test]
fn records_give_back_what_the_model_does_once_and_while_they_live() {
    each("holds", 300, |seed| {
        let mut dice = Dice::new(seed);
        let kind = dice.pick(&Kind::ALL);
        let policy = random_policy(&mut dice, kind, Numbers::Small);
        let mut scripted = Scripted::new(vec![policy.clone()], CLOCK).crowded(dice.one_in(2));
        let mut model = Model::with_clock(vec![policy.clone()], CLOCK);
        let mut held: Vec<Taken> = Vec::new();
        let mut now = START + dice.below(10_000_000_000);
        for step in 0..60 {
            now += dice.pick(&[0, 0, 1, 1_000, 30_000, 400_000, 9_000_000]);
            let units = dice.between(1, 4);
            let costs = [units];
            let told = Told::Each(vec![units]);
            let (expected, got, what) = match dice.below(10) {
                0..4 => {
                    let (before, id) = (model.clone(), new_id());
                    let life = dice.pick(&[1, 40_000, 2_000_000]);
                    let operation =
                        dice.pick(&[Operation::Check, Operation::Check, Operation::Charge]);
                    let asked = match operation {
                        Operation::Charge => Asked::Charge { costs: told },
                        _ => Asked::Check { costs: told },
                    };
                    let expected = model.apply(now, SUBJECT, &asked);
                    let request = Request::new(operation, SUBJECT).costs(Costs::Each(&costs));
                    let got = scripted.hold(now, &request, id, span(life));
                    if expected.as_ref().is_ok_and(|answer| answer.allowed) {
                        let after = model.clone();
                        held.push(Taken { id, at: now, units, ends: now + life, before, after });
                    }
                    (expected, got, "hold")
                }
                4..7 if !held.is_empty() => {
                    let index = dice.below_len(held.len());
                    let most = if dice.one_in(3) { dice.between(1, 3) } else { 5 };
                    let answer = scripted.give_back(now, SUBJECT, &[most], held[index].id);
                    let _ = answer.unwrap();
                    // In 1 of 2 cases the record is tried again, which has no effect.
                    let taken = if dice.one_in(2) {
                        held.swap_remove(index)
                    } else {
                        continue_with(&mut held, index)
                    };
                    if taken.ends > now {
                        give_back(&mut model, now, &policy, &taken, most);
                    }
                    peek(&mut scripted, &mut model, now, "give back")
                }
                7 if dice.one_in(4) => {
                    // A reset ends the records too.
                    held.iter_mut().for_each(|taken| taken.ends = 0);
                    model.apply(now, SUBJECT, &Asked::Reset).unwrap();
                    let _ = scripted.decide(now, SUBJECT, Operation::Reset, Costs::Own).unwrap();
                    peek(&mut scripted, &mut model, now, "reset")
                }
                8 => {
                    let expected = model.apply(now, SUBJECT, &Asked::Charge { costs: told });
                    let got = scripted.decide(now, SUBJECT, Operation::Charge, Costs::Each(&costs));
                    (expected, got, "charge")
                }
                _ => {
                    let expected = model.apply(now, SUBJECT, &Asked::Check { costs: told });
                    let got = scripted.decide(now, SUBJECT, Operation::Check, Costs::Each(&costs));
                    (expected, got, "check")
                }
            };
            let differences = differences(&expected, &got);
            assert!(differences.is_empty(), "{policy}, step {step}, {what}: {differences:#?}");
        }
    });
}

/// Returns a record for another try. It is removed, so it counts as expired.
fn continue_with(held: &mut [Taken], index: usize) -> Taken {
    let Taken { id, at, units, ends, before, after } = &mut held[index];
    let ends = std::mem::replace(ends, 0);
    Taken { id: *id, at: *at, units: *units, ends, before: before.clone(), after: after.clone() }
}

type Both = (Result<Answer, Refusal>, Result<Decision, Error>, &'static str);

fn peek(scripted: &mut Scripted, model: &mut Model, now: u64, after: &'static str) -> Both {
    let expected = model.apply(now, SUBJECT, &Asked::Peek { costs: Told::All(1) });
    let got = scripted.decide(now, SUBJECT, Operation::Peek, Costs::Each(&[1]));
    (expected, got, after)
}

#[test]
fn records_lapse_with_their_time() {
    let mut scripted = Scripted::new(vec!["fixed_window 1000/h".parse().unwrap()], CLOCK);
    let request = Request::check(SUBJECT);
    for number in 0..600 {
        let _ = scripted.hold(START + number, &request, new_id(), span(1_000)).unwrap();
    }
    let records = scripted.records();
    // The first 8 are stored inline.
    assert_eq!(records.len(), 600 - 8);
    let lives = |record: &StoredValue| record.expires_ms == Some(START / 1_000 + 2);
    assert!(records.values().all(lives), "{records:?}");
    scripted.expire(START + 4_000);
    assert!(scripted.records().is_empty());
    // The charges remain, and so does everything else in the value.
    let left = scripted.decide(START + 4_000, SUBJECT, Operation::Peek, Costs::Own).unwrap();
    assert_eq!(left.remaining(), Some(400));
}

#[test]
fn what_was_in_flight_is_dropped_some_at_a_time() {
    let mut scripted = Scripted::new(vec!["concurrency 1000 hold 1h".parse().unwrap()], CLOCK);
    scripted.expires = false;
    let request = Request::check(SUBJECT);
    let take = |scripted: &mut Scripted, at| {
        let hold = Hold { id: new_id(), lasts: Duration::from_micros(1_000) };
        assert!(scripted.ask(START + at, &request.hold(&hold)).unwrap().is_allowed());
    };
    (0..600).for_each(|number| take(&mut scripted, number));
    assert_eq!(scripted.holds(SUBJECT).unwrap().members.len(), 600);
    (0..3).for_each(|_| take(&mut scripted, 10_000));
    assert_eq!(scripted.holds(SUBJECT).unwrap().members.len(), 600 - 3 * Book::ENDED + 3);
    // It is kept as long as the count of its records, which lasts at most half a hold's duration
    // longer.
    let ends = scripted.holds(SUBJECT).unwrap().expires_ms.unwrap();
    assert!((START / 1_000 + 12..=START / 1_000 + 13).contains(&ends), "{ends}");
    // The key itself expires with the last record.
    scripted.expire(START + 20_000);
    assert!(scripted.holds(SUBJECT).is_none());
}

/// Tests that a reset ends a record wherever it is stored, but not a later one with its id.
#[test]
fn a_reset_ends_what_is_held_and_nothing_that_is_held_later() {
    for crowded in [false, true] {
        let scripted = Scripted::new(vec!["token_bucket 1/h burst 10".parse().unwrap()], CLOCK);
        let mut scripted = scripted.crowded(crowded);
        let settle = |scripted: &mut Scripted, at, id| {
            let request = Request::settle(SUBJECT, id, &[Some(0)]);
            scripted.ask(at, &request).unwrap().hold_found().unwrap()
        };
        let id = new_id();
        let hold = Hold { id, lasts: Duration::from_secs(60) };
        let request = Request::check(SUBJECT).hold(&hold);
        for round in 0..3 {
            let forgotten = |scripted: &mut Scripted| {
                let reset = scripted.decide(START + round, SUBJECT, Operation::Reset, Costs::Own);
                reset.unwrap().forgotten()
            };
            assert!(scripted.ask(START + round, &request).unwrap().is_allowed());
            assert_eq!(forgotten(&mut scripted), Some(true));
            assert_eq!(forgotten(&mut scripted), Some(false));
            assert_eq!(settle(&mut scripted, START + round, id), HoldFound::Unknown);
            assert_eq!(scripted.records().len(), usize::from(crowded));
        }
        assert!(scripted.ask(START + 3, &request).unwrap().is_allowed());
        assert_eq!(settle(&mut scripted, START + 3, id), HoldFound::Live);
    }
}

#[test]
fn a_record_that_lives_longer_is_not_cut_short_by_another() {
    let mut scripted = Scripted::new(vec!["fixed_window 10/h".parse().unwrap()], CLOCK);
    let (long, request) = (new_id(), Request::check(SUBJECT));
    let _ = scripted.hold(START, &request, long, span(60_000_000)).unwrap();
    let _ = scripted.hold(START, &request, new_id(), span(1_000)).unwrap();
    let _ = scripted.give_back(START + 30_000_000, SUBJECT, &[1], long).unwrap();
    let left = scripted.decide(START + 30_000_000, SUBJECT, Operation::Peek, Costs::Own).unwrap();
    assert_eq!(left.remaining(), Some(9));
}

/// The value stores the number of permits in use; the records contain it too.
#[test]
fn what_is_in_flight_is_added_up_anew_when_its_sum_is_lost() {
    let mut scripted = Scripted::new(vec!["concurrency 10 hold 30s".parse().unwrap()], CLOCK);
    scripted.expires = false;
    for (number, units) in [(0, 3), (1, 4)] {
        let hold = Hold { id: new_id(), lasts: Duration::from_micros(1_000_000 * (number + 1)) };
        let request = Request::check(SUBJECT).hold(&hold);
        let costs = [units];
        let taken = scripted.ask(START, &request.costs(Costs::Each(&costs))).unwrap();
        assert!(taken.is_allowed());
    }
    let remaining = |scripted: &mut Scripted, at| {
        let peek = scripted.decide(START + at, SUBJECT, Operation::Peek, Costs::Own).unwrap();
        peek.remaining()
    };
    assert_eq!(remaining(&mut scripted, 0), Some(3));
    scripted.store(HashMap::new());
    assert_eq!(remaining(&mut scripted, 0), Some(3));
    assert_eq!(remaining(&mut scripted, 1_000_000), Some(6));
    assert_eq!(remaining(&mut scripted, 2_000_000), Some(10));
}

#[test]
fn a_full_table_refuses_and_charges_nothing() {
    let policies = vec!["token_bucket 1/h burst 2000000".parse().unwrap()];
    let mut scripted = Scripted::new(policies, CLOCK).crowded(true);
    let request = Request::check(SUBJECT);
    let _ = scripted.hold(START, &request, new_id(), span(1_000_000)).unwrap();
    scripted.count_holds(SUBJECT, 65_536);
    let before = scripted.stored();
    let error = scripted.hold(START, &request, new_id(), span(1_000_000)).unwrap_err();
    let Error::Store(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), StoreErrorKind::Overloaded, "{error}");
    assert!(error.to_string().contains("65536 decisions"), "{error}");
    assert_eq!(scripted.stored(), before);
    // Later they have expired.
    assert!(scripted.hold(START + 2_000_000, &request, new_id(), span(1_000_000)).is_ok());
}

/// Tests new numbers while units are held: the units that drained since are counted at the larger
/// rate.
#[test]
fn a_new_rate_gives_back_no_more_than_either_withholds() {
    for (then, now, expected) in [
        // 4 units taken; 2 s at 1/s, or at 1/2s.
        ("token_bucket 1/s burst 10", "token_bucket 1/2s burst 10", 7),
        ("token_bucket 1/2s burst 10", "token_bucket 1/s burst 10", 8),
        ("token_bucket 3/s burst 10", "token_bucket 1/s burst 10", 6),
    ] {
        let mut scripted = Scripted::new(vec![then.parse().unwrap()], CLOCK);
        let id = new_id();
        let request = Request::check(SUBJECT).costs(Costs::Each(&[4]));
        let _ = scripted.hold(START, &request, id, span(60_000_000)).unwrap();
        scripted.set_policies(vec![now.parse().unwrap()]);
        // Another request is charged, so the state has changed.
        let _ = scripted.decide(START, SUBJECT, Operation::Charge, Costs::Each(&[2])).unwrap();
        let left = scripted.give_back(START + 2_000_000, SUBJECT, &[9], id).unwrap();
        assert_eq!(left.remaining(), Some(expected), "{then}, then {now}");
    }
}

/// Tests that each policy gives back its own units, and none if it should keep them.
#[test]
fn each_policy_gives_back_as_much_as_it_is_told_to() {
    let specs = ["fixed_window 10/h as a", "gcra 1/h burst 10 as b", "sliding_log 10/h as c"];
    let policies: Vec<Policy> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
    let mut scripted = Scripted::new(policies, CLOCK);
    let id = new_id();
    let request = Request::check(SUBJECT).costs(Costs::Each(&[3, 0, 5]));
    let _ = scripted.hold(START, &request, id, span(1_000_000)).unwrap();
    let left = scripted.give_back(START, SUBJECT, &[2, 7, 0], id).unwrap();
    let left: Vec<_> = left.policies().map(|policy| policy.remaining().unwrap()).collect();
    assert_eq!(left, [9, 10, 5]);
}

/// Tests that requests, retries, takings and releases cost a bounded number of commands, regardless
/// of the number of waiters.
#[test]
fn a_long_queue_costs_no_more_to_ask_than_a_short_one() {
    let policy: Policy = "concurrency 2 hold 1min queue 1000".parse().unwrap();
    let mut scripted = Scripted::new(vec![policy], CLOCK);
    let ticket = Ticket { priority: 0, lives: Span::SECOND };
    let ask = |scripted: &mut Scripted, hold: &Hold| {
        let request = Request::check(SUBJECT).hold(hold).waiting(&ticket);
        let before = scripted.calls();
        let (decision, instructions) = scripted.instructions(|it| it.ask(START, &request));
        (decision.unwrap(), scripted.calls() - before, instructions)
    };
    let holds: Vec<Hold> =
        (0..402).map(|_| Hold { id: new_id(), lasts: Duration::from_secs(60) }).collect();
    let (mut costs, mut steps) = (Vec::new(), Vec::new());
    for (number, hold) in holds.iter().enumerate() {
        let (decision, calls, instructions) = ask(&mut scripted, hold);
        assert_eq!(decision.is_allowed(), number < 2);
        costs.push(calls);
        steps.push(instructions);
    }
    assert_eq!(costs[400], costs[10], "{costs:?}");
    assert!(steps[400] <= steps[10] + 50, "{steps:?}");
    let (_, again, _) = ask(&mut scripted, &holds[300]);
    assert!(again <= costs[10] + 2, "{again} commands to ask again");
    let settle = Request::settle(SUBJECT, holds[0].id, &[Some(0)]);
    let before = scripted.calls();
    assert!(scripted.ask(START, &settle).unwrap().is_allowed());
    let released = scripted.calls() - before;
    let (decision, taken, _) = ask(&mut scripted, &holds[2]);
    assert!(decision.is_allowed());
    assert!(released <= 25 && taken <= 25, "{released} to release, {taken} to take");
}

/// Tests that holds of one policy, bucket or permits, use the fast path: few commands and few
/// instructions.
#[test]
fn holding_and_settling_have_a_short_way() {
    for (spec, crowded, most, steps) in [
        ("token_bucket 1/h burst 100", false, [3, 3], 700),
        ("token_bucket 1/h burst 100", true, [4, 5], 900),
        ("concurrency 100 hold 1h", false, [5, 6], 700),
    ] {
        let mut scripted = Scripted::new(vec![spec.parse().unwrap()], CLOCK).crowded(crowded);
        let hold = || Hold { id: new_id(), lasts: Duration::from_secs(60) };
        let mut ask = |at: u64, request: &Request<'_>| {
            let before = scripted.calls();
            let (asked, instructions) = scripted.instructions(|it| it.ask(START + at, request));
            assert!(asked.unwrap().is_allowed());
            (scripted.calls() - before, instructions)
        };
        // The first two learn when records end.
        let [first, second, third] = [hold(), hold(), hold()];
        let _ = ask(0, &Request::check(SUBJECT).hold(&first));
        let _ = ask(1, &Request::check(SUBJECT).hold(&second));
        let taken = ask(2, &Request::check(SUBJECT).hold(&third));
        let settled = ask(3, &Request::settle(SUBJECT, second.id, &[Some(0)]));
        assert_eq!([taken.0, settled.0], most, "{spec}");
        assert!(taken.1 < steps && settled.1 < steps, "{spec}: {taken:?}, {settled:?}");
    }
}

/// Numbers of one bucket.
const NUMBERS: [&str; 6] = [
    "100/s burst 50",
    "3/7ms burst 200",
    "10/s burst 1000",
    "1/s burst 40",
    "7/us burst 9",
    "0/s burst 60",
];

fn policy_of(numbers: &str) -> Vec<Policy> {
    vec![format!("token_bucket {numbers} as tokens").parse().unwrap()]
}

/// Tests leases and holds of one bucket while its numbers and the clock change. Scripts and kernels
/// must give equal answers. Without steps back they also answer like the model.
#[test]
fn leases_beside_what_is_held_are_judged_alike() {
    let (mut leased, mut settled) = (0, 0);
    each("leases beside holds", 60, |seed| {
        let mut dice = Dice::new(seed);
        let clock = if dice.one_in(2) { CLOCK } else { Clock::Injected };
        let policies = policy_of(dice.pick(&NUMBERS));
        let mut scripted = Scripted::new(policies.clone(), clock).crowded(dice.one_in(2));
        let mut kernels = Kernels::new(policies.clone(), clock);
        let mut model = Some(Model::with_clock(policies, clock));
        let steps_back = dice.one_in(3);
        // If time doesn't step back, a key must not expire while it is needed.
        scripted.expires = !steps_back;
        let (mut now, mut holds, mut slots) = (START, Vec::new(), Vec::new());
        // When the clock steps back, an expired hold exists or is gone.
        let (mut latest, mut ends) = (START, HashMap::new());
        for step in 0..100 {
            latest = latest.max(now);
            now += dice.pick(&[0, 0, 1, 1_000, 30_000, 400_000, 9_000_000]);
            if steps_back && dice.one_in(12) {
                now -= dice.pick(&[1, 2_000, 3_000_000, 90_000_000]);
                model = None;
            }
            if dice.one_in(25) {
                let policies = policy_of(dice.pick(&NUMBERS));
                scripted.set_policies(policies.clone());
                kernels.set_policies(policies.clone());
                if let Some(model) = &mut model {
                    model.set_policies(policies);
                }
                continue;
            }
            let costs = [dice.between(1, 12)];
            let told = Told::Each(costs.to_vec());
            let lasts =
                span(dice.pick(&[1_000, 50_000, 50_001, 2_000_000, 60_000_000, 86_400_000_000]));
            let (mut expected, mut settlement) = (None, None);
            let report;
            let leasing;
            let used;
            let hold;
            let request = match dice.below(9) {
                0 | 1 => {
                    hold = Hold {
                        id: HoldId::from_bytes(random_bytes(&mut dice)),
                        lasts: lasts.into(),
                    };
                    holds.push(hold.id);
                    ends.insert(hold.id, now + lasts.as_micros());
                    let operation =
                        dice.pick(&[Operation::Check, Operation::Charge, Operation::Take]);
                    let asked = match operation {
                        Operation::Charge => Asked::Charge { costs: told },
                        Operation::Take => Asked::Take { costs: told },
                        _ => Asked::Check { costs: told },
                    };
                    expected =
                        model.as_mut().map(|it| it.apply_holding(now, SUBJECT, &asked, &hold));
                    Request::new(operation, SUBJECT).costs(Costs::Each(&costs)).hold(&hold)
                }
                2 | 3 if !holds.is_empty() => {
                    let id = dice.pick(&holds);
                    if steps_back && ends[&id] <= latest {
                        continue;
                    }
                    used = [Some(dice.below(15)).filter(|_| !dice.one_in(5))];
                    settlement = model.as_mut().map(|it| it.settle(now, SUBJECT, id, &used));
                    Request::settle(SUBJECT, id, &used)
                }
                4 if !holds.is_empty() => {
                    let id = dice.pick(&holds);
                    if steps_back && ends[&id] <= latest {
                        continue;
                    }
                    let end = ends[&id].min(now + lasts.as_micros());
                    ends.insert(id, end);
                    settlement =
                        model.as_mut().map(|it| it.renew(now, SUBJECT, id, lasts.as_micros()));
                    Request::renew(SUBJECT, id, lasts)
                }
                5 | 6 => {
                    let units = ReportedUnits { spent: dice.below(4), returned: dice.below(4) };
                    let told_of = slots.iter().copied().filter(|_| dice.one_in(3)).take(8);
                    report = told_of.map(|slot| LeaseReport { slot, units: vec![units] }).collect();
                    let asked = Leasing {
                        want: dice.below(30),
                        width: span(dice.pick(&[1_000, 200_000, 10_000_000])),
                        tag: dice.below(1 << 50),
                        reports: report,
                        pace: None,
                    };
                    let check = Asked::Check { costs: told };
                    expected = model
                        .as_mut()
                        .map(|it| it.apply_leasing(now, SUBJECT, &check, Some(&asked)));
                    leasing = asked;
                    let asked = leasing.for_store();
                    let request =
                        Request::check(SUBJECT).costs(Costs::Each(&costs)).leasing(&asked);
                    let (got, same) = (scripted.ask(now, &request), kernels.ask(now, &request));
                    compare(seed, step, (&got, &same), expected, None);
                    if let Some(lease) = got.ok().and_then(|got| got.lease()) {
                        leased += 1;
                        slots.push(lease.slot);
                    }
                    continue;
                }
                7 if dice.one_in(12) => {
                    expected = model.as_mut().map(|it| it.apply(now, SUBJECT, &Asked::Reset));
                    Request::new(Operation::Reset, SUBJECT)
                }
                7 => {
                    let within_us = dice.pick(&[0, 50_000, 5_000_000]);
                    let asked = Asked::Reserve { costs: told, within_us };
                    expected = model.as_mut().map(|it| it.apply(now, SUBJECT, &asked));
                    let reserve = Operation::Reserve { within: span(within_us) };
                    Request::new(reserve, SUBJECT).costs(Costs::Each(&costs))
                }
                _ => {
                    let (operation, asked) = if dice.one_in(2) {
                        (Operation::Refund, Asked::Refund { costs: told })
                    } else {
                        (Operation::Check, Asked::Check { costs: told })
                    };
                    expected = model.as_mut().map(|it| it.apply(now, SUBJECT, &asked));
                    Request::new(operation, SUBJECT).costs(Costs::Each(&costs))
                }
            };
            let (got, same) = (scripted.ask(now, &request), kernels.ask(now, &request));
            compare(seed, step, (&got, &same), expected, settlement);
            settled += usize::from(got.is_ok_and(|got| got.hold_found() == Some(HoldFound::Live)));
        }
    });
    assert!(leased > 50 && settled > 100, "{leased} leases, {settled} settlements");
}

fn random_bytes(dice: &mut Dice) -> [u8; 16] {
    (u128::from(dice.next()) << 64 | u128::from(dice.next())).to_be_bytes()
}

fn compare(
    seed: u64,
    step: usize,
    (got, same): (&Result<Decision, Error>, &Result<Decision, Error>),
    expected: Option<Result<Answer, Refusal>>,
    settlement: Option<Result<Settlement, Refusal>>,
) {
    match (got, same) {
        (Ok(got), Ok(same)) => assert_eq!(got, same, "seed {seed}, step {step}"),
        (Err(Error::Request(got)), Err(Error::Request(same))) => {
            assert_eq!(got.kind(), same.kind(), "seed {seed}, step {step}");
        }
        _ => panic!("seed {seed}, step {step}: {got:?} instead of {same:?}"),
    }
    let mut differing = expected.map_or_else(Vec::new, |it| differences(&it, got));
    differing.extend(settlement.into_iter().flat_map(|it| settlement_differences(&it, got)));
    assert!(differing.is_empty(), "seed {seed}, step {step}: {differing:#?}");
}
