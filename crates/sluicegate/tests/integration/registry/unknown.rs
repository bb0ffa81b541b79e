use std::time::Duration;

use sluicegate::config::{Switch, UnknownLimit};
use sluicegate::decision::Source;
use sluicegate::error::{DeniedReason, RequestErrorKind};
use sluicegate::{Ask, Denied, Gate, Registry};

use crate::log::warnings;
use crate::registry::support::{Setup, check, config, now, store, try_check};

const A: &str = "limits: {a: {policies: [gcra 1/s]}}";
const WARN: &str = "unknown_limits: warn\nlimits: {a: {policies: [gcra 1/s]}}";

fn problem(gate: &Gate) -> String {
    let error = try_check(gate, "k").unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::UnknownLimit);
    error.to_string()
}

/// A misspelled name admits no request.
#[test]
fn a_name_without_a_limit_is_an_error_that_says_what_may_be_meant() {
    let setup =
        Setup::new("limits: {login: {policies: [gcra 1/s]}, logout: {policies: [gcra 1/s]}}");
    let gate = setup.registry.gate("logn");
    let told = warnings(|| {
        for _ in 0..3 {
            assert_eq!(
                problem(&gate),
                "there is no limit called `logn`: did you mean `login`? Add it to the configuration, \
                 or set `unknown_limits` to pass, warn or deny"
            );
        }
        let other = problem(&setup.registry.gate("\x1b"));
        assert!(other.contains(r"`\u{1b}`: the limits are login, logout. Add"), "{other}");
    });
    assert_eq!(told.len(), 2, "once each: {told:?}");
    assert!(told[0].starts_with("there is no limit called `logn`: did you mean"), "{told:?}");
    let (store, _) = store();
    let empty = problem(&Registry::builder(store).build().gate("logn"));
    assert!(empty.contains("`logn`: there are none. Add"), "{empty}");
    // The limit is added, and removed again.
    setup.replace("limits: {logn: {policies: [gcra 1/s]}}");
    assert!(check(&gate, "k").is_allowed());
    setup.replace(A);
    problem(&gate);
    setup.registry.switch(Switch::Off);
    assert!(check(&gate, "k").is_allowed(), "off means that nothing is asked");
}

#[test]
fn every_operation_on_an_unknown_name_is_an_error() {
    let setup = Setup::new(A);
    let gate = setup.registry.gate("b");
    let joint = setup.registry.gate("a").and(gate.clone()).unwrap();
    let errors = [
        now(gate.peek("k")).err(),
        now(gate.take("k")).err(),
        now(gate.charge("k")).err(),
        now(gate.refund("k")).err(),
        now(gate.reset("k")).err(),
        now(gate.reserve("k", Duration::from_secs(1))).err(),
        gate.reserve("k", Duration::from_secs(1)).now().err(),
        now(joint.check(Ask::new("k").and("k"))).err(),
        now(joint.check(Ask::new("k").and(Ask::nothing()))).err(),
    ];
    for (index, error) in errors.iter().enumerate() {
        let kind = error.as_ref().and_then(|error| Some(error.as_request()?.kind()));
        assert_eq!(kind, Some(RequestErrorKind::UnknownLimit), "{index}");
    }
    assert_eq!(setup.admitted("a", "k", 1), 1, "the other took nothing");
    let denied = Denied::failed("b", errors[0].clone().unwrap());
    assert_eq!(denied.reason(), DeniedReason::Misconfigured);
    assert_eq!(denied.problem().status(), 500);
    assert!(!denied.problem().to_json().contains('`'), "clients are told no names");
}

/// Seed 4.8 and defect 4.6: a name without a limit is unlimited, without any notice.
#[test]
fn a_name_without_a_limit_passes_with_one_warning_each() {
    let setup = Setup::new(WARN);
    let told = warnings(|| {
        for _ in 0..3 {
            for name in ["b", "c", "b\n"] {
                let decision = check(&setup.registry.gate(name), "k");
                assert!(decision.is_allowed());
                assert_eq!(decision.source(), Source::Bypass);
            }
        }
        let held = setup.registry.gate("b");
        assert!(check(&held, "k").is_allowed() && held.limit().is_none());
    });
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].contains("there is no limit called `b`: requests pass"), "{told:?}");
    assert!(told[2].contains(r"`b\n`"), "{told:?}");
}

#[test]
fn a_name_is_warned_of_again_when_its_limit_was_there_and_went() {
    let setup = Setup::new(WARN);
    let gate = setup.registry.gate("b");
    let told = warnings(|| {
        let _ = check(&gate, "k");
        setup.replace(&WARN.replace("{a:", "{b:"));
        let _ = check(&gate, "k");
        setup.replace(&WARN.replace("{a:", "{c:"));
        let _ = (check(&gate, "k"), check(&gate, "k"));
    });
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn strangers_who_choose_names_don_t_fill_the_log() {
    for text in [A, WARN] {
        let setup = Setup::new(text);
        let told = warnings(|| {
            for number in 0..2_000 {
                let _ = try_check(&setup.registry.gate(&format!("name-{number}")), "k");
            }
        });
        assert_eq!(told.len(), 1_001);
        assert!(told[1_000].contains("further names"), "{}", told[1_000]);
        // They don't prevent a replacement of the configuration either.
        assert_eq!(setup.replace("limits: {c: {policies: [gcra 1/s]}}").added.len(), 1);
    }
}

#[test]
fn a_name_without_a_limit_does_what_is_configured() {
    let setup = Setup::new("unknown_limits: deny\nlimits: {a: {policies: [gcra 1/s]}}");
    let gate = setup.registry.gate("b");
    let told = warnings(|| {
        let decision = check(&gate, "k");
        assert!(decision.is_denied());
        assert_eq!(decision.source(), Source::Bypass);
        assert!(now(gate.peek("k")).unwrap().is_denied());
        // While limits are off, no request is denied.
        setup.registry.switch(Switch::Off);
        assert!(check(&gate, "k").is_allowed());
        setup.registry.switch(Switch::On);
        setup.replace("unknown_limits: pass\nlimits: {a: {policies: [gcra 1/s]}}");
        assert!(check(&gate, "k").is_allowed());
    });
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn a_limit_that_comes_later_is_found_by_the_gates_that_wait_for_it() {
    let (store, _) = store();
    let registry = Registry::builder(store).unknown(UnknownLimit::Deny).build();
    let gate = registry.gate("a");
    assert!(registry.find("a").is_none());
    assert!(check(&gate, "k").is_denied());
    let _ = registry.replace(&config("limits: {a: {policies: [gcra 1/h burst 1]}}")).unwrap();
    assert!(check(&gate, "k").is_allowed());
    assert!(check(&registry.find("a").unwrap(), "k").is_denied());
}
