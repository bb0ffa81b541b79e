//! Keys that a program gives as text are counted like keys that middleware makes from requests.

use std::time::Duration;

use sluicegate::admin::Page;
use sluicegate::config::Switch;
use sluicegate::decision::{HoldFound, HoldId, HoldToken, Source};
use sluicegate::error::{DeniedReason, RequestError, RequestErrorKind};
use sluicegate::http::{Key, Peer, User};
use sluicegate::{Ask, Config, Denied, Gate, Registry, Usage};

use crate::registry::support::{Setup, admitted, check, now, try_check};

const SPELLINGS: [&str; 5] = [
    "2001:db8:1:2::1",
    "2001:db8:1:2::2",
    "2001:DB8:1:2::1",
    "2001:db8:1:2:0:0:0:1",
    "[2001:db8:1:2::9]:443",
];

fn refusal(gate: &Gate, key: &str) -> String {
    let error = try_check(gate, key).unwrap_err();
    assert_eq!(
        error.as_request().map(RequestError::kind),
        Some(RequestErrorKind::UnfitKey),
        "{error}"
    );
    error.to_string()
}

#[test]
fn each_spelling_of_an_address_had_a_budget_of_its_own() {
    for key in ["key: ip, ", ""] {
        let setup = Setup::new(&format!(
            "http: {{ipv6_prefix: 64}}
limits: {{ip: {{{key}policies: [fixed_window 3/h], block: [10.0.0.0/8]}}}}"
        ));
        let gate = setup.registry.gate("ip");
        let taken = SPELLINGS.iter().filter(|key| check(&gate, **key).is_allowed()).count();
        assert_eq!(taken, 3, "one budget for the network");
        assert!(check(&gate, "2001:db8:1:3::1").is_allowed());
        let taken = ["198.51.100.1", "::ffff:198.51.100.1", "198.51.100.1:80", "::FFFF:c633:6401"];
        assert_eq!(taken.iter().filter(|key| check(&gate, **key).is_allowed()).count(), 3);
        assert_eq!(check(&gate, "::ffff:10.1.2.3").source(), Source::Bypass);
        // Middleware counts the same key.
        let request =
            http::Request::get("/").extension(Peer("[2001:db8:1:2::7]:1".parse().unwrap()));
        let keys = gate.keys(&request.body(()).unwrap()).unwrap();
        assert!(check(&gate, keys.ask()).is_denied());
    }
}

#[test]
fn every_operation_is_of_the_same_key() {
    let setup = Setup::new(
        "limits: {ip: {policies: [fixed_window 9/h], ban: 5/min for 15min}, jobs: {policies: [concurrency 9 hold 30s]}}",
    );
    let gate = setup.registry.gate("ip");
    let [one, two, ..] = SPELLINGS;
    let left = || gate.peek("2001:db8:1:2::/64").now().unwrap().policy(0).unwrap().remaining();
    let _ = gate.charge(Ask::new(one).cost(4)).now().unwrap();
    assert_eq!(left(), Some(5));
    let _ = gate.refund(Ask::new(two)).now().unwrap();
    assert_eq!(left(), Some(6));
    let id = HoldId::from_bytes([7; 16]);
    let jobs = setup.registry.gate("jobs");
    assert!(jobs.check(one).hold(Duration::from_secs(1)).under(id).now().unwrap().is_allowed());
    let holders = now(jobs.holders(two, Page::first())).unwrap();
    assert_eq!(holders.entries().len(), 1);
    // A caller that chose the id makes the token from the key that it gave.
    let token = HoldToken::new(id, [("jobs".parse().unwrap(), one)]).unwrap();
    let renewed = now(setup.registry.renew(&token, Duration::from_secs(1))).unwrap();
    assert_eq!(renewed.hold_found(), Some(HoldFound::Live));
    let settled = now(setup.registry.settle(&token, Usage::nothing())).unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    let id = HoldId::from_bytes([8; 16]);
    assert!(jobs.check(one).hold(Duration::from_secs(1)).under(id).now().unwrap().is_allowed());
    assert!(now(jobs.revoke(two, id)).unwrap().is_allowed());
    let _ = gate.ban(two, Duration::from_secs(3_600)).now().unwrap();
    let banned = now(gate.bans(Page::first())).unwrap();
    let listed = banned.entries()[0].key().whole().unwrap().to_vec();
    assert_eq!(listed, b"2001:db8:1:2::/64");
    assert!(check(&gate, one).is_denied());
    // The listed key can be given back.
    assert_eq!(gate.unban(&listed).now().unwrap().forgotten(), Some(true));
    let _ = gate.reset(one).now().unwrap();
    assert_eq!(left(), Some(9));
}

/// A client that chose the id of its hold makes the token of the key that it gave.
#[test]
fn a_gate_settles_by_the_key_that_was_given() {
    let setup = Setup::new("limits: {other: {policies: [gcra 1/h]}}");
    let limit = sluicegate::Limit::new("api", ["concurrency 2 hold 30s"]).unwrap();
    let gate = setup.registry.gate_with_numbers(limit);
    let given = "2001:DB8:1:2::7";
    let id = HoldId::from_bytes([7; HoldId::BYTES]);
    assert!(gate.check(given).hold(Duration::from_secs(30)).under(id).now().unwrap().is_allowed());
    let token = HoldToken::new(id, [("api".parse().unwrap(), given)]).unwrap();
    let settled = now(gate.settle(&token, Usage::nothing())).unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    let unknown = now(setup.registry.settle(&token, Usage::nothing())).unwrap_err();
    assert!(unknown.to_string().contains("unknown limit `api`"), "{unknown}");
}

#[test]
fn a_key_of_another_number_of_components_was_another_customer() {
    let setup = Setup::new(
        "limits: {api: {key: header:x-plan + header:x-tenant, policies: [gcra 1/h burst 2]}}",
    );
    let gate = setup.registry.gate("api");
    assert_eq!(admitted(&gate, "gold|acme", 9), 2);
    for key in ["acme", "a|b|c", "acme|", ""] {
        refusal(&gate, key);
    }
    assert_eq!(
        refusal(&gate, "acme"),
        "limit `api`: the key `acme` has 1 component, but `header:x-plan+header:x-tenant` has 2: join them with `|`; inside one, write `\\|` for `|` and `\\\\` for `\\`"
    );
    let denied = now(gate.enforce("acme")).unwrap_err();
    assert_eq!((denied.reason(), denied.problem().status().as_u16()), (DeniedReason::NoKey, 400));
    assert!(
        matches!(now(gate.holders("acme", Page::first())), Err(error) if !error.is_store_failure())
    );
    // A key made by code is counted unchanged.
    assert!(check(&gate, Ask::from_key(&Key::new("acme"))).is_allowed());
}

#[test]
fn an_explicit_key_refuses_text_and_no_key_accepts_any() {
    let setup =
        Setup::new("limits: {a: {key: ip, policies: [gcra 1/h]}, b: {policies: [gcra 1/h]}}");
    let [a, b] = ["a", "b"].map(|name| setup.registry.gate(name));
    for key in ["alice", "10.0.0.0/8", "192.0.2.1\0", "", &":".repeat(100_000)] {
        refusal(&a, key);
    }
    for key in ["alice", "10.0.0.0/8", "192.0.2.1\0", "-100123", &":".repeat(100_000)] {
        assert!(check(&b, key).is_allowed());
    }
    assert!(refusal(&b, "").contains("the key is empty"));
    let demo = Registry::open(&Config::default()).unwrap().gate("demo");
    assert!(check(&demo, "alice").is_allowed());
    // No limit is asked, so nothing is wrong.
    setup.registry.switch(Switch::Off);
    assert_eq!(check(&a, "alice").source(), Source::Bypass);
    // A reload to an explicit key takes effect.
    setup.registry.switch(Switch::On);
    setup.replace(
        "limits: {a: {key: ip, policies: [gcra 1/h]}, b: {key: ip, policies: [gcra 1/h]}}",
    );
    refusal(&b, "alice");
}

#[test]
fn each_limit_of_a_joint_decision_reads_its_own_key() {
    let setup = Setup::new(
        "limits: {ip: {key: ip, policies: [gcra 1/h burst 2]}, user: {key: user, policies: [gcra 1/h burst 9]}}",
    );
    let both = setup.registry.gate("ip").and(setup.registry.gate("user")).unwrap();
    let ask = |ip| Ask::new(ip).and(Ask::new("2001:DB8::1"));
    for (ip, allowed) in [("2001:db8::1", true), ("2001:DB8::2", true), ("2001:db8::3", false)] {
        assert_eq!(check(&both, ask(ip)).is_allowed(), allowed, "{ip}");
    }
    assert_eq!(check(&setup.registry.gate("user"), "2001:DB8::1").remaining(), Some(6));
    let error = try_check(&both, Ask::new("192.0.2.1").and(Ask::new(""))).unwrap_err();
    assert!(error.to_string().starts_with("limit `user`: the key is empty"), "{error}");
    assert!(Denied::failed("ip", error).problem().status().is_client_error());
}

#[test]
fn the_first_alternative_that_a_key_fits_counts() {
    let setup = Setup::new(
        "limits: {api: {key: header:x-tenant + user or ip, policies: [gcra 1/h burst 2]}}",
    );
    let gate = setup.registry.gate("api");
    let request = http::Request::get("/").extension(Peer("[::ffff:192.0.2.1]:1".parse().unwrap()));
    let keys = gate.keys(&request.body(()).unwrap()).unwrap();
    assert!(check(&gate, keys.ask()).is_allowed());
    assert!(check(&gate, "192.0.2.1").is_allowed(), "the same address");
    assert!(check(&gate, "\0|192.0.2.1").is_denied(), "as lists show it");
    let request = http::Request::get("/").header("x-tenant", "acme").extension(User::new("a|b"));
    let keys = gate.keys(&request.body(()).unwrap()).unwrap();
    assert_eq!((admitted(&gate, r"acme|a\|b", 9), check(&gate, keys.ask()).is_denied()), (2, true));
    assert!(refusal(&gate, "alice").contains("give 2 components joined with `|`, or an address"));
}
