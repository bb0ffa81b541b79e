use tollgate_testkit::reference::differences;
use tollgate_testkit::kernels::Kernels;
use tollgate_testkit::schedules::{Schedule, Step};

/// Holds the kernels against the reference model.
pub(crate) fn assert_answers_like_the_model(schedule: &Schedule) {
    let mut kernels = Kernels::new(schedule.policies.clone(), schedule.clock);
    for (index, step) in schedule.steps.iter().enumerate() {
        match step {
            Step::SetPolicies(policies) => kernels.set_policies(policies.clone()),
            Step::Request(request) => {
                let (operation, costs) = request.operation.for_store();
                let got = kernels.decide(request.now_us, &request.key, operation, costs);
                let differences = differences(&request.expected, &got);
                assert!(differences.is_empty(), "step {index}: {differences:#?}\n{schedule}");
            }
        }
    }
}
