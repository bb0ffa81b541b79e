//! Registries that are switched off, and unknown limits.

use sluicegate::config::{Switch, UnknownLimit};
use sluicegate::error::DeniedReason;
use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted, config, store};

#[limit("login", key = "k", registry = limits)]
fn login(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/h", name = "own", key = "k", registry = limits)]
fn own(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn a_registry_that_is_off_lets_every_call_pass_and_counts_nothing() {
    let setup = Setup::new("{login: {policies: [gcra 1/h burst 2]}}");
    assert_eq!(admitted(1, || login(&setup.limits)), 1);
    setup.limits.switch(Switch::Off);
    assert_eq!(admitted(9, || login(&setup.limits)), 9);
    assert_eq!(admitted(9, || own(&setup.limits)), 9);
    setup.limits.switch_back();
    assert_eq!(admitted(9, || login(&setup.limits)), 1);
    assert_eq!(admitted(9, || own(&setup.limits)), 1);
}

#[test]
fn one_limit_is_switched_off_by_its_name_wherever_it_was_written() {
    let setup = Setup::new("{login: {policies: [gcra 1/h]}}");
    assert_eq!(admitted(2, || own(&setup.limits)), 1);
    assert_eq!(setup.limits.switch_limit("own", Switch::Off), Some(Switch::On));
    assert_eq!(admitted(9, || own(&setup.limits)), 9);
    assert_eq!(admitted(9, || login(&setup.limits)), 1);
}

#[test]
fn a_name_that_nobody_knows_is_an_error_until_a_configuration_brings_it() {
    let setup = Setup::new("{logni: {policies: [gcra 1/h]}}");
    let denied = login(&setup.limits).unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::Misconfigured);
    let error = denied.to_string();
    assert!(
        error.starts_with(
            "limit `login` can't be asked: there is no limit called `login`: did you mean `logni`?"
        ),
        "{error}"
    );
    setup.limits.replace(&config("{login: {policies: [gcra 1/h burst 2]}}")).unwrap();
    assert_eq!(admitted(9, || login(&setup.limits)), 2);
}

#[test]
fn a_call_site_keeps_a_configuration_from_taking_its_limit_away() {
    #[limit("llm", cost("tokens") = 5, registry = limits)]
    #[limit("gcra 9/h as calls", name = "own", cost("calls") = 1)]
    fn complete(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }

    let llm = "{llm: {policies: [gcra 9/h as requests, gcra 900/h as tokens]}}";
    let setup = Setup::new(llm);
    let refused = |next: &str| setup.limits.replace(&config(next)).unwrap_err().to_string();
    // It is known from the first call on.
    setup.limits.replace(&config("{llm: {policies: [gcra 9/h as tokens]}}")).unwrap();
    setup.limits.replace(&config(llm)).unwrap();
    complete(&setup.limits).unwrap();
    let without = refused("{llm: {policies: [gcra 9/h as requests]}}");
    assert!(without.contains("policy `tokens` of limit `llm` (it has requests)"), "{without}");
    let without = refused("{other: {policies: [gcra 9/h]}}");
    assert!(without.contains("stays in force: limit `llm`: the program uses"), "{without}");
    let other = format!("{}, own: {{policies: [gcra 9/h]}}}}", &llm[..llm.len() - 1]);
    assert!(refused(&other).contains("policy `calls` of limit `own` (it has gcra)"));
    complete(&setup.limits).unwrap();
    // Policies that it doesn't name may be removed.
    setup.limits.replace(&config("{llm: {policies: [gcra 900/h as tokens]}}")).unwrap();
    complete(&setup.limits).unwrap();
}

#[test]
fn a_name_that_nobody_knows_is_denied_where_that_is_configured() {
    let store = store(std::sync::Arc::new(sluicegate::testing::ManualClock::default()));
    let limits = Registry::builder(store).unknown(UnknownLimit::Deny).build();
    let denied = login(&limits).unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::Blocked);
    assert_eq!(admitted(9, || own(&limits)), 1, "a spec of its own is known");
}
