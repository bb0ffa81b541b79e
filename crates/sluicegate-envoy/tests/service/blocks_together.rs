//! Domains whose block decides the descriptors of a call together.

use std::time::Duration;

use serde_json::json;
use sluicegate::testing::SystemClock;
use sluicegate::{RedisStore, Registry};
use sluicegate_testkit::servers;
use tonic::Code;

use crate::blocks::{asking, case, codes, of};
use crate::running::{Running, script_calls};

const OK: i32 = 1;
const OVER: i32 = 2;

const FILE: &str = "\
domain: d
x_sluicegate: {all_or_none: true, deadline: 20s}
descriptors:
  - {key: account, rate_limit: {unit: year, requests_per_unit: 5}}
  - {key: everybody, x_sluicegate: {policies: [token_bucket 1/h burst 8]}}
  - {key: soft, shadow_mode: true, x_sluicegate: {policies: [token_bucket 1/h burst 1]}}
  - {key: used, x_sluicegate: {policies: [token_bucket 1/h burst 1], charge: forced}}
  - {key: free, rate_limit: {unlimited: true}}
";

async fn nothing_is_charged_if_one_denies(running: &Running) {
    let both =
        |account, hits| vec![of(&[("account", account)], hits), of(&[("everybody", "")], hits)];
    assert_eq!(codes(running, both("a", Some(3))).await, (OK, vec![(OK, 2), (OK, 5)]));
    // The account has too little, so the other limit gives nothing.
    for _ in 0..2 {
        assert_eq!(codes(running, both("a", Some(3))).await, (OVER, vec![(OVER, 2), (OK, 5)]));
    }
    assert_eq!(codes(running, both("b", Some(5))).await, (OK, vec![(OK, 0), (OK, 0)]));
    assert_eq!(codes(running, both("c", Some(1))).await, (OVER, vec![(OK, 5), (OVER, 0)]));
    // The denied requests of `a` didn't count.
    assert_eq!(codes(running, vec![of(&[("account", "a")], Some(2))]).await, (OK, vec![(OK, 0)]));
}

#[tokio::test]
async fn a_call_is_one_decision() {
    let running = Running::embedded(&case(FILE)).await;
    assert_eq!(
        running.limits.lines()[0],
        "d.account: policies=[fixed_window 5/365d aligned], shadow_mode: false, quota_mode: false"
    );
    nothing_is_charged_if_one_denies(&running).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_one_decision_on_a_server() {
    let server = servers::Server::start().expect("a server");
    let store = RedisStore::builder(&server.url()).expect("a URL");
    let registry = Registry::builder(store.deadline(Duration::from_secs(20)).build());
    let running = Running::start(&case(FILE), registry.build(), SystemClock::default()).await;
    nothing_is_charged_if_one_denies(&running).await;
    let before = script_calls(&server);
    let asked = vec![
        of(&[("account", "d")], Some(1)),
        of(&[("everybody", "x")], Some(1)),
        of(&[("soft", "s")], Some(1)),
        of(&[("used", "u")], Some(1)),
    ];
    assert_eq!(codes(&running, asked).await.0, OK);
    assert_eq!(script_calls(&server) - before, 1);
}

#[tokio::test]
async fn a_denied_look_charges_nothing() {
    let running = Running::embedded(&case(FILE)).await;
    let ask = |hits| vec![of(&[("account", "a")], Some(hits)), of(&[("everybody", "")], Some(2))];
    assert_eq!(codes(&running, ask(0)).await, (OK, vec![(OK, 5), (OK, 6)]));
    assert_eq!(codes(&running, vec![of(&[("account", "a")], Some(5))]).await.0, OK);
    for _ in 0..2 {
        assert_eq!(codes(&running, ask(0)).await, (OVER, vec![(OVER, 0), (OK, 6)]));
    }
    assert_eq!(codes(&running, vec![of(&[("everybody", "")], Some(0))]).await, (OK, vec![(OK, 6)]));
}

#[tokio::test]
async fn rules_that_never_deny_are_decided_on_their_own() {
    let running = Running::embedded(&case(FILE)).await;
    let ask = |hits| {
        let others = [
            of(&[("soft", "s")], Some(1)),
            of(&[("used", "u")], Some(3)),
            of(&[("free", "f")], None),
        ];
        let mut asked = vec![of(&[("account", "a")], Some(hits))];
        asked.extend(others);
        asked
    };
    let (code, statuses) = codes(&running, ask(1)).await;
    assert_eq!((code, &statuses[..3]), (OK, &[(OK, 4), (OK, 0), (OK, 0)][..]));
    let (code, statuses) = codes(&running, ask(1)).await;
    assert_eq!((code, statuses[0]), (OK, (OK, 3)), "the rule in shadow mode would deny");
    let (code, statuses) = codes(&running, ask(9)).await;
    assert_eq!((code, statuses[0]), (OVER, (OVER, 3)));
}

#[tokio::test]
async fn one_key_twice_costs_twice_and_two_keys_of_a_rule_are_refused() {
    let running = Running::embedded(&case(FILE)).await;
    let account = |name| of(&[("account", name)], Some(2));
    assert_eq!(
        codes(&running, vec![account("a"), account("a")]).await,
        (OK, vec![(OK, 1), (OK, 1)])
    );
    let refused =
        running.ask(asking(vec![account("a"), account("b")])).await.expect_err("two keys");
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("different keys of limit `d/account`"), "{refused}");
    let many: Vec<String> = (0..65)
        .map(|it| format!("  - {{key: k{it}, x_sluicegate: {{policies: [gcra 9/h]}}}}\n"))
        .collect();
    let file =
        format!("domain: d\nx_sluicegate: {{all_or_none: true}}\ndescriptors:\n{}", many.concat());
    running.load(&file).expect("it is valid");
    let names: Vec<String> = (0..65).map(|it| format!("k{it}")).collect();
    let all = |count| names.iter().take(count).map(|it| of(&[(it, "")], None)).collect();
    assert_eq!(codes(&running, all(64)).await.0, OK);
    let refused = running.ask(asking(all(65))).await.expect_err("too many policies");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn defaults_of_a_domain_apply_to_all_of_its_rules() {
    // Nothing listens there.
    let store = RedisStore::builder("redis://127.0.0.1:1").expect("a URL").build();
    let file = "\
domain: d
x_sluicegate: {on_store_failure: allow}
descriptors:
  - {key: open, rate_limit: {unit: hour, requests_per_unit: 1}}
  - {key: closed, rate_limit: {unit: hour, requests_per_unit: 1}, x_sluicegate: {on_store_failure: deny}}
";
    let registry = Registry::builder(store).build();
    let other =
        "domain: e\ndescriptors: [{key: open, rate_limit: {unit: hour, requests_per_unit: 1}}]\n";
    let case = json!({"files": {"d.yaml": file, "e.yaml": other}});
    let running = Running::start(&case, registry, SystemClock::default()).await;
    assert_eq!(codes(&running, vec![of(&[("open", "a")], None)]).await.0, OK);
    assert_eq!(codes(&running, vec![of(&[("closed", "a")], None)]).await.0, OVER);
    let mut elsewhere = asking(vec![of(&[("open", "a")], None)]);
    elsewhere.domain = "e".to_owned();
    let failed = running.ask(elsewhere).await.expect_err("no store");
    assert_eq!(failed.code(), Code::Unavailable);
}
