use std::time::Duration;

use sluicegate::Registry;
use sluicegate::config::{LimitConfig, Override};
use sluicegate::http::KeyMatcher;
use sluicegate::store::{Span, Store as _};

use crate::registry::support::{Setup, admitted, check, store};

const OVERRIDES: &str = r#"limits:
  api:
    policies: [gcra 1/h burst 2]
    overrides:
      - {key: "tenant-*", policies: [gcra 1/h burst 3]}
      - {key: "tenant-4*", policies: [gcra 1/h burst 4]}
      - {key: tenant-42, policies: [gcra 1/h burst 5]}
      - {key: 10.0.0.0/8, times: 3}
      - {key: 10.1.0.0/16, times: 3.5}
      - {key: "10.*", times: 50}
"#;

#[test]
fn the_most_particular_override_has_the_numbers() {
    let setup = Setup::new(OVERRIDES);
    for (key, most) in [
        ("other", 2),
        ("tenant", 2),
        ("tenant-7", 3),
        ("tenant-4", 4),
        ("tenant-43", 4),
        ("tenant-42", 5),
        ("tenant-42 ", 4),
        ("10.2.3.4", 6),
        ("10.1.3.4", 7),
        ("10.x", 100),
        ("11.1.3.4", 2),
    ] {
        assert_eq!(setup.admitted("api", key, 200), most, "{key}");
    }
    // In any order of the file.
    let (head, lines) = OVERRIDES.split_once("overrides:\n").unwrap();
    let backwards: Vec<&str> = lines.lines().rev().collect();
    let setup = Setup::new(&format!("{head}overrides:\n{}\n", backwards.join("\n")));
    assert_eq!(setup.admitted("api", "tenant-42", 200), 5);
    assert_eq!(setup.admitted("api", "10.1.3.4", 200), 7);
}

/// Entries of overrides name components, which no value of another component can fake.
#[test]
fn an_override_may_name_a_component_of_the_key() {
    let setup = Setup::new(
        r#"limits:
  api:
    key: header:x-tenant + user
    policies: [gcra 1/h burst 2]
    overrides:
      - {key: "acme|*", policies: [gcra 1/h burst 3]}
      - {key: "*|alice", policies: [gcra 1/h burst 4]}
      - {key: "oscorp|a*", policies: [gcra 1/h burst 5]}
      - {key: 'a\|b|bob', policies: [gcra 1/h burst 6]}
"#,
    );
    for (key, most) in [
        ("acme|bob", 3),
        ("acme|alice", 3),
        ("globex|alice", 4),
        ("oscorp|alice", 5),
        ("oscorp|bob", 2),
        (r"a\|b|bob", 6),
        (r"globex\|x|alice", 4),
        (r"globex|x\|alice", 2),
        (r"acme\|x|bob", 2),
    ] {
        assert_eq!(setup.admitted("api", key, 20), most, "{key}");
    }
    let gate = setup.registry.gate("api");
    let asked = |tenant: &str, user: &str| {
        let request = http::Request::get("/")
            .header("x-tenant", tenant)
            .extension(sluicegate::http::User::new(user))
            .body(())
            .unwrap();
        let keys = gate.keys(&request).unwrap();
        check(&gate, keys.ask()).policy(0).unwrap().limit()
    };
    assert_eq!(asked("acme", "zoe"), Some(3));
    assert_eq!(asked("hooli", "alice"), Some(4));
    assert_eq!(asked("hooli", "acme|alice"), Some(2), "no part of a name is another component");
    assert_eq!(asked("acme|x", "alice"), Some(4));
}

#[test]
fn answers_speak_of_the_numbers_that_were_asked() {
    let setup = Setup::new(OVERRIDES);
    let gate = setup.registry.gate("api");
    let decision = check(&gate, "tenant-42");
    assert_eq!(decision.policy(0).unwrap().limit(), Some(5));
    let limit = decision.limit().unwrap();
    assert_eq!(limit.members()[0].policy().to_string(), "gcra 1/h burst 5");
    assert_eq!(gate.limit().unwrap().members()[0].policy().to_string(), "gcra 1/h burst 2");
}

/// Seed defects 0.7 and 3.6: stored numbers. Here the state has none, and a key that gets other numbers keeps its
/// consumed units.
#[test]
fn a_key_that_gets_other_numbers_keeps_what_it_consumed() {
    let setup = Setup::new("limits: {api: {policies: [gcra 1/h burst 2]}}");
    let gate = setup.registry.gate("api");
    assert_eq!(admitted(&gate, "tenant-42", 9), 2);
    assert_eq!(setup.replace(OVERRIDES).to_string(), "changed: api");
    assert_eq!(admitted(&gate, "tenant-42", 9), 3, "of 5, 2 are taken");
    setup.replace("limits: {api: {policies: [gcra 1/h burst 2]}}");
    assert_eq!(admitted(&gate, "tenant-42", 9), 0);
    setup.clock.advance(Duration::from_micros(3 * Span::HOUR.as_micros()));
    assert_eq!(admitted(&gate, "tenant-42", 9), 0, "2 are still taken");
    setup.clock.advance(Duration::from_secs(3_600));
    assert_eq!(admitted(&gate, "tenant-42", 9), 1);
}

/// The store may forget a state that equals a fresh one under all numbers, not only under those of most keys.
#[test]
fn the_slowest_of_the_numbers_decides_what_is_forgotten() {
    const TEXT: &str = "limits:
  api:
    policies: [gcra 100/s burst 100]
    overrides: [{key: slow, policies: [gcra 1/h burst 1]}]
";
    let setup = Setup::new(TEXT);
    assert_eq!(setup.admitted("api", "slow", 9), 1);
    setup.clock.advance(Duration::from_secs(60));
    setup.replace(&TEXT.replace("gcra 100/s burst 100", "gcra 100/s burst 101"));
    let store = setup.registry.store();
    (0..10_000).for_each(|_| store.maintain());
    assert_eq!(store.stats().keys, Some(1));
    assert_eq!(setup.admitted("api", "slow", 9), 0);
}

#[test]
fn code_makes_overrides_too() {
    let (store, _) = store();
    let mut api = LimitConfig::new(sluicegate::Limit::new("api", ["fixed_window 2/h"]).unwrap());
    let key = KeyMatcher::prefix("vip-");
    api.overrides = vec![Override::times(key, &api.limit, "4".parse().unwrap()).unwrap()];
    let registry = Registry::builder(store).limit(api).build();
    let gate = registry.gate("api");
    assert_eq!((admitted(&gate, "vip-1", 99), admitted(&gate, "1", 99)), (8, 2));
}
