use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::OnStoreFailure;
use sluicegate::config::Switch;
use sluicegate::decision::Source;
use sluicegate::error::{RequestErrorKind, StoreError};
use sluicegate::http::Key;
use sluicegate::store::{Acknowledgement, BoxFuture, OpenOptions, Store, StoreId};
use sluicegate::{Ask, Limit, MemoryStore, Registry};

use crate::registry::support::{Setup, admitted, check, config, now, try_check};

const LOGIN: &str = r#"limits:
  address:
    key: ip
    policies: [gcra 1/h burst 3]
    allow: [10.0.0.1]
    block: [10.6.6.6]
    overrides: [{key: 10.0.0.0/8, times: 3}]
  account:
    key: user
    policies: [gcra 1/h burst 2]
    overrides: [{key: "test-*", times: 2}]
"#;

fn ask<'a>(address: &'a str, account: &'a str) -> Ask<'a> {
    Ask::new(address).and(Ask::new(account))
}

#[test]
fn limits_are_decided_all_or_nothing_each_about_its_own_key() {
    let setup = Setup::new(LOGIN);
    let login = setup.registry.gate("address").and(setup.registry.gate("account")).unwrap();
    assert_eq!(login.name(), "address + account");
    let passes = |address, account| check(&login, ask(address, account)).is_allowed();
    assert!(passes("1.1.1.1", "alice") && passes("1.1.1.1", "alice"));
    assert!(!passes("1.1.1.1", "alice"));
    assert_eq!(setup.admitted("address", "1.1.1.1", 9), 1, "the denied one took nothing");
    assert_eq!(check(&login, ask("2.2.2.2", "bob").cost(1)).policies().len(), 2);
    let limit = login.limit().unwrap();
    assert_eq!(limit.parts().len(), 2);
}

/// Each key has its own numbers in the joint decision too.
#[test]
fn every_combination_of_numbers_is_decided_together() {
    let setup = Setup::new(LOGIN);
    let login = setup.registry.gate("address").and(setup.registry.gate("account")).unwrap();
    let admitted = |address, account| {
        (0..99).filter(|_| check(&login, ask(address, account)).is_allowed()).count()
    };
    assert_eq!(admitted("1.1.1.1", "a"), 2);
    assert_eq!(admitted("1.1.1.2", "test-a"), 3);
    assert_eq!(admitted("10.1.1.1", "b"), 2);
    assert_eq!(admitted("10.1.1.1", "test-b"), 4);
    assert_eq!(admitted("10.1.1.1", "test-c"), 3, "of 9, 6 are taken");
    assert_eq!(admitted("10.0.0.1", "test-d"), 4, "the address isn't counted");
    assert_eq!(admitted("10.0.0.1", "d"), 2);
}

#[test]
fn a_blocked_key_denies_the_whole_and_charges_nobody() {
    let setup = Setup::new(LOGIN);
    let login = setup.registry.gate("account").and(setup.registry.gate("address")).unwrap();
    for _ in 0..5 {
        let decision = check(&login, ask("alice", "10.6.6.6"));
        assert!(decision.is_denied());
        assert_eq!(decision.source(), Source::Bypass);
    }
    assert_eq!(setup.admitted("account", "alice", 9), 2);
}

#[test]
fn the_rest_is_decided_all_or_nothing_when_some_are_bypassed() {
    let setup = Setup::new(&format!("{LOGIN}  day: {{policies: [gcra 1/h burst 5]}}\n"));
    let registry = &setup.registry;
    let gate = registry
        .gate("address")
        .and(registry.gate("account"))
        .unwrap()
        .and(registry.gate("day"))
        .unwrap();
    let check = |address: &'static str, account: &'static str| {
        check(&gate, Ask::new(address).and(Ask::new(account).cost(2)).and("all"))
    };
    // The address is not counted; account and day are, or neither.
    let decision = check("10.0.0.1", "alice");
    assert!(decision.is_allowed());
    let names: Vec<_> = decision
        .limit()
        .unwrap()
        .parts()
        .iter()
        .map(sluicegate::policy::LimitName::as_str)
        .collect();
    assert_eq!(names, ["account", "day"]);
    assert!(check("10.0.0.1", "alice").is_denied());
    assert_eq!(now(registry.gate("day").peek("all")).unwrap().remaining(), Some(4));
    // Limits that are off, unknown, or not asked are left out with their costs.
    assert!(registry.switch_limit("account", Switch::Off).is_some());
    assert_eq!(check("1.1.1.1", "alice").policies().len(), 2);
    setup.replace("unknown_limits: pass\nlimits: {address: {policies: [gcra 1/h burst 3]}}");
    let decision = check("1.1.1.1", "alice");
    assert_eq!(decision.limit().unwrap().parts().len(), 1);
    assert_eq!(decision.remaining(), Some(1), "of 3, one before and one now");
    registry.switch(Switch::Off);
    assert_eq!(check("1.1.1.1", "alice").source(), Source::Bypass);
    assert!(gate.limit().is_none());
}

#[test]
fn a_request_may_have_nothing_to_do_with_one_of_the_limits() {
    let setup = Setup::new(LOGIN);
    let login = setup.registry.gate("address").and(setup.registry.gate("account")).unwrap();
    let decision = check(&login, Ask::new("1.1.1.1").and(Ask::nothing()));
    assert_eq!(decision.limit().unwrap().name().as_str(), "address");
    let decision = check(&login, Ask::nothing().and(Ask::nothing()));
    assert_eq!((decision.source(), decision.is_allowed()), (Source::Bypass, true));
    let nobody = Key::new("");
    assert_eq!(check(&setup.registry.gate("account"), Ask::from_key(&nobody)).remaining(), Some(1));
}

#[test]
fn an_unknown_name_among_several_denies_all_or_is_left_out() {
    let setup = Setup::new(&format!("unknown_limits: deny\n{LOGIN}"));
    let gate = setup.registry.gate("account").and(setup.registry.gate("nobody")).unwrap();
    assert!(check(&gate, ask("alice", "x")).is_denied());
    assert_eq!(setup.admitted("account", "alice", 9), 2);
    setup.replace(&format!("unknown_limits: pass\n{LOGIN}"));
    assert!(check(&gate, ask("bob", "x")).is_allowed());
}

#[test]
fn what_can_t_be_asked_is_an_error_that_says_why() {
    let setup = Setup::new(LOGIN);
    let account = setup.registry.gate("account");
    let login = account.clone().and(setup.registry.gate("address")).unwrap();
    let message = |gate: &sluicegate::Gate, ask: Ask<'_>| {
        let error = try_check(gate, ask).unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
        error.to_string()
    };
    let said = message(&login, Ask::new("a"));
    assert!(said.contains("`account + address` needs 2 keys, but one is given"), "{said}");
    let said = message(&account, ask("a", "b"));
    assert!(said.contains("`account` needs one key, but 2 are given"), "{said}");
}

/// Keys choose the combinations: there are more of them than are cached.
#[test]
fn very_many_combinations_are_decided_right() {
    let mut text = "limits:\n".to_owned();
    for limit in ["a", "b"] {
        text.push_str(&format!("  {limit}:\n    policies: [gcra 1/h burst 1]\n    overrides:\n"));
        for number in 2..40 {
            text.push_str(&format!("      - {{key: k{number}, times: {number}}}\n"));
        }
    }
    let setup = Setup::new(&text);
    let gate = setup.registry.gate("a").and(setup.registry.gate("b")).unwrap();
    for _ in 0..2 {
        for a in 2..40 {
            for b in 2..40 {
                let (a, b) = (format!("k{a}"), format!("k{b}"));
                let decision = now(gate.peek(Ask::new(&a).and(&b))).unwrap();
                let limits: Vec<_> = decision.policies().map(|outcome| outcome.limit()).collect();
                let wanted = [&a, &b].map(|key| key[1..].parse().ok());
                assert_eq!(limits, wanted);
            }
        }
    }
}

#[test]
fn a_store_that_fails_several_limits_at_once_does_what_the_strictest_says() {
    for (answers, expected) in [
        (["allow", "allow"], Some(true)),
        (["allow", "deny"], Some(false)),
        (["deny", "error"], None),
        (["error", "allow"], None),
    ] {
        let text = format!(
            "store: redis://127.0.0.1:1
limits:
  a: {{policies: [gcra 1/s], on_store_failure: {}, deadline: 1s}}
  b: {{policies: [gcra 1/s], on_store_failure: {}, deadline: 2s}}
",
            answers[0], answers[1]
        );
        let registry = Registry::open(&config(&text)).unwrap();
        let gate = registry.gate("a").and(registry.gate("b")).unwrap();
        let error = gate.check(ask("k", "k")).now().unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::WouldBlock);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let decision = runtime.block_on(gate.check(ask("k", "k")));
        assert_eq!(decision.ok().map(|decision| decision.is_allowed()), expected, "{answers:?}");
    }
    assert_eq!(OnStoreFailure::default(), OnStoreFailure::Error);
}

#[test]
fn a_joint_gate_follows_what_becomes_of_its_parts() {
    let setup = Setup::new(LOGIN);
    let login = setup.registry.gate("address").and(setup.registry.gate("account")).unwrap();
    assert!(check(&login, ask("1.1.1.1", "alice")).is_allowed());
    setup.replace(&LOGIN.replace("gcra 1/h burst 2", "gcra 1/h burst 1"));
    assert!(check(&login, ask("1.1.1.1", "alice")).is_denied());
    assert_eq!(admitted(&setup.registry.gate("address"), "1.1.1.1", 9), 2);
}

/// In either order, and also if only one of them has a deadline of its own.
#[cfg(feature = "redis")]
#[tokio::test]
async fn limits_are_asked_together_within_the_shortest_of_their_deadlines() {
    use sluicegate::Registry;
    use sluicegate_testkit::servers::{GarbageServer, Misbehaviour};

    let server = GarbageServer::start(Misbehaviour::Silence).unwrap();
    let registry = Registry::open(&config(&format!(
        "store: \"{}\"\nlimits:
  usual: {{policies: [gcra 1/h]}}
  short: {{policies: [gcra 1/h], deadline: 20ms}}
  long: {{policies: [gcra 1/h], deadline: 60s}}\n",
        server.url()
    )))
    .unwrap();
    for (one, other, within) in [
        ("short", "long", "within 20 ms"),
        ("long", "short", "within 20 ms"),
        ("long", "usual", "within 50 ms"),
        ("short", "usual", "within 20 ms"),
    ] {
        let both = registry.gate(one).and(registry.gate(other)).unwrap();
        let error = both.check(ask("a", "b")).await.unwrap_err().to_string();
        assert!(error.contains(within), "{one} and {other}: {error}");
    }
}

/// Records the acknowledgements that each limit needs.
struct Recording(MemoryStore, Arc<Mutex<Asked>>);

/// By the names of limits.
type Asked = Vec<(String, Option<Acknowledgement>)>;

impl Store for Recording {
    type Opened = <MemoryStore as Store>::Opened;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        self.1.lock().unwrap().push((limit.name().to_string(), options.acknowledged));
        self.0.open(limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

#[test]
fn limits_that_are_asked_together_ask_of_replicas_what_any_of_them_asks() {
    let opened = Arc::new(Mutex::new(Asked::new()));
    let text = "
limits:
  none: {policies: [gcra 1/h]}
  quick: {policies: [gcra 1/h], replicas: {acknowledge: 1, within: 5ms}}
  many: {policies: [gcra 1/h], replicas: {acknowledge: 3, within: 20ms}}
";
    let store = Recording(MemoryStore::new(), Arc::clone(&opened));
    let registry = Registry::builder(store).config(&config(text)).build();
    let asked = |name: &str| {
        let opened = opened.lock().unwrap();
        let (_, asked) = opened.iter().rev().find(|(opened, _)| opened == name).unwrap();
        asked.map(|asked| (asked.replicas.get(), asked.within))
    };
    assert_eq!(asked("none"), None);
    assert_eq!(asked("quick"), Some((1, Duration::from_millis(5))));
    assert_eq!(asked("many"), Some((3, Duration::from_millis(20))));
    let all = registry.gate("none").and(registry.gate("quick")).unwrap();
    let all = all.and(registry.gate("many")).unwrap();
    let keys = Ask::new("a").and(Ask::new("b")).and(Ask::new("c"));
    assert!(check(&all, keys).is_allowed());
    let joint = all.limit().unwrap();
    assert_eq!(asked(joint.name().as_str()), Some((3, Duration::from_millis(5))));
}
