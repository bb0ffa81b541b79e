//! Limits of the registry, by name.

use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted, config, now};

#[limit("login", registry = limits)]
fn login(limits: &Registry) -> Result<u8, Denied> {
    Ok(7)
}

#[limit("login", registry = limits)]
async fn login_later(limits: &Registry) -> Result<u8, Denied> {
    Ok(7)
}

#[test]
fn a_named_limit_is_looked_up_in_the_registry() {
    let setup = Setup::new("{login: {policies: [gcra 1/min burst 2]}}");
    assert_eq!(login(&setup.limits).unwrap(), 7);
    assert_eq!(login(&setup.limits).unwrap(), 7);
    let denied = login(&setup.limits).unwrap_err();
    assert_eq!(denied.to_string(), "limit `login` is exhausted: retry in 1 min");
    setup.pass(60);
    assert_eq!(login(&setup.limits).unwrap(), 7);
}

#[test]
fn an_async_function_is_limited_when_its_future_runs() {
    let setup = Setup::new("{login: {policies: [gcra 1/min]}}");
    let (first, second) = (login_later(&setup.limits), login_later(&setup.limits));
    drop(login_later(&setup.limits));
    assert_eq!(now(second).unwrap(), 7);
    assert!(now(first).is_err());
}

#[test]
fn a_call_site_follows_the_configuration() {
    let setup = Setup::new("{login: {policies: [gcra 1/min burst 2]}}");
    assert_eq!(admitted(5, || login(&setup.limits)), 2);
    setup.limits.replace(&config("{login: {policies: [gcra 1/min burst 5]}}")).unwrap();
    assert_eq!(admitted(5, || login(&setup.limits)), 3, "what was consumed stays");
}

#[test]
fn registries_given_in_turn_are_kept_apart() {
    let setups: Vec<Setup> =
        (0..12).map(|_| Setup::new("{login: {policies: [gcra 1/min burst 2]}}")).collect();
    for passes in [true, true, false] {
        for setup in &setups {
            assert_eq!(login(&setup.limits).is_ok(), passes);
        }
    }
}

/// A program that makes a registry for each of its tests or tenants, for example.
#[test]
fn registries_that_are_gone_are_let_go() {
    #[limit("login", registry = limits)]
    fn visit(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }

    let clocks: Vec<_> = (0..100)
        .map(|_| {
            let setup = Setup::new("{login: {policies: [gcra 1/min]}}");
            visit(&setup.limits).unwrap();
            std::sync::Arc::downgrade(&setup.clock)
        })
        .collect();
    let kept = clocks.iter().filter(|clock| clock.strong_count() > 0).count();
    assert!(kept <= 8, "{kept} of 100");
}

/// A registry may be any value that refers to one.
struct Shop {
    limits: std::sync::Arc<Registry>,
}

impl Shop {
    #[limit("orders", registry = self.limits)]
    fn order(&self) -> Result<(), Denied> {
        Ok(())
    }

    #[limit("orders", registry = Registry::clone(&self.limits))]
    fn reorder(&self) -> Result<(), Denied> {
        Ok(())
    }
}

#[test]
fn the_registry_may_be_a_field_an_arc_or_the_value_of_an_expression() {
    let setup = Setup::new("{orders: {policies: [gcra 1/min burst 3], key: method}}");
    let shop = Shop { limits: setup.limits.clone().into() };
    assert_eq!(admitted(5, || shop.order()), 3);
    assert_eq!(admitted(5, || shop.reorder()), 3, "each method is a key of its own");
}
