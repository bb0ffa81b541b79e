use sluicegate::decision::Source;
use sluicegate::error::DeniedReason;
use sluicegate::http::{Key, Peer, User};
use sluicegate::{Ask, Denied};

use crate::registry::support::{Setup, admitted, check, now};

const LISTS: &str = r#"limits:
  api:
    policies: [gcra 1/h burst 2]
    allow: [alice, "team-*", 10.0.0.0/8, "2001:db8::/32", "block-me-not"]
    block: [mallory, "team-evil*", 10.6.0.0/16, "block-*"]
"#;

#[test]
fn keys_on_the_allow_list_pass_and_are_not_counted() {
    let setup = Setup::new(LISTS);
    let gate = setup.registry.gate("api");
    for key in ["alice", "team-a", "team-", "10.1.2.3", "2001:db8:7::/64", "block-me-not"] {
        assert_eq!(admitted(&gate, key, 9), 9, "{key}");
        assert_eq!(check(&gate, key).source(), Source::Bypass, "{key}");
    }
    for key in ["alice2", "team", "11.1.2.3", "2001:db9::/64", "Alice", "10.0.0", "10.0.0.0/7"] {
        assert_eq!(admitted(&gate, key, 9), 2, "{key}");
    }
    // Without the list, no key has consumed units.
    setup.replace("limits: {api: {policies: [gcra 1/h burst 2]}}");
    assert_eq!(admitted(&gate, "alice", 9), 2);
}

#[test]
fn keys_on_the_block_list_are_denied_with_their_own_reason() {
    let setup = Setup::new(LISTS);
    let gate = setup.registry.gate("api");
    for key in ["mallory", "team-evil", "team-evil-2", "10.6.1.1", "block-me", "block-"] {
        let decision = check(&gate, key);
        assert!(decision.is_denied(), "{key}");
        assert_eq!(decision.source(), Source::Bypass, "{key}");
        let denied = Denied::unless_allowed(decision).unwrap_err();
        assert_eq!(denied.reason(), DeniedReason::Blocked);
        assert!(now(gate.peek(key)).unwrap().is_denied(), "{key}");
    }
    setup.replace("limits: {api: {policies: [gcra 1/h burst 2]}}");
    assert_eq!(admitted(&gate, "mallory", 9), 2, "what was denied was not counted");
}

/// The more specific entry counts, regardless of its list and the order.
#[test]
fn an_entry_of_either_list_makes_an_exception_to_the_other() {
    let setup = Setup::new(
        "limits:
  api:
    policies: [gcra 0/s]
    allow: [10.0.0.0/8, 10.6.6.6]
    block: [10.6.0.0/16, \"*\"]
",
    );
    let allowed = |key: &str| check(&setup.registry.gate("api"), key).is_allowed();
    assert!(allowed("10.1.1.1"));
    assert!(!allowed("10.6.1.1"));
    assert!(allowed("10.6.6.6"));
    assert!(!allowed("11.1.1.1"));
}

#[test]
fn a_user_called_like_an_address_has_no_address() {
    let setup = Setup::new(LISTS);
    let gate = setup.registry.gate("api");
    // The key knows its source.
    let (user, client) = (Key::new("10.1.2.3"), Key::of_network("10.1.2.3".parse().unwrap()));
    assert_eq!(check(&gate, Ask::from_key(&user)).source(), Source::Store);
    assert_eq!(check(&gate, Ask::from_key(&client)).source(), Source::Bypass);
    let joined = Key::join(&[client, Key::new("alice")]);
    assert_eq!(check(&gate, Ask::from_key(&joined)).source(), Source::Bypass);
    // Text alone is read according to the limit's `key`.
    setup.replace(&LISTS.replace("  api:\n", "  api:\n    key: user\n"));
    assert_eq!(check(&gate, "10.1.2.3").source(), Source::Store);
    assert_eq!(check(&gate, "alice").source(), Source::Bypass);
}

/// A client can't get onto a list for one alternative with the value of another one.
#[test]
fn each_alternative_of_a_key_has_entries_of_its_own() {
    let setup = Setup::new(
        r#"limits:
  api:
    key: user or 'key' + header:x-api-key or ip
    policies: [gcra 1/h burst 2]
    allow: [alice, "key|k1", 10.0.0.0/8]
    block: ["key|bad-*", 10.6.6.6]
"#,
    );
    let gate = setup.registry.gate("api");
    let asked = |user: Option<&str>, api_key: Option<&str>, peer: [u8; 4]| {
        let mut request = http::Request::get("/").extension(Peer((peer, 80).into()));
        if let Some(api_key) = api_key {
            request = request.header("x-api-key", api_key);
        }
        if let Some(user) = user {
            request = request.extension(User::new(user));
        }
        let keys = gate.keys(&request.body(()).unwrap()).unwrap();
        let decision = check(&gate, keys.ask());
        (decision.source() == Source::Bypass).then_some(decision.is_allowed())
    };
    let elsewhere = [192, 0, 2, 1];
    assert_eq!(asked(Some("alice"), None, elsewhere), Some(true));
    assert_eq!(asked(None, Some("k1"), elsewhere), Some(true));
    assert_eq!(asked(None, None, [10, 1, 2, 3]), Some(true));
    assert_eq!(asked(None, None, [10, 6, 6, 6]), Some(false));
    assert_eq!(asked(None, Some("bad-1"), elsewhere), Some(false));
    // Entries for one alternative don't match another.
    assert_eq!(asked(None, Some("alice"), elsewhere), None);
    assert_eq!(asked(Some("key|k1"), None, elsewhere), None);
    assert_eq!(asked(Some("10.1.2.3"), None, elsewhere), None);
    assert_eq!(asked(None, Some("10.1.2.3"), elsewhere), None);
    assert_eq!(asked(Some("bob"), None, [10, 1, 2, 3]), None, "the key has no address");
    // Over HTTP and on the command line a key is text: NUL and `|` for each alternative before.
    let listed = |key: &str| check(&gate, key).source() == Source::Bypass;
    assert!(listed("alice") && listed("\0|key|k1") && listed("\0|\0|10.1.2.3"));
    assert!(!listed("key|k1") && !listed("10.1.2.3"));
}

#[test]
fn a_blocked_key_still_settles_what_it_was_let_in_for() {
    let setup = Setup::new("limits: {api: {policies: [gcra 1/h burst 5]}}");
    let gate = setup.registry.gate("api");
    assert!(check(&gate, Ask::new("k").cost(5)).is_allowed());
    setup.replace("limits: {api: {policies: [gcra 1/h burst 5], block: [k]}}");
    assert_eq!(now(gate.refund(Ask::new("k").cost(3))).unwrap().source(), Source::Store);
    assert_eq!(now(gate.charge(Ask::new("k").cost(1))).unwrap().source(), Source::Store);
    setup.replace("limits: {api: {policies: [gcra 1/h burst 5]}}");
    assert_eq!(admitted(&gate, "k", 9), 2);
    // A key that isn't counted has nothing to settle, and can be forgotten.
    setup.replace("limits: {api: {policies: [gcra 1/h burst 5], allow: [k]}}");
    assert_eq!(now(gate.charge("k")).unwrap().source(), Source::Bypass);
    assert_eq!(now(gate.refund("k")).unwrap().source(), Source::Bypass);
    assert_eq!(now(gate.reset("k")).unwrap().source(), Source::Store);
    setup.replace("limits: {api: {policies: [gcra 1/h burst 5]}}");
    assert_eq!(admitted(&gate, "k", 9), 5);
}
