//! Limits that attributes bring themselves.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::testing::ManualClock;
use sluicegate::{Denied, Limit, Limiter, Policy, Registry, limit};
use sluicegate_testkit::layers::Counting;

use crate::attribute::support::{Setup, admitted, config, now};

#[limit("gcra 1/min burst 2", registry = limits)]
fn nameless(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[limit("gcra 1/min burst 2", name = "sms", key = "{phone}", registry = limits)]
fn send(limits: &Registry, phone: &str) -> Result<(), Denied> {
    Ok(())
}

#[limit(policies = ["gcra 10/s burst 4", "fixed_window 3/d"], name = "mail", registry = limits)]
fn mail(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn a_spec_in_the_attribute_needs_no_configuration() {
    let setup = Setup::empty();
    assert_eq!(admitted(5, || nameless(&setup.limits)), 2);
    setup.pass(60);
    assert_eq!(admitted(5, || nameless(&setup.limits)), 1);
}

#[limit("gcra 1/min", ban = "2/min for 15min", registry = limits)]
fn guarded(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn an_attribute_bans_whoever_is_denied_too_often() {
    let setup = Setup::empty();
    assert_eq!(admitted(5, || guarded(&setup.limits)), 1);
    setup.pass(15 * 60 - 1);
    let denied = guarded(&setup.limits).unwrap_err().to_string();
    assert!(denied.ends_with("has banned the key: retry in 1 s"), "{denied}");
    setup.pass(1);
    assert_eq!(admitted(5, || guarded(&setup.limits)), 1);
}

#[limit("fixed_window 10/h", name = "estimated", on_expiry = "return", registry = limits)]
fn estimated(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn an_attribute_says_what_becomes_of_what_is_held_and_never_settled() {
    let setup = Setup::empty();
    estimated(&setup.limits).unwrap();
    let gate = setup.limits.gate("estimated");
    let held = now(gate.check("k").hold(Duration::from_secs(1)));
    assert!(held.unwrap().is_allowed());
    assert_eq!(setup.left("estimated", "k"), 9);
    setup.pass(1);
    assert_eq!(setup.left("estimated", "k"), 10);
}

/// Seed 0.6: one attribute for every algorithm.
#[test]
fn every_algorithm_can_stand_in_the_attribute() {
    let setup = Setup::empty();
    let limits = &setup.limits;
    let mut words = Vec::new();
    macro_rules! assert_two_pass {
        ($($spec:literal)*) => {$({
            #[limit($spec, key = "k", registry = limits)]
            fn limited(limits: &Registry) -> Result<(), Denied> {
                Ok(())
            }
            assert_eq!(admitted(9, || limited(limits)), 2, $spec);
            words.push($spec.split(' ').next().unwrap());
        })*};
    }
    assert_two_pass! {
        "token_bucket 1/h burst 2"
        "gcra 1/h burst 2"
        "leaky_bucket 1/h capacity 2"
        "fixed_window 2/h"
        "sliding_window 2/h slices 6"
        "sliding_counter 2/h"
        "sliding_log 2/h"
    }
    // The first of these passes at any cost, and the next one has to wait.
    macro_rules! assert_one_passes {
        ($($spec:literal)*) => {$({
            #[limit($spec, key = "k", registry = limits)]
            fn limited(limits: &Registry) -> Result<(), Denied> {
                Ok(())
            }
            assert_eq!(admitted(9, || limited(limits)), 1, $spec);
            words.push($spec.split(' ').next().unwrap());
        })*};
    }
    assert_one_passes! { "smooth 1/h burst 0s" "warmup 1/h over 10h" "shaper 1/h queue 0" }
    let unknown = "unheard_of 1/h".parse::<Policy>().unwrap_err().to_string();
    for word in &words {
        assert!(unknown.contains(word), "{word} is none of {unknown}");
    }
    assert_eq!(words.len(), 10, "{unknown}");
}

/// Seed 3.14: an attribute, a limiter and a gate made by code are forms of one limit.
#[test]
fn an_attribute_and_code_take_from_the_same_units() {
    const SPEC: &str = "gcra 1/h burst 6";
    #[limit("gcra 1/h burst 6", name = "forms", key = "{user}", registry = limits)]
    fn by_attribute(limits: &Registry, user: &str) -> Result<(), Denied> {
        Ok(())
    }
    let store = crate::attribute::support::store(Arc::new(ManualClock::default()));
    let limits = Registry::builder(store.clone()).build();
    let limiter = Limiter::new(store, Limit::new("forms", [SPEC]).unwrap());
    let plans = limits.keyed("forms", async |_: String| Ok::<_, Infallible>([SPEC]));
    let keyed = || plans.get("gold").blocking().unwrap();
    for left in [3, 0] {
        by_attribute(&limits, "alice").unwrap();
        assert!(limiter.check("alice").now().unwrap().is_allowed());
        assert!(keyed().check("alice").now().unwrap().is_allowed());
        assert_eq!(limiter.peek("alice").now().unwrap().remaining(), Some(left));
    }
    assert!(by_attribute(&limits, "alice").is_err());
    assert!(limiter.check("alice").now().unwrap().is_denied());
    assert!(keyed().check("alice").now().unwrap().is_denied());
    assert!(keyed().check("gold").now().unwrap().is_allowed(), "the cache's key is nobody's");
}

/// Seed 0.6: looked up once, and again for each configuration.
#[test]
fn a_call_site_opens_its_limit_once_for_each_configuration() {
    #[limit("gcra 1/h burst 1000", name = "own", key = "k", registry = limits)]
    fn of_its_own(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("named", key = "k", registry = limits)]
    fn by_name(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let store = Counting::new(crate::attribute::support::store(Arc::new(ManualClock::default())));
    let opened = || store.opened();
    let limits = Registry::builder(store.clone()).build();
    let calls = || {
        for _ in 0..100 {
            by_name(&limits).unwrap();
            of_its_own(&limits).unwrap();
        }
    };
    for burst in [400, 500] {
        let spec = format!("{{named: {{policies: [gcra 1/h burst {burst}]}}}}");
        limits.replace(&config(&spec)).unwrap();
        let before = opened();
        by_name(&limits).unwrap();
        of_its_own(&limits).unwrap();
        let after = opened();
        assert!(after - before <= 2, "{} were opened", after - before);
        calls();
        assert_eq!(opened(), after);
    }
}

#[test]
fn several_policies_are_one_limit() {
    let setup = Setup::empty();
    assert_eq!(admitted(5, || mail(&setup.limits)), 3);
    setup.pass(60);
    let denied = mail(&setup.limits).unwrap_err();
    assert!(denied.retry_after().duration().unwrap().as_secs() > 80_000, "{denied}");
}

#[test]
fn a_nameless_limit_is_called_by_the_path_of_its_function() {
    let setup = Setup::empty();
    nameless(&setup.limits).unwrap();
    let name = "integration::attribute::inline::nameless";
    assert_eq!(setup.left(name, name), 1);
}

#[test]
fn the_configuration_goes_before_a_spec_of_the_same_name() {
    let setup = Setup::empty();
    assert_eq!(admitted(5, || send(&setup.limits, "1")), 2);
    setup.limits.replace(&config("{sms: {policies: [gcra 1/min burst 4]}}")).unwrap();
    assert_eq!(admitted(5, || send(&setup.limits, "1")), 2);
    assert_eq!(admitted(5, || send(&setup.limits, "2")), 4);
    setup.limits.replace(&config("{other: {policies: [gcra 1/min]}}")).unwrap();
    assert_eq!(admitted(5, || send(&setup.limits, "3")), 2);
}

#[test]
fn functions_with_a_limit_of_the_same_name_share_what_is_consumed() {
    #[limit("gcra 1/min burst 5", name = "shared", key = "all", registry = limits)]
    fn one(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("shared", key = "all", registry = limits)]
    fn other(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    assert_eq!(admitted(3, || one(&setup.limits)), 3);
    assert_eq!(admitted(5, || other(&setup.limits)), 2);
}

#[test]
fn a_generic_function_has_one_limit_whatever_its_types() {
    #[limit("gcra 1/min burst 2", registry = limits)]
    fn of<T: Default>(limits: &Registry) -> Result<T, Denied> {
        Ok(T::default())
    }
    let setup = Setup::empty();
    assert!(of::<u8>(&setup.limits).is_ok() && of::<String>(&setup.limits).is_ok());
    assert!(of::<u16>(&setup.limits).is_err());
}
