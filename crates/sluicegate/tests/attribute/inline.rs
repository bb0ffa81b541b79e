//! Limits that attributes bring themselves.

use sluicegate::{Denied, Registry, limit};

use crate::support::{Setup, admitted, config};

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
    assert_eq!(setup.left("attribute::inline::nameless", "attribute::inline::nameless"), 1);
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
