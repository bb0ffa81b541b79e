use std::time::Duration;

use sluicegate::error::RequestErrorKind;
use sluicegate::policy::CalendarUnit;
use sluicegate::{Limit, Limiter, MemoryStore, Policy, Rate, Usage};
use sluicegate_testkit::layers::Counting;

use super::limiter;
use crate::registry::support::Setup;

#[test]
fn equal_numbers_share_one_opened_limit_and_all_numbers_share_the_units() {
    let store = Counting::new(MemoryStore::new());
    let api = Limiter::new(store.clone(), Limit::new("api", ["fixed_window 1/d"]).unwrap());
    let opened = store.opened();
    let left = |spec: &str| api.check("acme").with([spec]).now().unwrap().remaining();
    assert_eq!([left("fixed_window 10/d"), left("fixed_window  10/1d")], [Some(9), Some(8)]);
    assert_eq!(store.opened(), opened + 1, "one set of numbers, however it is written");
    assert_eq!(left("fixed_window 20/d"), Some(17));
    for _ in 0..100 {
        left("fixed_window 100/d");
    }
    assert_eq!(store.opened(), opened + 3);
    assert!(api.check("acme").now().unwrap().is_denied(), "the limit's own number is 1");
}

#[test]
fn numbers_that_form_no_limit_are_an_error_and_nothing_is_charged() {
    let api = limiter();
    for (specs, message) in [
        (&["token_bucket 5/m"][..], "limit `api`: `m` is ambiguous"),
        (&[], "limit `api`: a limit needs at least one policy"),
        (&["gcra 1/s as a", "gcra 2/s as a"], "limit `api`: policy 2 has the name `a`"),
    ] {
        let question = || api.check("acme").with(specs);
        let errors = [question().now().unwrap_err(), question().blocking().unwrap_err()];
        for error in errors {
            assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
    let together = Limit::together(["a", "b"].map(|name| Limit::new(name, ["gcra 1/s"]).unwrap()));
    let both = Limiter::new(MemoryStore::new(), together.unwrap());
    let error = both.check("k").and("l").with(["gcra 1/s"]).now().unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Unsupported);
    assert_eq!(api.peek("acme").now().unwrap().remaining(), Some(1));
}

#[tokio::test]
async fn numbers_are_given_before_or_after_the_other_refinements() {
    let api = limiter();
    let plan = || [Policy::token_bucket(Rate::per_second(1), 100).unwrap()];
    let minute = Duration::from_secs(60);
    let before = api.check("a").with(plan()).cost(30).hold(minute).await.unwrap();
    let after = api.check("a").cost(30).hold(minute).with(plan()).await.unwrap();
    assert_eq!((before.remaining(), after.remaining()), (Some(70), Some(40)));
    let usage = Usage::nothing();
    let settled = api.settle(before.token().unwrap(), usage).with(plan()).await.unwrap();
    assert_eq!(settled.remaining(), Some(70));
    assert!(api.enforce("a").with(plan()).await.is_ok());
    assert!(api.check("a").with(plan()).within(minute).await.unwrap().is_allowed());
    assert!(api.check("a").within(minute).with(plan()).await.unwrap().is_allowed());
    assert_eq!(api.take("a").with(plan()).cost(500).await.unwrap().granted(), 67);
}

#[tokio::test]
async fn a_permit_that_is_taken_with_numbers_is_released_with_them() {
    let api = limiter();
    let plan = ["concurrency 2 hold 30s"];
    let permit = api.permit("acme").with(plan).await.unwrap();
    assert_eq!(permit.remaining(), Some(1));
    drop(permit);
    assert_eq!(api.peek("acme").with(plan).await.unwrap().remaining(), Some(2));
}

#[test]
fn a_gate_takes_numbers_and_keeps_lists_and_switches() {
    let setup =
        Setup::new("limits: {api: {policies: [gcra 1/h], block: [foe], ban: 1/1min for 1h}}");
    let api = setup.registry.gate("api");
    let left = |key| api.check(key).with(["gcra 1/h burst 10"]).now().unwrap();
    assert_eq!((left("acme").remaining(), left("acme").remaining()), (Some(9), Some(8)));
    assert!(left("foe").is_denied());
    setup.replace("limits: {api: {policies: [gcra 1/h], allow: [acme]}}");
    assert!(left("acme").remaining().is_none());
    assert_eq!(left("foe").remaining(), Some(9));
    // Numbers make a limit of a name that no configuration has.
    let unknown = setup.registry.gate("unknown");
    assert!(unknown.check("acme").now().is_err());
    assert_eq!(
        unknown.check("acme").with(["gcra 1/h burst 3"]).now().unwrap().remaining(),
        Some(2)
    );
    let inline = setup.registry.inline(Limit::new("own", ["gcra 1/h"]).unwrap());
    assert_eq!(inline.check("acme").with(["gcra 1/h burst 3"]).now().unwrap().remaining(), Some(2));
}

#[test]
fn a_zone_is_a_zone_and_never_more_of_a_spec() {
    use sluicegate::policy::{CalendarWindow, Window};
    for zone in ["UTC shadow", "UTC as monthly", "UTC ", " UTC", "", "UTC\nshadow", "Mars/Base"] {
        let error = CalendarWindow::new(CalendarUnit::Month, zone).unwrap_err();
        assert!(error.to_string().contains("is not in the IANA time zone database"), "{zone}");
    }
    let month = CalendarWindow::new(CalendarUnit::Month, "Asia/Tokyo").unwrap();
    let plan = Policy::fixed_window(9, Window::Calendar(month)).unwrap();
    let decision = limiter().check("acme").with([plan]).now().unwrap();
    assert_eq!(decision.remaining(), Some(8));
}
