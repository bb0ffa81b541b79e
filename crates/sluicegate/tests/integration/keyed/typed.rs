//! Each policy that a spec can write has a typed form.

use std::collections::BTreeSet;
use std::time::Duration;

use sluicegate::policy::{CalendarUnit, CalendarWindow, Cost, LogTier, Queue, Start, Window};
use sluicegate::{Limit, Policy, Rate};

#[test]
fn each_algorithm_and_option_of_a_spec_has_a_typed_form() {
    let (second, rate) = (Duration::from_secs(1), Rate::per_second(5));
    let month = CalendarWindow::new(CalendarUnit::Month, "Europe/Berlin").unwrap();
    let from = month.clone().from("15").unwrap().at("06:00").unwrap();
    let queue = Queue { length: 100, priorities: 3 };
    let tiers = [(5, second), (50, Duration::from_secs(3_600))];
    let tiers = tiers.map(|(limit, window)| LogTier { limit, window });
    let forms = [
        ("token_bucket 5/s burst 9", Policy::token_bucket(rate, 9)),
        ("gcra 5/s burst 9", Policy::gcra(rate, 9)),
        ("leaky_bucket 5/s capacity 9", Policy::leaky_bucket(rate, 9)),
        ("shaper 5/s queue 9", Policy::shaper(rate, 9)),
        ("smooth 5/s burst 1s start full", Policy::smooth(rate, second, Start::Full)),
        ("warmup 5/s over 1s", Policy::warm_up(rate, second)),
        ("fixed_window 5/s", Policy::fixed_window(5, Window::FirstAdmitted(second))),
        ("fixed_window 5/s aligned", Policy::fixed_window(5, Window::Aligned(second))),
        (
            "fixed_window 5/month calendar Europe/Berlin",
            Policy::fixed_window(5, Window::Calendar(month)),
        ),
        (
            "fixed_window 5/month calendar Europe/Berlin from 15 at 06:00",
            Policy::fixed_window(5, Window::Calendar(from)),
        ),
        ("sliding_window 5/h slices 60", Policy::sliding_window(5, Duration::from_secs(3_600), 60)),
        ("sliding_counter 5/h", Policy::sliding_counter(5, Duration::from_secs(3_600))),
        ("sliding_log 5/s and 50/h", Policy::sliding_log(tiers)),
        ("concurrency 5 hold 1s", Policy::concurrency(5, second)),
        (
            "concurrency 5 hold 1s queue 100 priorities 3",
            Policy::queued_concurrency(5, second, queue),
        ),
    ];
    let mut algorithms = BTreeSet::new();
    for (spec, typed) in forms {
        let typed = typed.unwrap();
        algorithms.insert(typed.algorithm().keyword());
        assert_eq!(Limit::new("api", [spec]).unwrap(), Limit::new("api", [typed.clone()]).unwrap());
        let spec = format!("{spec} cost 2 shadow charge_denied as plan");
        let typed = typed.with_cost(Cost::new(2).unwrap()).shadow().charge_denied();
        let typed = typed.named("plan".parse().unwrap());
        assert_eq!(Limit::new("api", [&spec]).unwrap(), Limit::new("api", [typed]).unwrap());
    }
    assert_eq!(algorithms.len(), 11, "{algorithms:?}");
}
