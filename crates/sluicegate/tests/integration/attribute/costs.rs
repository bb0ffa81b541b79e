//! The number of units that a call takes.

use sluicegate::error::DeniedReason;
use sluicegate::policy::Cost;
use sluicegate::{Denied, Registry, limit};

use crate::attribute::support::{Setup, admitted};

#[test]
fn a_cost_is_a_number_or_an_expression_over_the_arguments() {
    #[limit("gcra 1/h burst 10", name = "three", key = "k", cost = 3, registry = limits)]
    fn three(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 10", name = "items", key = "k", cost = items.len(), registry = limits)]
    fn import(limits: &Registry, items: Vec<&str>) -> Result<Vec<String>, Denied> {
        Ok(items.into_iter().map(str::to_owned).collect())
    }
    let setup = Setup::empty();
    assert_eq!(admitted(5, || three(&setup.limits)), 3);
    assert_eq!(setup.left("three", "k"), 1);
    assert_eq!(import(&setup.limits, vec!["a", "b"]).unwrap(), ["a", "b"]);
    assert_eq!(setup.left("items", "k"), 8);
    assert!(import(&setup.limits, vec!["x"; 9]).is_err());
    assert_eq!(setup.left("items", "k"), 8, "a denied call takes nothing");
}

#[test]
fn a_cost_may_be_any_whole_number_without_a_sign() {
    #[limit("gcra 1/h burst 10", name = "small", key = "k", cost = units, registry = limits)]
    fn small(limits: &Registry, units: &u16) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 10", name = "checked", key = "k", cost = Cost::new(units)?, registry = limits)]
    fn checked(limits: &Registry, units: u64) -> Result<(), Box<dyn std::error::Error>> {
        Ok(())
    }
    let setup = Setup::empty();
    small(&setup.limits, &4).unwrap();
    assert_eq!(setup.left("small", "k"), 6);
    checked(&setup.limits, 4).unwrap();
    assert!(checked(&setup.limits, 0).is_err(), "the function's own error");
    assert_eq!(setup.left("checked", "k"), 6);
}

#[test]
fn a_cost_whose_type_is_open_is_a_number_of_units() {
    #[limit("gcra 1/h burst 99", name = "choice", key = "k", cost = if is_big { 10 } else { 1 }, registry = limits)]
    fn choice(limits: &Registry, is_big: bool) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "match", key = "k", cost = match size { 0 => 1, _ => 5 }, registry = limits)]
    fn matched(limits: &Registry, size: u8) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "product", key = "k", cost = 2 * 3, registry = limits)]
    fn product(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "group", key = "k", cost = (4), registry = limits)]
    fn group(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "block", key = "k", cost = { let units = 3; units + 4 }, registry = limits)]
    fn block(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "sum", key = "k", cost = sizes.iter().sum(), registry = limits)]
    fn sum(limits: &Registry, sizes: &[u64]) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "into", key = "k", cost = size.try_into().unwrap_or(1), registry = limits)]
    fn into(limits: &Registry, size: i32) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "generic", key = "k", cost = size.into(), registry = limits)]
    fn generic(limits: &Registry, size: impl Into<u64>) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 99", name = "other", key = "k", cost = if size > 8 { size } else { 8 }, registry = limits)]
    fn other(limits: &Registry, size: u16) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    let limits = &setup.limits;
    choice(limits, true).unwrap();
    matched(limits, 1).unwrap();
    product(limits).unwrap();
    group(limits).unwrap();
    block(limits).unwrap();
    sum(limits, &[1, 2, 8]).unwrap();
    into(limits, 12).unwrap();
    generic(limits, 13_u8).unwrap();
    other(limits, 14).unwrap();
    let names = ["choice", "match", "product", "group", "block", "sum", "into", "generic", "other"];
    let taken = names.map(|name| 99 - setup.left(name, "k"));
    assert_eq!(taken, [10, 5, 6, 4, 7, 11, 12, 13, 14]);
}

#[test]
fn each_policy_may_have_a_cost_of_its_own() {
    #[limit(
        policies = ["gcra 1/h burst 9 as requests", "gcra 1/h burst 100 as tokens"],
        name = "llm",
        key = "k",
        cost("requests") = 1,
        cost("tokens") = prompt.len(),
        registry = limits
    )]
    fn complete(limits: &Registry, prompt: &str) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("llm", key = "k", cost("tokens") = more, registry = limits)]
    fn go_on(limits: &Registry, more: u64) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("two", key = "k", cost = 2, cost("b") = u64::from(extra), registry = limits)]
    fn named(limits: &Registry, extra: bool) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::new(
        "{two: {policies: [gcra 1/h burst 9 as a, gcra 1/h burst 3 as b]}, \
          llm: {policies: [gcra 1/h burst 9 as requests, gcra 1/h burst 100 as tokens]}}",
    );
    complete(&setup.limits, &"x".repeat(40)).unwrap();
    let llm = setup.limits.gate("llm");
    let left = |gate: &sluicegate::Gate| {
        let decision = crate::attribute::support::now(gate.peek("k")).unwrap();
        [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
    };
    assert_eq!(left(&llm), [8, 60]);
    assert!(complete(&setup.limits, &"x".repeat(61)).is_err());
    assert_eq!(left(&llm), [8, 60]);
    go_on(&setup.limits, 50).unwrap();
    assert_eq!(left(&llm), [8, 10], "who isn't named isn't touched");
    assert!(go_on(&setup.limits, 11).is_err());
    go_on(&setup.limits, 0).unwrap();
    assert_eq!(left(&llm), [8, 10]);
    let two = setup.limits.gate("two");
    named(&setup.limits, true).unwrap();
    assert_eq!(left(&two), [7, 2]);
    // No unit of it is charged, and it never refuses.
    named(&setup.limits, false).unwrap();
    assert_eq!(left(&two), [5, 2]);
}

#[test]
fn a_cost_that_is_malformed_is_an_error_and_a_cost_above_the_limit_a_denial() {
    #[limit("gcra 1/h burst 10", name = "units", key = "k", cost = units, registry = limits)]
    fn take(limits: &Registry, units: u64) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    for units in [0, 1 << 53] {
        let denied = take(&setup.limits, units).unwrap_err();
        assert!(denied.to_string().contains("from 1 to 9007199254740991"), "{denied}");
        assert!(denied.decision().is_none());
    }
    let denied = take(&setup.limits, 11).unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::Limited);
    assert_eq!(
        denied.to_string(),
        "limit `units` never admits this cost: policy `gcra` admits at most 10 per request"
    );
    assert_eq!(setup.left("units", "k"), 10);
}

struct Tenant {
    plan: Option<u64>,
}

impl Tenant {
    fn units(&self, seen: &mut u32) -> u64 {
        *seen += 1;
        self.plan.unwrap()
    }
}

#[test]
fn a_cost_is_not_computed_for_calls_that_are_skipped() {
    #[limit("gcra 1/h burst 9", name = "skip_if", key = "k", cost = tenant.units(seen), skip_if = tenant.plan.is_none(), registry = limits)]
    fn skip_if(limits: &Registry, tenant: &Tenant, seen: &mut u32) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 9", name = "skip", key = tenant.plan, missing = skip, cost = tenant.units(seen), registry = limits)]
    #[limit("gcra 1/h burst 9", name = "beside", key = "k")]
    fn skip(limits: &Registry, tenant: &Tenant, seen: &mut u32) -> Result<(), Denied> {
        Ok(())
    }
    #[limit("gcra 1/h burst 9", name = "shadow", key = tenant.plan, missing = skip, cost("gcra") = tenant.units(seen), shadow, charge_if = |_| true, registry = limits)]
    async fn shadow(limits: &Registry, tenant: &Tenant, seen: &mut u32) -> u8 {
        7
    }
    #[limit("gcra 1/h burst 9", name = "refuse", key = tenant.plan, missing = refuse, registry = limits)]
    #[limit("gcra 1/h burst 9", name = "beside", key = "k", cost = tenant.units(seen))]
    fn refuse(limits: &Registry, tenant: &Tenant, seen: &mut u32) -> Result<(), Denied> {
        Ok(())
    }
    let setup = Setup::empty();
    let (limits, nobody, mut seen) = (&setup.limits, Tenant { plan: None }, 0);
    skip_if(limits, &nobody, &mut seen).unwrap();
    skip(limits, &nobody, &mut seen).unwrap();
    assert_eq!(crate::attribute::support::now(shadow(limits, &nobody, &mut seen)), 7);
    assert_eq!(refuse(limits, &nobody, &mut seen).unwrap_err().reason(), DeniedReason::NoKey);
    assert_eq!(seen, 0);
    assert_eq!(setup.left("beside", "k"), 8, "the other limit is asked");
    let known = Tenant { plan: Some(2) };
    skip_if(limits, &known, &mut seen).unwrap();
    skip(limits, &known, &mut seen).unwrap();
    assert_eq!(crate::attribute::support::now(shadow(limits, &known, &mut seen)), 7);
    refuse(limits, &known, &mut seen).unwrap();
    assert_eq!(seen, 4);
    assert_eq!(
        [setup.left("skip_if", "k"), setup.left("skip", "2"), setup.left("shadow", "2")],
        [7, 7, 7]
    );
    assert_eq!(setup.left("beside", "k"), 5);
}

#[test]
fn the_cost_is_computed_once_before_the_body_runs() {
    #[limit("gcra 1/h burst 10", name = "once", key = "k", cost = { *seen += 1; 2_u8 }, registry = limits)]
    fn once(limits: &Registry, seen: &mut u32) -> Result<u32, Denied> {
        *seen += 10;
        Ok(*seen)
    }
    let setup = Setup::empty();
    let mut seen = 0;
    assert_eq!(once(&setup.limits, &mut seen).unwrap(), 11);
    assert_eq!(setup.left("once", "k"), 8);
}
