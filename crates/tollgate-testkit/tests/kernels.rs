//! The Rust kernels against the reference model, on random schedules.

use tollgate_testkit::kernels::Kernels;
use tollgate_testkit::reference::{Clock, differences};
use tollgate_testkit::schedules::{Kind, Plan, Schedule, Step, each};

fn assert_kernels_answer_like_the_model(schedule: &Schedule) {
    let mut kernels = Kernels::new(schedule.policies.clone(), schedule.clock);
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => kernels.set_policies(policies.clone()),
            Step::Request(request) => {
                let before = kernels.states().clone();
                let (operation, costs) = request.operation.for_store();
                let got = kernels.decide(request.now_us, &request.key, operation, costs);
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
fn composites_under_a_clock_of_the_stores_own() {
    let plan = Plan { clock: Clock::Own { max_clock_back_us: 5_000_000 }, ..Plan::default() };
    each("kernels own clock", 1_000, |seed| {
        assert_kernels_answer_like_the_model(&plan.schedule(seed));
    });
}
