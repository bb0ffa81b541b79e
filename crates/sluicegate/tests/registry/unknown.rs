use sluicegate::{Registry, Source, Switch, UnknownLimit};

use crate::log::warnings;
use crate::support::{Setup, check, config, now, store};

/// Seed 4.8 and defect 4.6: a name without a limit is unlimited, but nobody is told.
#[test]
fn a_name_without_a_limit_passes_with_one_warning_each() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/s]}}");
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
    let setup = Setup::new("limits: {a: {policies: [gcra 1/s]}}");
    let gate = setup.registry.gate("b");
    let told = warnings(|| {
        let _ = check(&gate, "k");
        setup.replace("limits: {b: {policies: [gcra 1/s]}}");
        let _ = check(&gate, "k");
        setup.replace("limits: {c: {policies: [gcra 1/s]}}");
        let _ = (check(&gate, "k"), check(&gate, "k"));
    });
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn strangers_who_choose_names_don_t_fill_the_log() {
    let setup = Setup::new("limits: {a: {policies: [gcra 1/s]}}");
    let told = warnings(|| {
        for number in 0..2_000 {
            let _ = check(&setup.registry.gate(&format!("name-{number}")), "k");
        }
    });
    assert_eq!(told.len(), 1_001);
    assert!(told[1_000].contains("further names"), "{}", told[1_000]);
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
        // Off means that nobody is denied.
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
