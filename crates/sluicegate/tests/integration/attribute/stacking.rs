//! Several attributes on one function.

use sluicegate::error::DeniedReason;
use sluicegate::http::User;
use sluicegate::{Caller, Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted};

const TWO: &str = "{address: {policies: [gcra 1/h burst 3]}, account: {policies: [gcra 1/h]}}";

#[limit("address", key = "{address}", registry = limits)]
#[limit("account", key = "{account}")]
fn log_in(limits: &Registry, address: &str, account: &str) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn several_attributes_are_one_decision_all_or_nothing() {
    let setup = Setup::new(TWO);
    assert!(log_in(&setup.limits, "here", "alice").is_ok());
    for _ in 0..5 {
        let denied = log_in(&setup.limits, "here", "alice").unwrap_err();
        assert_eq!(denied.to_string(), "limit `account` is exhausted: retry in 1 h");
    }
    assert_eq!(setup.left("address", "here"), 2, "the denied ones took nothing of it");
    assert!(log_in(&setup.limits, "here", "bob").is_ok());
    assert!(log_in(&setup.limits, "here", "carol").is_ok());
    let denied = log_in(&setup.limits, "here", "dave").unwrap_err();
    assert_eq!(denied.to_string(), "limit `address` is exhausted: retry in 1 h");
    assert_eq!(setup.left("account", "dave"), 1);
}

#[test]
fn the_order_of_attributes_and_others_between_them_change_nothing() {
    #[must_use = "it is a number"]
    #[limit("account", key = "{account}", cost = 1)]
    /// Documented in between.
    #[inline]
    #[limit("address", key = "{address}", registry = limits, cost = 2)]
    fn reversed(limits: &Registry, address: &str, account: &str) -> Result<u8, Denied> {
        Ok(7)
    }
    let setup = Setup::new(TWO);
    assert!(reversed(&setup.limits, "here", "alice").is_ok());
    assert!(reversed(&setup.limits, "here", "bob").is_err());
    assert_eq!(setup.left("address", "here"), 1);
    assert_eq!(setup.left("account", "bob"), 1);
}

#[test]
fn an_attribute_under_a_condition_is_decided_together_with_the_others() {
    #[limit("address", key = "{address}", registry = limits)]
    #[cfg_attr(test, limit("account", key = "{account}"))]
    #[cfg_attr(not(test), limit("nowhere"))]
    fn log_in(limits: &Registry, address: &str, account: &str) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::new(TWO);
    assert_eq!(admitted(3, || log_in(&setup.limits, "here", "alice")), 1);
    assert_eq!(setup.left("address", "here"), 2);
}

#[test]
fn what_one_attribute_skips_the_others_still_ask() {
    #[limit("address", key = "{address}", skip_if = *address == "office", registry = limits)]
    #[limit("account", key = user, missing = skip)]
    fn log_in(limits: &Registry, address: &&str) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::new(TWO);
    let alice = || Caller::new().with_user(User::new("alice"));
    assert_eq!(admitted(9, || log_in(&setup.limits, &"office")), 9, "nothing is asked");
    assert_eq!(admitted(9, || log_in(&setup.limits, &"home")), 3, "the address alone");
    let ask = || alice().scope_sync(|| log_in(&setup.limits, &"office"));
    assert_eq!(admitted(9, ask), 1, "the account alone");
}

#[test]
fn one_attribute_without_a_key_refuses_for_all() {
    #[limit("address", key = "{address}", registry = limits)]
    #[limit("account", key = user, missing = refuse)]
    fn log_in(limits: &Registry, address: &str) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::new(TWO);
    let denied = log_in(&setup.limits, "here").unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::NoKey);
    assert!(denied.to_string().contains("`account`"), "{denied}");
    assert_eq!(setup.left("address", "here"), 3);
}

#[limit("gcra 1/h burst 3", key = "{a}", registry = limits)]
#[limit("gcra 1/h burst 2", key = "{b}")]
fn both(limits: &Registry, a: u8, b: u8) -> Result<(), Denied> {
    Ok(())
}

#[test]
fn specs_without_names_are_told_apart() {
    let setup = Setup::empty();
    assert_eq!(admitted(5, || both(&setup.limits, 1, 1)), 2);
    assert_eq!(admitted(5, || both(&setup.limits, 1, 2)), 1);
    let path = "integration::attribute::stacking::both";
    assert_eq!(setup.left(path, "1"), 0);
    assert_eq!(setup.left(&format!("{path}-2"), "2"), 1);
}

#[test]
fn one_wait_one_fallback_and_one_predicate_hold_for_all() {
    fn busy() -> u8 {
        0
    }
    #[limit("address", key = "k", registry = limits, fallback = busy)]
    #[limit("account", key = "k", charge_if = |result| *result == 7)]
    fn number(limits: &Registry, number: u8) -> u8 {
        number
    }
    let setup = Setup::new(TWO);
    let left = || [setup.left("address", "k"), setup.left("account", "k")];
    assert_eq!(number(&setup.limits, 1), 1);
    assert_eq!(left(), [3, 1]);
    assert_eq!(number(&setup.limits, 7), 7);
    assert_eq!(left(), [2, 0]);
    assert_eq!(number(&setup.limits, 1), 0);
}
