//! Tests of the Lua scripts in an embedded interpreter against the reference model, with random
//! schedules. Keys expire in virtual time, so a TTL that is too short shows as a wrong answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate_conformance::reference::{Clock, Leasing, differences};
use sluicegate_conformance::schedules::{Kind, Leases, Plan, Schedule, Step, each};
use sluicegate_core::{
    Algorithm, Costs, DeniedCharge, Enforcement, Operation, Policy, Request, Span, Start,
};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

fn assert_scripts_answer_like_the_model(schedule: &Schedule, expires: bool) {
    let mut scripted =
        Scripted::new(schedule.policies.clone(), schedule.clock).banning(schedule.ban);
    scripted.expires = expires;
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => scripted.set_policies(policies.clone()),
            Step::Request(request) => {
                let before = scripted.stored();
                let (operation, costs) = request.operation.for_store();
                let leasing = request.leasing.as_deref().map(Leasing::for_store);
                let mut asked = Request::new(operation, &request.key).costs(costs);
                if let Some(leasing) = &leasing {
                    asked = asked.leasing(leasing);
                }
                let got = scripted.ask(request.now_us, &asked);
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
                let plain_denial = got.as_ref().is_ok_and(|decision| {
                    let is_counted = schedule.ban.is_some() && decision.policies().len() > 0;
                    decision.is_denied() && !decision.warnings().restamped && !is_counted
                }) && scripted.limit().members().iter().all(|member| {
                    member.policy().enforcement() == Enforcement::Enforced
                        && member.policy().denied_charge() == DeniedCharge::Free
                });
                // Reports are applied regardless of the request's outcome.
                let told = leasing.is_some_and(|leasing| !leasing.reports.is_empty());
                let changes_nothing =
                    got.is_err() || plain_denial && !told || operation == Operation::Peek;
                if changes_nothing && schedule.clock == Clock::Injected {
                    assert_eq!(
                        before,
                        scripted.stored(),
                        "step {index} changed the store\n{schedule}"
                    );
                }
                assert!(
                    scripted.stored().values().all(|stored| stored.expires_ms.is_some()),
                    "a key without a life at step {index}\n{schedule}"
                );
            }
        }
    }
}

#[test]
fn every_kind_alone_under_injected_time() {
    for kind in Kind::ALL {
        let plan = Plan { kinds: vec![kind], max_policies: 1, ..Plan::default() };
        each(&format!("scripts {kind:?}"), 100, |seed| {
            assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
        });
    }
}

#[test]
fn composites_under_injected_time() {
    each("scripts composites", 400, |seed| {
        assert_scripts_answer_like_the_model(&Plan::default().schedule(seed), false);
    });
}

#[test]
fn bans_under_injected_time() {
    let plan = Plan { bans: true, max_policies: 3, ..Plan::default() };
    each("scripts bans", 300, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}

#[test]
fn bans_under_a_clock_of_the_servers_own() {
    let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
    let plan = Plan { bans: true, max_policies: 3, clock, ..Plan::default() };
    each("scripts bans own clock back", 300, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}

#[test]
fn a_key_with_bans_lives_until_it_equals_a_fresh_one() {
    let plan = Plan {
        bans: true,
        max_policies: 3,
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts bans expire", 600, |seed| {
        let mut schedule = plan.schedule(seed);
        if schedule.policies.iter().any(starts_empty) {
            keep_the_first_day(&mut schedule);
        }
        assert_scripts_answer_like_the_model(&schedule, true);
    });
}

#[test]
fn pauses_under_injected_time_and_a_clock_of_the_servers_own() {
    for clock in [Clock::Injected, Clock::Own { max_clock_back_us: MAX_CLOCK_BACK }] {
        each("scripts pauses", 300, |seed| {
            let bans = seed % 3 == 0;
            let plan = Plan { pauses: true, bans, max_policies: 3, clock, ..Plan::default() };
            assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
        });
    }
}

#[test]
fn a_key_with_pauses_lives_until_they_have_ended() {
    let plan = Plan {
        pauses: true,
        max_policies: 3,
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts pauses expire", 600, |seed| {
        let mut schedule = plan.schedule(seed);
        if schedule.policies.iter().any(starts_empty) {
            keep_the_first_day(&mut schedule);
        }
        assert_scripts_answer_like_the_model(&schedule, true);
    });
}

/// Tests that a banned subject gets the cheapest answer: the time, one read, and no write.
#[test]
fn a_banned_subject_is_one_read_and_no_write() {
    const START: u64 = 1_700_000_000_000_000;
    let policies = ["gcra 1/h", "sliding_log 5/h", "fixed_window 9/h charge_denied"];
    let policies: Vec<Policy> = policies.iter().map(|spec| spec.parse().unwrap()).collect();
    let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
    let mut scripted =
        Scripted::new(policies, clock).banning(Some("2/min for 15min".parse().unwrap()));
    let check = |scripted: &mut Scripted, at| {
        let calls = scripted.calls();
        let decision = scripted.decide(START + at, b"alice", Operation::Check, Costs::Own).unwrap();
        (decision, scripted.calls() - calls)
    };
    assert!(check(&mut scripted, 0).0.is_allowed());
    assert!(check(&mut scripted, 0).0.ban().is_none());
    let ((begins, _), before) = (check(&mut scripted, 1), scripted.stored());
    assert!(begins.ban().is_some_and(|ban| ban.begins));
    let (refused, calls) = check(&mut scripted, 2);
    assert!(refused.ban().is_some_and(|ban| ban.ends_in.as_micros() == 899_999_999));
    assert_eq!((calls, before), (2, scripted.stored()));
    let (again, _) = check(&mut scripted, 900_000_000);
    assert!(
        again.ban().is_some_and(|ban| Span::from(ban.ends_in) == Span::from_micros(1).unwrap())
    );
    let (judged, _) = check(&mut scripted, 900_000_001);
    assert!(judged.ban().is_none() && judged.binding().is_some());
}

/// Tests that a paused subject costs the time and one read, and no write.
#[test]
fn a_paused_subject_is_one_read_and_no_write() {
    const START: u64 = 1_700_000_000_000_000;
    let policies = ["gcra 1/h", "sliding_log 5/h", "fixed_window 9/h charge_denied"];
    let policies: Vec<Policy> = policies.iter().map(|spec| spec.parse().unwrap()).collect();
    let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
    let mut scripted = Scripted::new(policies, clock);
    let pause = Operation::Pause { lasts: Span::MINUTE, policy: None };
    assert!(scripted.decide(START, b"acme", pause, Costs::Own).unwrap().is_allowed());
    let (calls, before) = (scripted.calls(), scripted.stored());
    let refused = scripted.decide(START + 1, b"acme", Operation::Check, Costs::Own).unwrap();
    assert!(refused.pause().is_some_and(|pause| pause.ends_in.as_micros() == 59_999_999));
    assert_eq!((scripted.calls() - calls, before), (2, scripted.stored()));
}

#[test]
fn leases_under_injected_time() {
    let plan = Plan { leases: Leases::Granted, max_policies: 4, ..Plan::default() };
    each("scripts leases", 200, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}

#[test]
fn leases_under_a_clock_of_the_servers_own() {
    let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
    let plan = Plan { leases: Leases::Granted, max_policies: 4, clock, ..Plan::default() };
    each("scripts leases own clock back", 200, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}

#[test]
fn a_key_with_leases_lives_until_it_equals_a_fresh_one() {
    let plan = Plan {
        leases: Leases::Granted,
        max_policies: 3,
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts leases expire", 200, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), true);
    });
}

/// Tests key expiry, except in two cases. New numbers can delay the return of consumed units beyond
/// the TTL that the old numbers gave the key. A clock that steps back can meet a key that has
/// expired.
#[test]
fn a_key_never_expires_before_it_equals_a_fresh_one() {
    let plan = Plan {
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts expire", 400, |seed| {
        let mut schedule = plan.schedule(seed);
        if schedule.policies.iter().any(starts_empty) {
            keep_the_first_day(&mut schedule);
        }
        assert_scripts_answer_like_the_model(&schedule, true);
    });
}

/// Tests policies that start empty. A used state never equals a fresh one again, so the scripts
/// keep it for at least a day. For most of that time it is full.
#[test]
fn what_starts_empty_stays_for_a_day() {
    let plan = Plan {
        kinds: vec![Kind::Smooth],
        max_policies: 2,
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts start empty", 200, |seed| {
        let mut schedule = plan.schedule(seed);
        keep_the_first_day(&mut schedule);
        assert_scripts_answer_like_the_model(&schedule, true);
    });
}

fn starts_empty(policy: &Policy) -> bool {
    matches!(policy.algorithm(), Algorithm::Smooth { start: Start::Empty, .. })
}

fn keep_the_first_day(schedule: &mut Schedule) {
    const DAY: u64 = 86_400_000_000;
    let time = |step: &Step| if let Step::Request(request) = step { request.now_us } else { 0 };
    let end = schedule.steps.first().map_or(0, time) + DAY;
    let later = schedule.steps.iter().position(|step| time(step) > end);
    schedule.steps.truncate(later.unwrap_or(schedule.steps.len()));
}

#[test]
fn composites_under_a_clock_of_the_servers_own() {
    let plan = Plan { clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK }, ..Plan::default() };
    each("scripts own clock back", 400, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}

/// A state is stamped 4 s ahead. Its key's TTL must include those seconds.
#[test]
fn a_key_outlives_the_seconds_that_the_clock_stepped_back() {
    const SECOND: u64 = 1_000_000;
    const START: u64 = 1_700_000_000 * SECOND;
    for specs in [
        &["token_bucket 1/s burst 2"][..],
        &["token_bucket 1/s burst 2", "gcra 1/s burst 3"],
        &["smooth 1/s burst 2s start full"],
        &["warmup 2/s over 2s"],
        &["fixed_window 2/s"],
        &["fixed_window 2/s aligned"],
        &["sliding_counter 2/s"],
        &["sliding_window 2/s slices 10"],
        &["sliding_window 2/s slices 100"],
        &["sliding_log 2/s"],
    ] {
        let policies: Vec<Policy> = specs.iter().map(|spec| spec.parse().unwrap()).collect();
        let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
        let [mut lives, mut stays] = [true, false].map(|expires| {
            let mut scripted = Scripted::new(policies.clone(), clock);
            scripted.expires = expires;
            scripted
        });
        let ahead = START + 4 * SECOND;
        let then = (0..=30).map(|tenths| (START + tenths * SECOND / 5, Operation::Peek));
        let asked = [(ahead, Operation::Check), (START, Operation::Check)];
        for (now, operation) in asked.into_iter().chain(then) {
            let [got, expected] = [&mut lives, &mut stays]
                .map(|it| it.decide(now, b"alice", operation, Costs::Own).unwrap());
            assert_eq!(got, expected, "{specs:?}, {} µs after the start", now - START);
        }
    }
}

/// Tests a long replay: requests bring their times, while the server's clock continues.
#[test]
fn every_admission_of_a_run_renews_the_hour_that_its_keys_live() {
    const MINUTE: u64 = 60_000_000;
    for spec in [
        "token_bucket 100/h",
        "fixed_window 100/h",
        "sliding_counter 100/h",
        "sliding_window 100/h slices 2",
        "sliding_window 720/h slices 90",
        "sliding_log 100/h",
    ] {
        let mut scripted = Scripted::new(vec![spec.parse().unwrap()], Clock::Injected);
        for turn in 1..5 {
            scripted.expire(turn * 30 * MINUTE);
            // All except the first are in one slice.
            let at = 1_700_000_000_000_000 + turn + turn.min(2) * 30 * MINUTE;
            let decision = scripted.decide(at, b"alice", Operation::Check, Costs::Own).unwrap();
            assert!(decision.is_allowed());
            let hour = (turn * 30 + 60) * MINUTE / 1_000;
            let stored = scripted.stored();
            let is_long = |ends: Option<u64>| ends.is_some_and(|ends| ends >= hour);
            assert!(stored.values().all(|it| is_long(it.expires_ms)), "{spec}: {stored:?}");
        }
    }
}
