use std::time::Duration;

use sluicegate::config::Switch;
use sluicegate::decision::{HoldFound, HoldToken, Source};
use sluicegate::error::RequestErrorKind;
use sluicegate::http::Key;
use sluicegate::policy::LimitName;
use sluicegate::{Ask, Gate, Registry, Usage};

use crate::registry::support::{Setup, now};

const LLM: &str = r#"limits:
  user:
    policies: [fixed_window 9/h as requests, fixed_window 900/h as tokens]
    allow: [root]
    block: [mallory]
    overrides: [{key: "vip-*", times: 10}]
  team:
    policies: [fixed_window 5000/h as tokens]
  day:
    policies: [fixed_window 99/d as daily]
"#;

fn joined(registry: &Registry, names: &[&str]) -> Gate {
    let gates = names.iter().map(|name| registry.gate(name));
    gates.reduce(|one, two| one.and(two).unwrap()).unwrap()
}

fn hold<'a>(gate: &Gate, ask: impl Into<Ask<'a>>) -> HoldToken {
    gate.check(ask).hold(Duration::from_secs(60)).now().unwrap().into_token().unwrap()
}

fn limits(token: &HoldToken) -> Vec<&str> {
    token.limits().map(LimitName::as_str).collect()
}

fn left(setup: &Setup, limit: &str, key: &str) -> Vec<u64> {
    let decision = setup.registry.gate(limit).peek(key).now().unwrap();
    decision.policies().map(|policy| policy.remaining().unwrap()).collect()
}

fn tokens<'a>(user: &'a str, units: u64) -> Ask<'a> {
    Ask::new(user).cost_of("requests", 1).cost_of("tokens", units)
}

#[test]
fn a_gate_settles_and_so_does_the_registry_by_the_token_alone() {
    let setup = Setup::new(LLM);
    let user = setup.registry.gate("user");
    let (first, second) = (hold(&user, tokens("alice", 300)), hold(&user, tokens("alice", 400)));
    assert_eq!(left(&setup, "user", "alice"), [7, 200]);
    let settled = user.settle(&first, Usage::of("tokens", 100)).now().unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    let text: HoldToken = second.to_string().parse().unwrap();
    assert!(setup.registry.renew(&text, Duration::from_secs(3_600)).now().unwrap().is_allowed());
    assert!(now(setup.registry.renew(&text, Duration::from_secs(3_600))).unwrap().is_allowed());
    setup.clock.advance(Duration::from_secs(1_800));
    let settled = setup.registry.settle(&text, Usage::nothing()).now().unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    assert_eq!(left(&setup, "user", "alice"), [8, 800]);
}

#[test]
fn joined_gates_settle_what_each_limit_was_charged() {
    let setup = Setup::new(LLM);
    let both = joined(&setup.registry, &["user", "team"]);
    let ask = || tokens("alice", 800).and(Ask::new("red").cost(700));
    for settled_by_registry in [false, true] {
        let token = hold(&both, ask());
        assert_eq!(limits(&token), ["user", "team"]);
        assert!(
            both.check(ask()).hold(Duration::from_secs(60)).now().unwrap().token().is_none(),
            "denied"
        );
        let usage = Usage::of("tokens", 0).and("requests", 0).and_in("team", "tokens", 5);
        let settled = if settled_by_registry {
            now(setup.registry.settle(&token, usage))
        } else {
            now(both.settle(&token, usage))
        };
        assert_eq!(settled.unwrap().hold_found(), Some(HoldFound::Live));
        assert_eq!(left(&setup, "user", "alice"), [9, 900]);
    }
    assert_eq!(left(&setup, "team", "red"), [4_990]);
}

/// The order of limits in a gate and in a token may differ.
#[test]
fn any_gate_of_the_limits_settles() {
    let setup = Setup::new(LLM);
    let token = hold(
        &joined(&setup.registry, &["user", "team"]),
        tokens("alice", 800).and(Ask::new("red").cost(700)),
    );
    let other = joined(&setup.registry, &["day", "team", "user"]);
    let usage = Usage::nothing().and("daily", 7).and_in("user", "tokens", 100);
    assert!(other.settle(&token, usage).now().unwrap().is_allowed());
    assert_eq!(left(&setup, "user", "alice"), [9, 800]);
    assert_eq!(left(&setup, "team", "red"), [5_000]);
    let nobody = Key::new("");
    let day = setup.registry.gate("day").peek(Ask::from_key(&nobody)).now().unwrap();
    assert_eq!(day.remaining(), Some(99), "it wasn't charged");
    let error = setup.registry.gate("team").settle(&token, Usage::nothing()).now().unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
    assert!(
        error.to_string().contains("of limit `user + team`, and the gate is of `team`"),
        "{error}"
    );
}

#[test]
fn what_no_limit_was_asked_about_has_no_token() {
    let setup = Setup::new(LLM);
    let user = setup.registry.gate("user");
    for (key, allowed) in [("root", true), ("mallory", false)] {
        let grant = user.check(key).hold(Duration::from_secs(60)).now().unwrap();
        assert_eq!((grant.is_allowed(), grant.source()), (allowed, Source::Bypass));
        assert!(grant.token().is_none());
    }
    setup.registry.switch(Switch::Off);
    let off = now(user.check("alice").hold(Duration::from_secs(60))).unwrap();
    assert!(off.is_allowed() && off.token().is_none());
    setup.registry.switch(Switch::On);
    // With several limits the token has those that were asked, and a usage may name the others.
    let both = joined(&setup.registry, &["user", "team"]);
    let token = hold(&both, tokens("root", 7).and(Ask::new("red").cost(700)));
    assert_eq!(limits(&token), ["team"]);
    let usage = || Usage::of("tokens", 100).and("requests", 1).and_in("user", "tokens", 9);
    assert!(both.settle(&token, usage()).now().unwrap().is_allowed());
    assert_eq!(left(&setup, "team", "red"), [4_900]);
    let error = setup.registry.settle(&token, usage()).now().unwrap_err().to_string();
    assert!(error.contains("limit `team` has no policy `requests`"), "{error}");
    let usage = Usage::of("tokens", 100).and_in("user", "requests", 1);
    assert!(setup.registry.settle(&token, usage).now().unwrap().is_allowed());
    let misspelt = Usage::of("tokens", 100).and_in("usr", "requests", 1);
    let error = setup.registry.settle(&token, misspelt).now().unwrap_err().to_string();
    assert!(error.contains("the token is not of limit `usr`: it is of team"), "{error}");
}

/// Charged units are settled, regardless of changes of the key or the limit.
#[test]
fn lists_and_switches_end_no_hold() {
    let setup = Setup::new(LLM);
    let user = setup.registry.gate("user");
    for change in ["allow: [root]", "block: [mallory]"] {
        let token = hold(&user, tokens("alice", 300));
        let list = change.replace('[', "[alice, ");
        setup.replace(&LLM.replace(change, &list));
        assert!(user.check("alice").hold(Duration::from_secs(60)).now().unwrap().token().is_none());
        let settled = user.settle(&token, Usage::nothing()).now().unwrap();
        assert_eq!(settled.hold_found(), Some(HoldFound::Live), "{change}");
        setup.replace(LLM);
        assert_eq!(left(&setup, "user", "alice"), [9, 900]);
    }
    let token = hold(&user, tokens("alice", 300));
    setup.registry.switch(Switch::Off);
    assert!(setup.registry.settle(&token, Usage::nothing()).now().unwrap().is_allowed());
    setup.registry.switch_back();
    assert_eq!(left(&setup, "user", "alice"), [9, 900]);
}

#[test]
fn an_override_settles_by_its_own_numbers() {
    let setup = Setup::new(LLM);
    let user = setup.registry.gate("user");
    let token = hold(&user, tokens("vip-1", 8_000));
    let settled = setup.registry.settle(&token, Usage::of("tokens", 1_000)).now().unwrap();
    assert_eq!(settled.outcome("tokens").unwrap().limit(), Some(9_000));
    assert_eq!(settled.outcome("tokens").unwrap().remaining(), Some(8_000));
}

/// Numbers, names and algorithms may change while something is held.
#[test]
fn a_new_configuration_settles_what_the_old_one_held() {
    for (before, after, expected) in [
        ("fixed_window 900/h as tokens", "fixed_window 500/h as tokens", 400),
        ("token_bucket 9/s burst 900 as tokens", "token_bucket 7/min burst 500 as tokens", 400),
        ("sliding_log 900/h as tokens", "sliding_log 500/h as tokens", 400),
        // Another algorithm starts fresh, and is charged the usage.
        ("fixed_window 900/h as tokens", "token_bucket 7/min burst 500 as tokens", 400),
    ] {
        let limits = |spec: &str| format!("limits: {{llm: {{policies: [{spec}]}}}}");
        let setup = Setup::new(&limits(before));
        let token = hold(&setup.registry.gate("llm"), Ask::new("acme").cost(800));
        setup.replace(&limits(after));
        let settled = setup.registry.settle(&token, Usage::of("tokens", 100)).now().unwrap();
        assert_eq!(settled.hold_found(), Some(HoldFound::Live));
        assert_eq!(settled.remaining(), Some(expected), "{before} and then {after}");
    }
    let setup = Setup::new("limits: {llm: {policies: [fixed_window 900/h as tokens]}}");
    let token = hold(&setup.registry.gate("llm"), Ask::new("acme").cost(800));
    setup.replace("limits: {llm: {policies: [fixed_window 900/h as units]}}");
    let error = setup.registry.settle(&token, Usage::of("tokens", 1)).now().unwrap_err();
    assert!(error.to_string().contains("its policies are units"), "{error}");
    assert!(setup.registry.settle(&token, Usage::nothing()).now().unwrap().is_allowed());
}

#[test]
fn a_token_of_a_limit_that_is_gone_is_a_typed_error() {
    let setup = Setup::new(&format!("unknown_limits: pass\n{LLM}"));
    let both = joined(&setup.registry, &["user", "team"]);
    let token = hold(&both, tokens("alice", 300).and(Ask::new("red").cost(300)));
    let other = "unknown_limits: pass\nlimits: {team: {policies: [fixed_window 5000/h as tokens]}}";
    setup.replace(other);
    let registry = &setup.registry;
    for error in [
        registry.settle(&token, Usage::nothing()).now().unwrap_err(),
        now(registry.renew(&token, Duration::from_secs(60))).unwrap_err(),
        both.settle(&token, Usage::nothing()).now().unwrap_err(),
        now(both.renew(&token, Duration::from_secs(60))).unwrap_err(),
    ] {
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::UnknownLimit);
        let message = error.to_string();
        assert!(
            message.starts_with("the token names the unknown limit `user`: the limits are team."),
            "{message}"
        );
    }
    assert_eq!(left(&setup, "team", "red"), [4_700], "nothing was settled");
    setup.replace(LLM);
    assert!(registry.settle(&token, Usage::nothing()).now().unwrap().is_allowed());
    assert_eq!(left(&setup, "team", "red"), [5_000]);
}
