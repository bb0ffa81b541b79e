//! Rules with `x_sluicegate` blocks.

use std::time::Duration;

use prost_types::value::Kind;
use serde_json::json;
use sluicegate::decision::{HoldFound, HoldToken};
use sluicegate::testing::SystemClock;
use sluicegate::{Config, RedisStore, Registry, Usage};
use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::rate_limit_response::DescriptorStatus;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use sluicegate_testkit::servers;

use crate::running::{Running, script_calls};

/// Returns a descriptor of entries, with hits if they are given.
pub(crate) fn of(entries: &[(&str, &str)], hits: Option<u64>) -> RateLimitDescriptor {
    let entry =
        |&(key, value): &(&str, &str)| Entry { key: key.to_owned(), value: value.to_owned() };
    let entries = entries.iter().map(entry).collect();
    RateLimitDescriptor { entries, hits_addend: hits, ..RateLimitDescriptor::default() }
}

/// Returns a request of the domain `d`.
pub(crate) fn asking(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend: 0 }
}

/// Returns the code, the remaining units and the seconds until the reset of a status.
pub(crate) fn shown(status: &DescriptorStatus) -> (i32, u32, Option<i64>) {
    let reset = status.duration_until_reset.as_ref().map(|it| it.seconds);
    (status.code, status.limit_remaining, reset)
}

/// Returns the case of a service with one file.
pub(crate) fn case(file: &str) -> serde_json::Value {
    json!({"files": {"d.yaml": file}})
}

/// Asks, and returns the code of the answer with the code and the remaining units of each descriptor.
pub(crate) async fn codes(
    running: &Running,
    descriptors: Vec<RateLimitDescriptor>,
) -> (i32, Vec<(i32, u32)>) {
    let answer = running.ask(asking(descriptors)).await.expect("an answer");
    let statuses = answer.statuses.iter().map(|it| (it.code, it.limit_remaining));
    (answer.overall_code, statuses.collect())
}

const OK: i32 = 1;
const OVER: i32 = 2;

#[tokio::test]
async fn the_policies_of_a_block_decide() {
    let file = "\
domain: d
descriptors:
  - key: user
    x_sluicegate: {policies: [token_bucket 1/s burst 3, fixed_window 100/h aligned as hourly]}
  - {key: host, rate_limit: {unit: minute, requests_per_unit: 2}, x_sluicegate: {}}
";
    let (running, clock) = Running::driven(&case(file)).await;
    assert_eq!(
        running.limits.lines(),
        [
            "d.user: policies=[token_bucket 1/s burst 3, fixed_window 100/h aligned as hourly], shadow_mode: false, \
             quota_mode: false",
            "d.host: policies=[fixed_window 2/min aligned count_denied], shadow_mode: false, quota_mode: false",
        ]
    );
    let alice = || of(&[("user", "alice")], None);
    let answer = running.ask(asking(vec![alice(); 4])).await.expect("an answer");
    assert_eq!(answer.overall_code, OVER);
    let statuses: Vec<_> = answer.statuses.iter().map(shown).collect();
    assert_eq!(statuses[..3], [(OK, 2, Some(1)), (OK, 1, Some(2)), (OK, 0, Some(3))]);
    assert_eq!(statuses[3], (OVER, 0, Some(1)), "the next one passes in a second");
    let limit = answer.statuses[3].current_limit.as_ref().expect("a limit");
    assert_eq!((limit.name.as_str(), limit.requests_per_unit, limit.unit), ("d/user", 3, 0));
    clock.advance(Duration::from_secs(1));
    assert_eq!(codes(&running, vec![alice()]).await, (OK, vec![(OK, 0)]));
    // The denied request cost nothing.
    let gate = running.registry.gate("d/user");
    let peeked = gate.peek("alice").now().expect("an answer");
    assert_eq!(peeked.outcome("hourly").and_then(|it| it.remaining()), Some(96));
    // Another user, and a rule with its own numbers.
    let others = vec![of(&[("user", "bob")], None), of(&[("host", "a")], Some(2))];
    assert_eq!(codes(&running, others).await, (OK, vec![(OK, 2), (OK, 0)]));
}

#[tokio::test]
async fn rules_without_a_block_answer_unchanged_next_to_others() {
    let plain = "\
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 3}}
  - {key: user, value: eve, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
";
    let with_block = format!(
        "{plain}  - {{key: host, x_sluicegate: {{policies: [token_bucket 1/s burst 2]}}}}\n"
    );
    let one = Running::embedded(&case(plain)).await;
    let other = Running::embedded(&case(&with_block)).await;
    assert_eq!(other.limits.lines()[..2], one.limits.lines()[..]);
    for hits in [None, Some(2), Some(0), Some(5)] {
        let users = || vec![of(&[("user", "alice")], hits), of(&[("user", "eve")], hits)];
        let expected = one.ask(asking(users())).await.expect("an answer").statuses;
        let mut asked = users();
        asked.insert(1, of(&[("host", "a")], None));
        let mut statuses = other.ask(asking(asked)).await.expect("an answer").statuses;
        assert_eq!(statuses.remove(1).current_limit.expect("a limit").name, "d/host");
        assert_eq!(statuses, expected, "{hits:?}");
    }
}

#[tokio::test]
async fn forced_charges_go_past_the_limit_and_are_ok() {
    let file = "\
domain: d
descriptors:
  - {key: tokens, x_sluicegate: {policies: [token_bucket 1/s burst 10], charge: forced}}
";
    let (running, clock) = Running::driven(&case(file)).await;
    assert!(running.limits.lines()[0].ends_with("quota_mode: false, charge: forced"));
    let tokens = |hits| vec![of(&[("tokens", "acme")], Some(hits))];
    assert_eq!(codes(&running, tokens(0)).await, (OK, vec![(OK, 10)]));
    assert_eq!(codes(&running, tokens(15)).await, (OK, vec![(OK, 0)]));
    assert_eq!(codes(&running, tokens(0)).await, (OVER, vec![(OVER, 0)]), "5 units of debt");
    assert_eq!(codes(&running, tokens(1)).await, (OK, vec![(OK, 0)]));
    clock.advance(Duration::from_secs(7));
    assert_eq!(codes(&running, tokens(0)).await, (OK, vec![(OK, 1)]));
    let refund =
        RateLimitDescriptor { is_negative_hits: true, ..of(&[("tokens", "acme")], Some(4)) };
    assert_eq!(codes(&running, vec![refund]).await, (OK, vec![(OK, 5)]));
    // More than a state can hold.
    let refused = running.ask(asking(tokens(u64::MAX))).await.expect_err("too many");
    assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    assert_eq!(codes(&running, tokens(0)).await, (OK, vec![(OK, 5)]));
    let decided = running.decided.lock().expect("no test panics here");
    let over: u64 =
        decided.iter().flat_map(|it| &it.verdict.increments).map(|it| it.over_limit).sum();
    assert_eq!(over, 0);
}

/// Returns the tokens of holds in the metadata of an answer.
fn holds(answer: &RateLimitResponse) -> Vec<HoldToken> {
    let metadata = answer.dynamic_metadata.as_ref();
    let Some(Kind::ListValue(list)) =
        metadata.and_then(|it| it.fields.get("holds")).and_then(|it| it.kind.as_ref())
    else {
        return Vec::new();
    };
    let token = |value: &prost_types::Value| match &value.kind {
        Some(Kind::StringValue(text)) => text.parse().ok(),
        _ => None,
    };
    let tokens: Option<Vec<HoldToken>> = list.values.iter().map(token).collect();
    tokens.expect("a list of tokens")
}

#[tokio::test]
async fn held_hits_are_settled_by_the_token_in_the_metadata() {
    let file = "\
domain: d
descriptors:
  - {key: tokens, x_sluicegate: {policies: [fixed_window 1000/h aligned as tokens], hold: 30s}}
  - {key: user, rate_limit: {unit: hour, requests_per_unit: 9}}
";
    let (running, clock) = Running::driven(&case(file)).await;
    assert!(running.limits.lines()[0].ends_with("quota_mode: false, hold: 30s"));
    let tokens = |hits| of(&[("tokens", "acme")], Some(hits));
    let ask = async |hits| {
        let asked = asking(vec![of(&[("user", "alice")], None), tokens(hits)]);
        let answer = running.ask(asked).await.expect("an answer");
        (answer.statuses[1].limit_remaining, holds(&answer))
    };
    let (remaining, held) = ask(700).await;
    assert_eq!((remaining, held.len()), (300, 1));
    // Denied requests and looks hold nothing.
    assert_eq!(ask(700).await, (300, Vec::new()));
    assert_eq!(ask(0).await, (300, Vec::new()));
    let settle = |token| running.registry.settle(token, Usage::of("tokens", 100)).now();
    assert_eq!(settle(&held[0]).expect("an answer").remaining(), Some(900));
    let (remaining, held) = ask(600).await;
    assert_eq!((remaining, held.len()), (300, 1));
    clock.advance(Duration::from_secs(31));
    let late = settle(&held[0]).expect("an answer");
    assert_eq!(late.hold_found(), Some(HoldFound::Unknown), "it stays charged");
    assert_eq!(ask(0).await, (300, Vec::new()));
}

#[tokio::test]
async fn rules_of_a_group_count_together_in_their_domain() {
    let block = "x_sluicegate: {policies: [token_bucket 1/h burst 3], group: uploads}";
    let forced = block.replace("group", "charge: forced, group");
    let descriptors = format!(
        "descriptors:
  - {{key: path, value: /a, descriptors: [{{key: user, {block}}}]}}
  - {{key: path, value: /b, descriptors: [{{key: user, {forced}}}]}}
"
    );
    let other = format!("domain: e\n{descriptors}");
    let case = json!({"files": {"d.yaml": format!("domain: d\n{descriptors}"), "e.yaml": other}});
    let running = Running::embedded(&case).await;
    let ask = |path, user, hits| of(&[("path", path), ("user", user)], Some(hits));
    assert_eq!(codes(&running, vec![ask("/a", "alice", 1)]).await, (OK, vec![(OK, 2)]));
    assert_eq!(codes(&running, vec![ask("/b", "alice", 4)]).await, (OK, vec![(OK, 0)]));
    assert_eq!(codes(&running, vec![ask("/a", "alice", 1)]).await.0, OVER);
    assert_eq!(codes(&running, vec![ask("/a", "bob", 1)]).await, (OK, vec![(OK, 2)]));
    let elsewhere =
        RateLimitRequest { domain: "e".to_owned(), ..asking(vec![ask("/a", "alice", 1)]) };
    let answer = running.ask(elsewhere).await.expect("an answer");
    assert_eq!(answer.statuses[0].limit_remaining, 2);
    let names: Vec<String> =
        running.registry.limits().iter().map(|it| it.limit.name().to_string()).collect();
    let mut own: Vec<&str> =
        names.iter().map(String::as_str).filter(|it| !it.ends_with("/override")).collect();
    own.sort_unstable();
    assert_eq!(own, ["d/group:uploads", "e/group:uploads"]);
    assert!(running.limits.lines()[0].ends_with("quota_mode: false, group: uploads"));
}

#[tokio::test]
async fn lists_overrides_and_bans_of_a_block_apply() {
    let file = "\
domain: d
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
    x_sluicegate:
      ban: 2/1min for 15min
      allow: [root]
      block: [mallory]
      overrides: [{key: team-*, times: 10}]
";
    let (running, clock) = Running::driven(&case(file)).await;
    let ask = async |user: &str| {
        let answer = running.ask(asking(vec![of(&[("user", user)], None)])).await;
        shown(&answer.expect("an answer").statuses[0])
    };
    for _ in 0..3 {
        assert_eq!(ask("root").await, (OK, 0, None));
        assert_eq!(ask("mallory").await, (OVER, 0, None));
    }
    assert_eq!(ask("team-a").await.1, 9);
    assert_eq!(ask("alice").await.0, OK);
    for _ in 0..2 {
        assert_eq!(ask("alice").await.0, OVER);
    }
    // The second denial began the ban.
    clock.advance(Duration::from_secs(10));
    assert_eq!(ask("alice").await, (OVER, 0, Some(890)));
}

#[tokio::test]
async fn modes_metadata_headers_and_metrics_work_as_without_a_block() {
    let file = "\
domain: d
descriptors:
  - {key: soft, shadow_mode: true, metadata: {plan: soft}, x_sluicegate: {policies: [gcra 1/h]}}
  - {key: quota, quota_mode: true, value_to_metric: true, x_sluicegate: {policies: [gcra 1/h]}}
  - {key: other, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 9}}
";
    let env =
        json!({"RESPONSE_DYNAMIC_METADATA": "true", "LIMIT_RESPONSE_HEADERS_ENABLED": "true"});
    let running = Running::embedded(&json!({"files": {"d.yaml": file}, "env": env})).await;
    let soft = || of(&[("soft", "a")], None);
    let quota = || of(&[("quota", "b")], None);
    let answer = running.ask(asking(vec![soft()])).await.expect("an answer");
    let headers: Vec<(&str, &str)> =
        answer.response_headers_to_add.iter().map(|it| (&*it.key, &*it.value)).collect();
    assert_eq!(
        headers,
        [("RateLimit-Limit", "1"), ("RateLimit-Remaining", "0"), ("RateLimit-Reset", "3600")]
    );
    let metadata = answer.dynamic_metadata.expect("metadata");
    assert!(format!("{metadata:?}").contains("soft"), "{metadata:?}");
    assert_eq!(codes(&running, vec![soft()]).await, (OK, vec![(OK, 0)]));
    assert_eq!(codes(&running, vec![quota()]).await, (OK, vec![(OK, 0)]));
    // One quota is used up, another isn't.
    let both = vec![quota(), of(&[("other", "c")], None)];
    assert_eq!(codes(&running, both).await, (OK, vec![(OVER, 0), (OK, 8)]));
    assert_eq!(codes(&running, vec![quota()]).await.0, OVER);
    let decided = running.decided.lock().expect("no test panics here");
    let counted = |label: &str| {
        let increments = decided.iter().flat_map(|it| &it.verdict.increments);
        let own = increments.filter(|it| it.metric.labels().1 == label);
        own.map(|it| [it.total_hits, it.within_limit, it.over_limit, it.shadow_mode])
            .fold([0; 4], |sum, next| std::array::from_fn(|index| sum[index] + next[index]))
    };
    assert_eq!(counted("soft"), [2, 1, 1, 1]);
    assert_eq!(counted("quota_b"), [3, 1, 2, 0]);
}

#[tokio::test]
async fn a_reload_keeps_what_a_block_consumed() {
    let file = |policy: &str| {
        format!("domain: d\ndescriptors: [{{key: user, x_sluicegate: {{policies: [{policy}]}}}}]\n")
    };
    let running = Running::embedded(&case(&file("token_bucket 1/h burst 5"))).await;
    let alice = || vec![of(&[("user", "alice")], Some(3))];
    assert_eq!(codes(&running, alice()).await, (OK, vec![(OK, 2)]));
    let changes = running.load(&file("token_bucket 1/h burst 10")).expect("it is valid");
    assert_eq!(changes.to_string(), "changed: d/user");
    assert_eq!(codes(&running, alice()).await, (OK, vec![(OK, 4)]));
    let refused = running.load(&file("token_bucket 1/h burs 9")).expect_err("a wrong policy");
    assert!(refused.to_string().starts_with("d.yaml:2:"), "{refused}");
    assert_eq!(codes(&running, alice()).await, (OK, vec![(OK, 1)]), "the former rules");
}

#[tokio::test]
async fn a_limit_in_the_request_replaces_a_rule_with_a_block() {
    let file = "domain: d\ndescriptors: [{key: user, x_sluicegate: {policies: [gcra 1/h]}}]\n";
    let running = Running::embedded(&case(file)).await;
    let limit = sluicegate_envoy::service::protos::rate_limit_descriptor::RateLimitOverride {
        requests_per_unit: 7,
        unit: 3,
    };
    let own = RateLimitDescriptor { limit: Some(limit), ..of(&[("user", "alice")], None) };
    assert_eq!(codes(&running, vec![own]).await, (OK, vec![(OK, 6)]));
    assert_eq!(codes(&running, vec![of(&[("user", "alice")], None)]).await, (OK, vec![(OK, 0)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_decides_blocks_and_other_rules_in_one_call() {
    let server = servers::Server::start().expect("a server");
    let store = RedisStore::builder(&server.url()).expect("a URL");
    let registry = Registry::builder(store.deadline(Duration::from_secs(20)).build());
    let file = "\
domain: d
descriptors:
  - {key: plain, rate_limit: {unit: year, requests_per_unit: 9}}
  - {key: user, x_sluicegate: {policies: [token_bucket 1/h burst 3], deadline: 20s}}
  - {key: tokens, x_sluicegate: {policies: [gcra 1/h burst 9], charge: forced, deadline: 20s}}
";
    let running = Running::start(&case(file), registry.build(), SystemClock::default()).await;
    let asked = || {
        vec![
            of(&[("plain", "a")], Some(2)),
            of(&[("user", "alice")], Some(2)),
            of(&[("tokens", "acme")], Some(20)),
        ]
    };
    assert_eq!(codes(&running, asked()).await, (OK, vec![(OK, 7), (OK, 1), (OK, 0)]));
    let before = script_calls(&server);
    assert_eq!(codes(&running, asked()).await, (OVER, vec![(OK, 5), (OVER, 1), (OK, 0)]));
    assert_eq!(script_calls(&server) - before, 1);
    let looked = codes(&running, vec![of(&[("tokens", "acme")], Some(0))]).await;
    assert_eq!(looked, (OVER, vec![(OVER, 0)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_holds_and_the_deny_cache_work_on_a_server() {
    let server = servers::Server::start().expect("a server");
    let config = format!("store: \"{}\"\nlimits: {{a: {{policies: [gcra 1/s]}}}}", server.url());
    let config = Config::parse(&config, "limits.yaml").expect("it is valid");
    let registry = Registry::builder_from(&config).expect("a store").build();
    let file = "\
domain: d
descriptors:
  - {key: leased, x_sluicegate: {policies: [token_bucket 1/h burst 100000], leases: true, deadline: 20s}}
  - {key: cached, x_sluicegate: {policies: [gcra 1/h], deny_cache: true, deadline: 20s}}
  - {key: held, x_sluicegate: {policies: [gcra 1/h burst 9 as units], hold: 1h, deadline: 20s}}
";
    let clock = SystemClock::default();
    let running = Running::configured(&case(file), registry, config, clock).await;
    let ask = async |key: &str| codes(&running, vec![of(&[(key, "a")], None)]).await.0;
    for _ in 0..100 {
        assert_eq!(ask("leased").await, OK);
    }
    let before = script_calls(&server);
    for _ in 0..100 {
        assert_eq!(ask("leased").await, OK);
    }
    assert!(script_calls(&server) - before < 50, "most are decided by the lease");
    assert_eq!([ask("cached").await, ask("cached").await], [OK, OVER]);
    let before = script_calls(&server);
    assert_eq!(ask("cached").await, OVER);
    assert_eq!(script_calls(&server), before);
    let answer = running.ask(asking(vec![of(&[("held", "a")], Some(5))])).await;
    let held = holds(&answer.expect("an answer"));
    let settled = running.registry.settle(&held[0], Usage::of("units", 2)).await;
    assert_eq!(settled.expect("an answer").remaining(), Some(7));
}
