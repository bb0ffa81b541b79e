use sluicegate::Ask;
use sluicegate::config::Switch;
use sluicegate::decision::Source;

use crate::registry::support::{Setup, admitted, check, config, now};

const TWO: &str = "limits:
  a: {policies: [gcra 1/h burst 2]}
  b: {policies: [gcra 1/h burst 2]}
";

/// Seed 0.1, 0.2 and 4.10: one switch for everything.
#[test]
fn a_registry_that_is_off_asks_no_limit_and_counts_nothing() {
    let setup = Setup::new(TWO);
    let gate = setup.registry.gate("a");
    assert_eq!(setup.registry.switched(), Switch::On);
    setup.registry.switch(Switch::Off);
    assert_eq!(setup.registry.switched(), Switch::Off);
    for _ in 0..10 {
        let decision = check(&gate, "k");
        assert!(decision.is_allowed() && decision.limit().is_none());
        assert_eq!(decision.source(), Source::Bypass);
    }
    assert!(gate.limit().is_none());
    setup.registry.switch(Switch::On);
    assert_eq!(admitted(&gate, "k", 10), 2, "nothing was counted meanwhile");
}

/// Seed 0.2: a registry that is off loads nothing, and nothing is loaded before it is needed.
#[test]
#[cfg(feature = "redis")]
fn a_registry_connects_at_the_first_question_and_not_while_it_is_off() {
    let server = sluicegate_testkit::servers::Server::start().unwrap();
    let mut watch = server.connect(std::time::Duration::from_secs(5)).unwrap();
    let mut connections = || {
        let stats = watch.command(&[b"INFO", b"stats"]).unwrap().to_string();
        let (_, rest) = stats.split_once("total_connections_received:").unwrap();
        rest.split('\r').next().unwrap().parse::<u64>().unwrap()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let before = connections();
        let text = format!("store: \"{}\"\nenabled: false\n{TWO}", server.url());
        let text = text.replace("{policies", "{deadline: 5s, policies");
        let registry = sluicegate::Registry::open(&config(&text)).unwrap();
        let gates = [registry.gate("a"), registry.gate("b")];
        for gate in &gates {
            for _ in 0..10 {
                assert_eq!(gate.check("k").await.unwrap().source(), Source::Bypass);
            }
        }
        assert_eq!(connections(), before, "it was off");
        registry.switch(Switch::On);
        let _ = registry.replace(&config(&text.replace("enabled: false\n", ""))).unwrap();
        assert_eq!(connections(), before, "nobody asked");
        let admitted = async |gate: &sluicegate::Gate| {
            let mut admitted = 0;
            for _ in 0..10 {
                admitted += u32::from(gate.check("k").await.unwrap().is_allowed());
            }
            admitted
        };
        assert_eq!([admitted(&gates[0]).await, admitted(&gates[1]).await], [2, 2]);
        assert_eq!(connections(), before + 1, "one for all limits");
    });
}

#[test]
fn limits_are_switched_one_by_one() {
    let setup = Setup::new(TWO);
    let registry = &setup.registry;
    assert_eq!(registry.switch_limit("a", Switch::Off), Some(Switch::On));
    assert_eq!(registry.switch_limit("a", Switch::Off), Some(Switch::Off));
    assert_eq!(registry.switch_limit("c", Switch::Off), None);
    assert_eq!(registry.limit_switched("a"), Some(Switch::Off));
    assert_eq!(registry.limit_switched("b"), Some(Switch::On));
    assert_eq!(registry.limit_switched("c"), None);
    assert_eq!(setup.admitted("a", "k", 10), 10);
    assert_eq!(setup.admitted("b", "k", 10), 2);
    // All off, and on again: the switch of one limit stays.
    registry.switch(Switch::Off);
    assert_eq!(setup.admitted("b", "k", 10), 10);
    registry.switch(Switch::On);
    assert_eq!(setup.admitted("a", "k", 10), 10);
    assert_eq!(setup.admitted("b", "k", 10), 0);
    assert_eq!(registry.switch_limit("a", Switch::On), Some(Switch::Off));
    assert_eq!(setup.admitted("a", "k", 10), 2);
}

/// Seed 4.10: switched by configuration.
#[test]
fn a_configuration_switches_too() {
    let setup = Setup::new(
        "enabled: false
limits: {a: {policies: [gcra 0/s]}}",
    );
    assert_eq!(setup.admitted("a", "k", 3), 3);
    setup.replace("limits: {a: {policies: [gcra 0/s]}}");
    assert_eq!(setup.admitted("a", "k", 3), 0);
    setup.replace("limits: {a: {policies: [gcra 0/s], enabled: false}}");
    assert_eq!(setup.admitted("a", "k", 3), 3);
}

#[test]
fn what_was_switched_at_run_time_outlasts_configurations_until_it_is_given_back() {
    let setup = Setup::new(TWO);
    let registry = &setup.registry;
    registry.switch(Switch::Off);
    assert!(registry.switch_limit("a", Switch::Off).is_some());
    setup.replace(&TWO.replace("burst 2", "burst 3"));
    assert_eq!(
        (registry.switched(), registry.limit_switched("a")),
        (Switch::Off, Some(Switch::Off))
    );
    registry.switch_back();
    assert_eq!(setup.admitted("a", "k", 9), 9);
    assert_eq!(setup.admitted("b", "k", 9), 3);
    assert_eq!(registry.switch_limit_back("a"), Some(Switch::Off));
    assert_eq!(setup.admitted("a", "k", 9), 3);

    // On, although the file says off.
    assert!(registry.switch_limit("a", Switch::On).is_some());
    registry.switch(Switch::On);
    setup.replace(&format!("enabled: false\n{}", TWO.replace("a: {", "a: {enabled: false, ")));
    assert_eq!(setup.admitted("a", "k", 9), 0);
    // A limit that is removed and added again has the state in its file.
    setup.replace("limits: {b: {policies: [gcra 1/h]}}");
    setup.replace(&TWO.replace("a: {", "a: {enabled: false, "));
    assert_eq!(registry.limit_switched("a"), Some(Switch::Off));
    assert_eq!(registry.limit_switched("b"), Some(Switch::On));
}

#[test]
fn a_key_can_be_forgotten_while_its_limit_is_off() {
    let setup = Setup::new(TWO);
    let gate = setup.registry.gate("a");
    assert_eq!(admitted(&gate, "k", 9), 2);
    assert!(setup.registry.switch_limit("a", Switch::Off).is_some());
    assert!(now(gate.reset("k")).unwrap().is_allowed());
    // Without a count, nothing can be given back or taken either.
    assert_eq!(now(gate.refund("k")).unwrap().source(), Source::Bypass);
    assert_eq!(now(gate.charge(Ask::new("k").cost(5))).unwrap().source(), Source::Bypass);
    assert!(setup.registry.switch_limit("a", Switch::On).is_some());
    assert_eq!(admitted(&gate, "k", 9), 2);
}

#[test]
fn the_whole_registry_can_be_made_off() {
    let (store, _) = crate::registry::support::store();
    let registry = sluicegate::Registry::builder(store)
        .limit(sluicegate::Limit::new("a", ["gcra 0/s"]).unwrap())
        .enabled(Switch::Off)
        .build();
    assert!(check(&registry.gate("a"), "k").is_allowed());
    registry.switch(Switch::On);
    assert!(check(&registry.gate("a"), "k").is_denied());
    // From the first configuration on that sets it.
    registry.switch_back();
    let _ = registry.replace(&config("limits: {b: {policies: [gcra 0/s]}}")).unwrap();
    assert!(check(&registry.gate("a"), "k").is_denied());
}
