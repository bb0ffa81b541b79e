//! Calls that have nothing to make the key from.

use sluicegate::error::DeniedReason;
use sluicegate::{Caller, Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted};

#[test]
fn calls_without_a_key_share_one() {
    #[limit("gcra 1/h burst 2", name = "shared", key = ip, registry = limits)]
    fn ask(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    assert_eq!(admitted(5, || ask(&setup.limits)), 2);
    Caller::new().scope_sync(|| assert!(ask(&setup.limits).is_err()));
    let known = Caller::new().with_ip([192, 0, 2, 7].into());
    known.scope_sync(|| assert_eq!(admitted(5, || ask(&setup.limits)), 2));
}

#[test]
fn calls_without_a_key_are_refused_where_the_attribute_says_so() {
    #[limit("gcra 1/h", name = "refuse", key = user, missing = refuse, registry = limits)]
    fn ask(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    let denied = ask(&setup.limits).unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::NoKey);
    assert_eq!(denied.to_string(), "the request lacks a part of the key of limit `refuse`");
}

#[test]
fn calls_without_a_key_are_not_asked_about_where_the_attribute_says_so() {
    #[limit("gcra 1/h", name = "skip", key = "{tenant}", missing = skip, registry = limits)]
    fn ask(limits: &Registry, tenant: Option<&str>) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    assert_eq!(admitted(5, || ask(&setup.limits, None)), 5);
    assert_eq!(admitted(5, || ask(&setup.limits, Some("acme"))), 1);
}

#[test]
fn a_key_that_lacks_one_part_is_missing_as_a_whole() {
    #[limit("gcra 1/h", name = "parts", key = "{tenant}:{path}", registry = limits)]
    fn ask(limits: &Registry, tenant: Option<&str>, path: &str) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    assert!(ask(&setup.limits, None, "a").is_ok());
    assert!(ask(&setup.limits, None, "b").is_err());
    assert!(ask(&setup.limits, Some(""), "a").is_ok(), "an empty part is one");
    assert!(ask(&setup.limits, Some(""), "b").is_ok());
}
