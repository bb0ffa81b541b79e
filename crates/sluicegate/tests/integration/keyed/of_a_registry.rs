use std::time::Duration;

use sluicegate::config::Switch;
use sluicegate::decision::Source;
use sluicegate::store::Store as _;
use sluicegate::{Gate, Keyed, Registry, Usage};

use super::Plans;
use crate::registry::support::{Setup, admitted, check, config, store};

async fn gate(keyed: &Keyed<Gate>, key: &str) -> Gate {
    keyed.get(key).await.unwrap()
}

#[tokio::test]
async fn the_key_of_the_numbers_and_that_of_the_units_may_differ() {
    let registry = Registry::builder(store().0).build();
    let plans = registry.keyed("api", Plans::new("gcra 1/h burst 2").maker());
    assert_eq!(admitted(&gate(&plans, "a").await, "a", 9), 2);
    assert_eq!(admitted(&gate(&plans, "a").await, "user-of-a", 9), 2);
    let other = registry.keyed("other", Plans::new("gcra 1/h burst 7").maker());
    assert_eq!(admitted(&gate(&other, "a").await, "a", 9), 7);
}

#[tokio::test]
async fn switches_and_lists_of_the_name_count_and_its_numbers_do_not() {
    let setup = Setup::new(
        "limits: {api: {policies: [gcra 1/h burst 1], allow: [friend], block: [foe], overrides: [{key: a, times: 100}]}}",
    );
    let registry = &setup.registry;
    let keyed = registry.keyed("api", Plans::new("gcra 1/h burst 2").maker());
    let gate = gate(&keyed, "a").await;
    assert_eq!(admitted(&gate, "a", 9), 2);
    assert_eq!(admitted(&gate, "friend", 9), 9);
    assert!(check(&gate, "foe").is_denied());
    assert!(registry.switch_limit("api", Switch::Off).is_some());
    assert_eq!(check(&gate, "a").source(), Source::Bypass);
    assert!(registry.switch_limit_back("api").is_some());
    setup.replace("limits: {other: {policies: [gcra 1/h]}}");
    assert_eq!(admitted(&gate, "foe", 9), 2);
    assert_eq!(admitted(&gate, "a", 9), 0, "what was consumed stays");
}

#[tokio::test]
async fn a_limit_that_is_off_and_keys_on_lists_need_no_database() {
    let setup =
        Setup::new("limits: {api: {policies: [gcra 1/h burst 1], allow: [friend], block: [foe]}}");
    let plans = Plans::new("gcra 1/h burst 2");
    plans.fail("connection refused");
    let api = setup.registry.keyed("api", plans.maker());
    let unknown = setup.registry.keyed("unknown", plans.maker());
    assert!(api.check("friend").now().unwrap().is_allowed());
    assert!(api.check("foe").now().unwrap().is_denied());
    assert_eq!(plans.queries(), 0);
    assert!(api.check("acme").await.is_err() && unknown.check("acme").await.is_err());
    setup.registry.switch(Switch::Off);
    assert!(api.check("acme").now().unwrap().is_allowed());
    assert!(unknown.check("acme").now().unwrap().is_allowed());
    assert_eq!(plans.queries(), 2);
}

#[tokio::test]
async fn a_ban_of_the_configuration_counts_whatever_the_numbers() {
    let setup = Setup::new("limits: {api: {policies: [gcra 9/s], ban: 1/1min for 15min}}");
    let api = setup.registry.keyed("api", Plans::new("gcra 1/h").maker());
    assert!(api.check("acme").await.unwrap().is_allowed());
    assert!(api.check("acme").await.unwrap().ban().is_some());
    setup.replace("limits: {api: {policies: [gcra 9/s]}}");
    assert!(api.check("acme").await.unwrap().ban().is_none());
}

#[tokio::test]
async fn a_configuration_may_come_after_the_gate() {
    let registry = Registry::builder(store().0).build();
    let keyed = registry.keyed("api", Plans::new("gcra 1/h burst 2").maker());
    let gate = gate(&keyed, "a").await;
    assert_eq!(admitted(&gate, "a", 1), 1);
    let _ = registry.replace(&config("limits: {api: {policies: [gcra 1/h], block: [a]}}")).unwrap();
    assert!(check(&gate, "a").is_denied());
}

/// Its consumed units equal a fresh state under faster plans.
#[tokio::test]
async fn consumption_under_a_slow_plan_outlives_its_place_in_the_cache() {
    let (store, clock) = store();
    let registry = Registry::builder(store).build();
    let plans = Plans::new("gcra 1/h burst 2");
    let keyed = registry.keyed("api", plans.maker()).capacity(std::num::NonZeroUsize::MIN);
    assert_eq!(admitted(&gate(&keyed, "slow").await, "slow", 9), 2);
    plans.change("gcra 100/s burst 100");
    assert_eq!(admitted(&gate(&keyed, "quick").await, "quick", 1), 1);
    assert_eq!(keyed.len(), 1);
    clock.advance(Duration::from_secs(60));
    (0..10_000).for_each(|_| registry.store().maintain());
    plans.change("gcra 1/h burst 2");
    assert_eq!(admitted(&gate(&keyed, "slow").await, "slow", 9), 0);
}

#[tokio::test]
async fn a_hold_is_settled_by_the_keyed_limit_after_its_numbers_were_forgotten() {
    let registry = Registry::builder(store().0).build();
    let plans = registry.keyed("plan", Plans::new("fixed_window 9/h").maker());
    let hold = plans.check("acme").cost(5).hold(Duration::from_secs(60));
    let token = hold.await.unwrap().into_token().unwrap();
    plans.forget_all();
    assert!(registry.settle(&token, Usage::nothing()).now().is_err(), "it has no numbers");
    assert_eq!(plans.settle(&token, Usage::nothing()).await.unwrap().remaining(), Some(9));
}

#[tokio::test]
async fn gates_of_keys_can_be_joined_and_a_joined_gate_can_t_have_numbers() {
    let setup = Setup::new("limits: {address: {policies: [gcra 1/h burst 3]}}");
    let registry = &setup.registry;
    let keyed = registry.keyed("user", Plans::new("gcra 1/h burst 2").maker());
    let login = gate(&keyed, "acme").await.and(registry.gate("address")).unwrap();
    let passes = || login.check("alice").and("192.0.2.7").now().unwrap().is_allowed();
    assert_eq!([passes(), passes(), passes()], [true, true, false]);
    let error = login.check("alice").and("192.0.2.7").with(["gcra 1/s"]).now().unwrap_err();
    assert!(error.to_string().starts_with("`user + address` are limits that are"), "{error}");
}

#[test]
fn numbers_that_are_given_for_a_name_keep_what_was_consumed() {
    let setup = Setup::new(
        "limits: {api: {policies: [gcra 1/h burst 1], block: [foe]}, other: {policies: [gcra 1/h]}}",
    );
    let registry = &setup.registry;
    let of = |name: &str, spec: &str| {
        registry.gate_with_numbers(sluicegate::Limit::new(name, [spec]).unwrap())
    };
    // In the configuration, and not.
    for name in ["api", "tier"] {
        assert_eq!(admitted(&of(name, "gcra 1/h burst 2"), "a", 9), 2);
        assert_eq!(admitted(&of(name, "gcra 1/h burst 5"), "a", 9), 3);
        assert_eq!(admitted(&of(name, "gcra 1/h burst 2"), "a", 9), 0);
        assert_eq!(admitted(&of(name, "fixed_window 4/h"), "a", 9), 4, "another policy");
    }
    assert!(check(&of("api", "gcra 1/h burst 5"), "foe").is_denied(), "its other settings");
    let both = of("tier", "gcra 1/h burst 7").and(registry.gate("other")).unwrap();
    let ask = || sluicegate::Ask::new("a").and(sluicegate::Ask::new("b"));
    assert!(both.check(ask()).now().unwrap().is_allowed());
    assert!(both.check(ask()).now().unwrap().is_denied());
    assert_eq!(of("tier", "gcra 1/h burst 7").peek("a").now().unwrap().remaining(), Some(1));
}
