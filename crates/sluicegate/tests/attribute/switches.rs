//! Registries that are switched off, and limits that nobody knows.

use sluicegate::{Denied, DeniedReason, Registry, Switch, UnknownLimit, limit};

use crate::support::{Setup, admitted, config, store};

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
fn a_name_that_nobody_knows_passes_until_a_configuration_brings_it() {
    let setup = Setup::new("{other: {policies: [gcra 1/h]}}");
    assert_eq!(admitted(9, || login(&setup.limits)), 9);
    setup.limits.replace(&config("{login: {policies: [gcra 1/h burst 2]}}")).unwrap();
    assert_eq!(admitted(9, || login(&setup.limits)), 2);
    setup.limits.replace(&config("{other: {policies: [gcra 1/h]}}")).unwrap();
    assert_eq!(admitted(9, || login(&setup.limits)), 9);
}

#[test]
fn a_name_that_nobody_knows_is_denied_where_that_is_configured() {
    let store = store(std::sync::Arc::new(sluicegate::ManualClock::default()));
    let limits = Registry::builder(store).unknown(UnknownLimit::Deny).build();
    let denied = login(&limits).unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::Blocked);
    assert_eq!(admitted(9, || own(&limits)), 1, "a spec of its own is known");
}
