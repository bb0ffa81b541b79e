//! Tests of the Rust kernels against the reference model, with random schedules.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::{Clock, Leasing, differences};
use sluicegate_conformance::schedules::{Dice, Kind, Leases, Plan, Schedule, Step, each};
use sluicegate_core::{Costs, Decision, Error, Limit, Policy, Request};

fn assert_kernels_answer_like_the_model(schedule: &Schedule) {
    let mut kernels = Kernels::new(schedule.policies.clone(), schedule.clock).banning(schedule.ban);
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => kernels.set_policies(policies.clone()),
            Step::Request(request) => {
                let before = kernels.states().clone();
                let (operation, costs) = request.operation.for_store();
                let leasing = request.leasing.as_deref().map(Leasing::for_store);
                let mut asked = Request::new(operation, &request.key).costs(costs);
                if let Some(leasing) = &leasing {
                    asked = asked.leasing(leasing);
                }
                let got = asked
                    .validate(kernels.limit())
                    .map_err(Error::from)
                    .and_then(|()| kernels.ask(request.now_us, &asked));
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
                if got.is_err() {
                    assert_eq!(
                        &before,
                        kernels.states(),
                        "an error changed something at step {index}\n{schedule}"
                    );
                }
            }
        }
    }
}

#[test]
fn bans_under_injected_time() {
    let plan = Plan { bans: true, max_policies: 3, ..Plan::default() };
    each("kernels bans", 600, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}

#[test]
fn bans_under_a_clock_of_the_stores_own() {
    let clock = Clock::Own { max_clock_back_us: 5_000_000 };
    let plan = Plan { bans: true, max_policies: 3, clock, ..Plan::default() };
    each("kernels bans own clock", 600, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}

#[test]
fn pauses_under_injected_time_and_a_clock_of_the_stores_own() {
    for clock in [Clock::Injected, Clock::Own { max_clock_back_us: 5_000_000 }] {
        each("kernels pauses", 600, |seed| {
            let bans = seed % 3 == 0;
            let plan = Plan { pauses: true, bans, max_policies: 3, clock, ..Plan::default() };
            assert_kernels_answer_like_the_model(&plan.schedule(seed));
        });
    }
}

#[test]
fn every_kind_alone_under_injected_time() {
    for kind in Kind::ALL {
        let plan = Plan { kinds: vec![kind], max_policies: 1, ..Plan::default() };
        each(&format!("kernels {kind:?}"), 150, |seed| {
            assert_kernels_answer_like_the_model(&plan.schedule(seed));
        });
    }
}

#[test]
fn composites_under_injected_time() {
    let plan = Plan::default();
    each("kernels composites", 1_000, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}

#[test]
fn leases_under_injected_time() {
    let plan = Plan { leases: Leases::Granted, max_policies: 4, ..Plan::default() };
    each("kernels leases", 300, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}

#[test]
fn leases_under_a_clock_of_the_stores_own() {
    let clock = Clock::Own { max_clock_back_us: 5_000_000 };
    let plan = Plan { leases: Leases::Granted, max_policies: 4, clock, ..Plan::default() };
    each("kernels leases own clock", 300, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}

/// Tests that the order of policies doesn't matter. Names keep the states apart. Only the binding
/// policy may change: it is the first of those with equally long waits.
#[test]
fn the_order_of_policies_is_irrelevant() {
    let plan = Plan { max_policies: 5, ..Plan::default() };
    each("kernels order", 400, |seed| {
        let schedule = plan.schedule(seed);
        let named = |policies: &[Policy]| -> Vec<Policy> {
            let policies = policies.iter().enumerate();
            policies
                .map(|(index, policy)| policy.clone().named(format!("p{index}").parse().unwrap()))
                .collect()
        };
        let reversed =
            |policies: &[Policy]| -> Vec<Policy> { named(policies).into_iter().rev().collect() };
        let mut forward = Kernels::new(named(&schedule.policies), schedule.clock);
        let mut backward = Kernels::new(reversed(&schedule.policies), schedule.clock);
        for (index, step) in schedule.steps.iter().enumerate() {
            match step {
                Step::SetPolicies(policies) => {
                    forward.set_policies(named(policies));
                    backward.set_policies(reversed(policies));
                }
                Step::Request(request) => {
                    let (operation, costs) = request.operation.for_store();
                    let one = forward.decide(request.now_us, &request.key, operation, costs);
                    let turned: Vec<u64> = match costs {
                        Costs::Each(each) => each.iter().rev().copied().collect(),
                        _ => Vec::new(),
                    };
                    let costs = if turned.is_empty() { costs } else { Costs::Each(&turned) };
                    let other = backward.decide(request.now_us, &request.key, operation, costs);
                    match (one, other) {
                        (Ok(one), Ok(other)) => {
                            assert!(
                                one.policies().eq(other.policies().rev()),
                                "step {index}: {one:?} and {other:?}\n{schedule}"
                            );
                            assert_eq!(
                                (one.is_allowed(), one.retry_after(), one.wait(), one.granted()),
                                (
                                    other.is_allowed(),
                                    other.retry_after(),
                                    other.wait(),
                                    other.granted()
                                ),
                                "step {index}\n{schedule}"
                            );
                        }
                        (Err(Error::Request(one)), Err(Error::Request(other))) => {
                            assert_eq!(one.kind(), other.kind());
                        }
                        (one, other) => panic!("step {index}: {one:?} and {other:?}\n{schedule}"),
                    }
                }
            }
        }
    });
}

#[test]
fn composites_under_a_clock_of_the_stores_own() {
    let plan = Plan { clock: Clock::Own { max_clock_back_us: 5_000_000 }, ..Plan::default() };
    each("kernels own clock", 1_000, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}

/// Tests that several limits with one subject answer like one limit with all their policies, which
/// other tests compare with the reference model.
#[test]
fn limits_together_about_one_subject_are_one_limit() {
    let plan = Plan { may_renumber: false, ..Plan::default() };
    each("kernels together as one", 400, |seed| {
        let schedule = plan.schedule(seed);
        let mut dice = Dice::new(seed);
        let named = schedule
            .policies
            .iter()
            .enumerate()
            .map(|(index, policy)| policy.clone().named(format!("p{index}").parse().unwrap()));
        let named: Vec<Policy> = named.collect();
        let mut parts: Vec<Vec<Policy>> = vec![Vec::new()];
        for policy in named.clone() {
            if dice.one_in(2) && !parts[parts.len() - 1].is_empty() {
                parts.push(Vec::new());
            }
            parts.last_mut().unwrap().push(policy);
        }
        let parts = parts
            .into_iter()
            .enumerate()
            .map(|(part, policies)| Limit::new(format!("part-{part}"), policies).unwrap());
        let together = Limit::together(parts).unwrap();
        let mut one = Kernels::new(named, schedule.clock);
        let mut several = Kernels::of_limit(together.clone(), schedule.clock);
        for (index, step) in schedule.steps.iter().enumerate() {
            let Step::Request(request) = step else { continue };
            let (operation, costs) = request.operation.for_store();
            let subjects = vec![&*request.key; together.parts().len()];
            let got = several.decide_together(request.now_us, &subjects, operation, costs);
            let expected = one.decide(request.now_us, &request.key, operation, costs);
            match (expected, got) {
                (Ok(expected), Ok(got)) => {
                    assert_eq!(said(&expected), said(&got), "step {index}\n{schedule}");
                }
                (Err(Error::Request(expected)), Err(Error::Request(got))) => {
                    assert_eq!(expected.kind(), got.kind());
                }
                (expected, got) => panic!("step {index}: {expected:?} and {got:?}\n{schedule}"),
            }
        }
    });
}

/// Returns a decision as text, without the names in it.
fn said(decision: &Decision) -> String {
    let policies: Vec<String> =
        decision.policies().map(|policy| format!("{policy:?} {:?}", policy.limit())).collect();
    format!(
        "{} {:?} {} {:?} {:?} {:?} {policies:#?}",
        decision.is_allowed(),
        decision.binding_index(),
        decision.granted(),
        decision.wait(),
        decision.retry_after(),
        decision.warnings(),
    )
}
