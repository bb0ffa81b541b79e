//! The Lua scripts in an embedded interpreter against the reference model, on random schedules.
//! Keys expire in virtual time, so a life that is too short shows as a wrong answer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate_conformance::reference::{Clock, differences};
use sluicegate_conformance::schedules::{Kind, Plan, Schedule, Step, each};
use sluicegate_core::{Algorithm, DeniedCharge, Enforcement, Operation, Policy, Start};

use scripted::{MAX_CLOCK_BACK, Scripted};

#[allow(dead_code, reason = "what the other test that has it needs")]
mod scripted;

fn assert_scripts_answer_like_the_model(schedule: &Schedule, expires: bool) {
    let mut scripted = Scripted::new(schedule.policies.clone(), schedule.clock);
    scripted.expires = expires;
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => scripted.set_policies(policies.clone()),
            Step::Request(request) => {
                let before = scripted.stored();
                let (operation, costs) = request.operation.for_store();
                let got = scripted.decide(request.now_us, &request.key, operation, costs);
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
                let plain_denial = got
                    .as_ref()
                    .is_ok_and(|decision| decision.is_denied() && !decision.notes().restamped)
                    && scripted.limit().members().iter().all(|member| {
                        member.policy().enforcement() == Enforcement::Enforced
                            && member.policy().denied_charge() == DeniedCharge::Free
                    });
                let changes_nothing = got.is_err() || plain_denial || operation == Operation::Peek;
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
    each("scripts composites", 600, |seed| {
        assert_scripts_answer_like_the_model(&Plan::default().schedule(seed), false);
    });
}

/// New numbers can make what was consumed flow back later than the life that the old ones gave
/// the key, and a clock that steps back can meet a key that has expired: neither is asked here.
#[test]
fn a_key_never_expires_before_it_equals_a_fresh_one() {
    let plan = Plan {
        clock: Clock::Own { max_clock_back_us: MAX_CLOCK_BACK },
        may_step_back: false,
        may_renumber: false,
        ..Plan::default()
    };
    each("scripts expire", 800, |seed| {
        let mut schedule = plan.schedule(seed);
        if schedule.policies.iter().any(starts_empty) {
            keep_the_first_day(&mut schedule);
        }
        assert_scripts_answer_like_the_model(&schedule, true);
    });
}

/// What starts empty never equals a fresh one again once it was used, so the scripts keep it for a
/// day at least, and it is full, which takes a moment, for most of that.
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
    each("scripts own clock back", 600, |seed| {
        assert_scripts_answer_like_the_model(&plan.schedule(seed), false);
    });
}
