use sluicegate::Denied;
use sluicegate::decision::Source;
use sluicegate::error::DeniedReason;
use sluicegate::http::{Key, KeyExtractor as _, Peer, User};

use crate::registry::support::{Setup, check};

fn request(user: Option<&str>, peer: &str) -> http::Request<()> {
    let mut request = http::Request::get("/cart").body(()).unwrap();
    request.extensions_mut().insert(Peer(format!("{peer}:80").parse().unwrap()));
    if let Some(user) = user {
        request.extensions_mut().insert(User::new(user));
    }
    request
}

/// Seed 3.11: keys by address, by user, by method, or by an expression.
#[test]
fn the_keys_of_a_request_are_made_as_the_configuration_says() {
    let setup = Setup::new(
        "limits:
  address: {policies: [gcra 1/h burst 9]}
  account: {key: user + method, policies: [gcra 1/h burst 9]}
",
    );
    let gate = setup.registry.gate("address").and(setup.registry.gate("account")).unwrap();
    let made = |request: &http::Request<()>| {
        let keys = gate.keys(request).unwrap();
        let text = |key: &Key| String::from_utf8(key.as_bytes().to_vec()).unwrap();
        keys.iter().map(|key| key.map(text)).collect::<Vec<_>>()
    };
    let alice = request(Some("alice"), "192.0.2.7");
    assert_eq!(made(&alice), [Some("192.0.2.7".to_owned()), Some("alice|GET".to_owned())]);
    assert!(check(&gate, gate.keys(&alice).unwrap().ask()).is_allowed());
    // The next request has its keys by the next configuration.
    setup.replace("limits: {address: {key: \"path + 'x'\", policies: [gcra 1/h burst 9]}}");
    assert_eq!(made(&alice), [Some("/cart|x".to_owned()), None]);
}

#[test]
fn a_request_without_a_key_shares_one_or_is_refused_or_not_concerned() {
    let text = |missing: &str| {
        format!(
            "limits:
  account: {{key: user, policies: [gcra 1/h burst 2], missing_key: {missing}}}
  address: {{policies: [gcra 1/h burst 9]}}
"
        )
    };
    let setup = Setup::new(&text("shared"));
    let gate = setup.registry.gate("account").and(setup.registry.gate("address")).unwrap();
    let nobody = request(None, "192.0.2.7");
    let asked = || check(&gate, gate.keys(&nobody).unwrap().ask());
    assert!(asked().is_allowed() && asked().is_allowed() && asked().is_denied());
    let empty = Key::new("");
    let account = setup.registry.gate("account");
    let decision = check(&account, sluicegate::Ask::from_key(&empty));
    assert_eq!(decision.remaining(), Some(1), "not with those whose key is empty");

    setup.replace(&text("skip"));
    let decision = asked();
    assert!(decision.is_allowed());
    assert_eq!(decision.limit().unwrap().name().as_str(), "address", "the other still counts");
    let alone = setup.registry.gate("account");
    let keys = alone.keys(&nobody).unwrap();
    assert_eq!(check(&alone, keys.ask().cost(9)).source(), Source::Store, "a cost is a question");
    assert_eq!(check(&alone, keys.ask()).source(), Source::Bypass);

    setup.replace(&text("refuse"));
    let missing = gate.keys(&nobody).unwrap_err();
    assert_eq!(missing.to_string(), "limit `account`: the request has no known user");
    assert_eq!(missing.limit().as_str(), "account");
    assert_eq!(Denied::from(missing).reason(), DeniedReason::NoKey);
    // A limit that is off refuses no request.
    assert!(setup.registry.switch_limit("account", sluicegate::config::Switch::Off).is_some());
    assert!(gate.keys(&nobody).is_ok());
}

#[test]
fn the_client_s_address_is_found_as_the_configuration_says() {
    let setup = Setup::new(
        "http: {client_address: x-forwarded-for, trusted_proxies: [10.0.0.0/8], ipv6_prefix: 56}
limits: {a: {policies: [gcra 1/s], block: [192.0.2.0/24]}}
",
    );
    let gate = setup.registry.gate("a");
    let mut forwarded = request(None, "10.1.1.1");
    forwarded.headers_mut().insert("x-forwarded-for", "2001:db8:1:ff77::1".parse().unwrap());
    let keys = gate.keys(&forwarded).unwrap();
    assert_eq!(keys.iter().next().unwrap().unwrap().as_bytes(), b"2001:db8:1:ff00::/56");
    forwarded.headers_mut().insert("x-forwarded-for", "192.0.2.7".parse().unwrap());
    assert!(check(&gate, gate.keys(&forwarded).unwrap().ask()).is_denied());
    setup.replace("limits: {a: {policies: [gcra 1/s], block: [192.0.2.0/24]}}");
    assert!(
        check(&gate, gate.keys(&forwarded).unwrap().ask()).is_allowed(),
        "no field is believed"
    );
}

/// Defect 3.13: keys that don't say what they are of. The parts of a joined key can't be moved between each other. A
/// limit's name separates its keys from those of other limits.
#[test]
fn keys_of_one_limit_are_never_those_of_another_after_a_reload() {
    let text = "limits: {a: {key: user + path, policies: [gcra 1/h burst 1]}, b: {key: user, policies: [gcra 1/h burst 1]}}";
    let setup = Setup::new(text);
    let passes = |limit: &str, user: &str| {
        let gate = setup.registry.gate(limit);
        let keys = gate.keys(&request(Some(user), "192.0.2.1")).unwrap();
        check(&gate, keys.ask()).is_allowed()
    };
    assert!(passes("a", "alice"));
    // Users with the names of parts, entries or other limits.
    for user in
        ["alice|/cart", r"alice\|/cart", "a", "b", "*", "alice*", "10.0.0.0/8", "\0shared", "{a}"]
    {
        assert!(passes("a", user), "{user}");
        assert!(passes("b", user), "{user}");
    }
    // Other numbers, lists, and the first ones again: every key is unchanged.
    for change in [
        text.replace("burst 1", "burst 2"),
        text.replace("path, ", "path, overrides: [{key: \"*\", times: 3}], "),
        text.to_owned(),
    ] {
        setup.replace(&change);
        let made = Key::join(&[Key::new("alice"), Key::new("/cart")]);
        let expression = setup.registry.limit("a").unwrap().key.clone();
        assert_eq!(expression.key(&request(Some("alice"), "192.0.2.1")), Ok(made));
    }
    assert!(!passes("a", "alice"));
    assert!(!passes("b", "a"));
}
