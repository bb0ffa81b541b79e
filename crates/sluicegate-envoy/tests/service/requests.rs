//! The recorded requests get the recorded answers.

use std::collections::BTreeMap;

use prost_types::value::Kind;
use serde_json::{Map, Value, json};
use sluicegate::testing::SystemClock;
use sluicegate::{RedisStore, Registry};
use sluicegate_envoy::incumbent::Unit;
use sluicegate_envoy::service::Decided;
use sluicegate_envoy::service::protos::rate_limit_descriptor::{Entry, RateLimitOverride};
use sluicegate_envoy::service::protos::rate_limit_response::DescriptorStatus;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use sluicegate_testkit::servers;

use crate::running::{NOW, Running};

fn cases() -> Vec<Value> {
    let text = include_str!("../incumbent/recorded/requests.jsonl");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

#[tokio::test]
async fn the_embedded_store_gives_the_recorded_answers() {
    for case in &cases() {
        let running = Running::embedded(case).await;
        let name = case["case"].as_str().expect("a name");
        for (index, asked) in case["asked"].as_array().expect("requests").iter().enumerate() {
            let answer = running.ask(request(asked)).await.expect("an answer");
            assert_eq!(written(&answer), expected(asked), "request {index} of {name}: {asked}");
        }
        if let Some(counted) = case["counted"].as_object() {
            let decided = running.decided.lock().expect("no test panics here");
            assert_eq!(sums(&decided), *counted, "{name}");
        }
    }
}

/// The server's clock runs, so cases with short windows, and with seconds in the answers, are left out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_gives_recorded_answers() {
    let binary = servers::available().expect("servers").remove(0);
    let server = servers::Server::start_with(&binary, &[]).expect("a server");
    let is_timeless = |case: &&Value| {
        let text = case.to_string().to_lowercase();
        !["second", "minute", "headers", "metadata"].iter().any(|word| text.contains(word))
    };
    let cases = cases();
    let timeless: Vec<&Value> = cases.iter().filter(is_timeless).take(25).collect();
    assert!(timeless.len() >= 5, "{}", timeless.len());
    for case in timeless {
        let prefix = servers::fresh_prefix("envoy").parse().expect("a prefix");
        let store = RedisStore::builder(&server.url()).expect("a URL").prefix(prefix);
        let store = store.deadline(std::time::Duration::from_secs(20)).build();
        let registry = Registry::builder(store).build();
        let running = Running::start(case, registry, SystemClock::default()).await;
        for (index, asked) in case["asked"].as_array().expect("requests").iter().enumerate() {
            let answer = running.ask(request(asked)).await.expect("an answer");
            assert_eq!(written(&answer), expected(asked), "request {index} of {}", case["case"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_descriptors_of_a_request_are_one_call_of_the_script() {
    let server = servers::Server::start().expect("a server");
    let store = RedisStore::builder(&server.url()).expect("a URL");
    let registry = Registry::builder(store.deadline(std::time::Duration::from_secs(20)).build());
    let file =
        "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 9}}\n";
    let case = json!({"files": {"d.yaml": file}});
    let running = Running::start(&case, registry.build(), SystemClock::default()).await;
    let calls = || {
        let stats = server.cli(&["INFO", "commandstats"]).expect("the server answers");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let calls = line.and_then(|line| line.split(',').next()).map_or(Ok(0), str::parse::<usize>);
        calls.expect("a number")
    };
    let of = |number: usize| json!({"e": [["k", format!("{}", number % 40)]]});
    let asked = json!({"domain": "d", "of": (0..64).map(of).collect::<Vec<_>>()});
    assert!(running.ask(request(&asked)).await.is_ok());
    let before = calls();
    let answer = running.ask(request(&asked)).await.expect("an answer");
    assert_eq!(calls() - before, 1);
    let remaining: Vec<u32> = answer.statuses.iter().map(|it| it.limit_remaining).collect();
    assert_eq!((remaining[0], remaining[30], remaining[40]), (6, 7, 5));
}

fn request(asked: &Value) -> RateLimitRequest {
    let descriptors = asked["of"].as_array().expect("descriptors").iter();
    RateLimitRequest {
        domain: asked["domain"].as_str().expect("a domain").to_owned(),
        descriptors: descriptors.map(descriptor).collect(),
        hits_addend: asked["hits"].as_u64().unwrap_or_default().try_into().expect("32 bits"),
    }
}

fn descriptor(of: &Value) -> RateLimitDescriptor {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let entry = |entry: &Value| Entry { key: text(&entry[0]), value: text(&entry[1]) };
    let limit = of["limit"].as_str().map(|limit| {
        let (number, unit) = limit.split_once('/').expect("a number and a unit");
        let unit = Unit::from_name(unit).expect("a unit").number();
        RateLimitOverride { requests_per_unit: number.parse().expect("a number"), unit }
    });
    RateLimitDescriptor {
        entries: of["e"].as_array().expect("entries").iter().map(entry).collect(),
        limit,
        hits_addend: of["hits"].as_u64(),
        is_negative_hits: false,
    }
}

fn written(answer: &RateLimitResponse) -> Value {
    let statuses: Vec<String> = answer.statuses.iter().map(status).collect();
    let mut written = json!({"code": code(answer.overall_code), "is": statuses});
    if !answer.response_headers_to_add.is_empty() {
        let headers = answer.response_headers_to_add.iter();
        written["headers"] = headers.map(|header| json!([header.key, header.value])).collect();
    }
    if let Some(metadata) = &answer.dynamic_metadata {
        written["metadata"] = fields(metadata);
    }
    written
}

fn expected(asked: &Value) -> Value {
    let mut expected = json!({"code": asked["code"], "is": asked["is"]});
    for field in ["headers", "metadata"] {
        if !asked[field].is_null() {
            expected[field] = asked[field].clone();
        }
    }
    if let Some(reset) = expected.pointer_mut("/headers/2/1") {
        let unit = reset.as_str().and_then(|text| Unit::from_name(text.strip_prefix("left of ")?));
        *reset = json!(unit.expect("a unit").window(NOW).left.to_string());
    }
    let descriptors = expected.pointer_mut("/metadata/descriptors").and_then(Value::as_array_mut);
    for limit in descriptors.into_iter().flatten().filter_map(|it| it.get_mut("limit")) {
        // The recorded text has one space or two.
        *limit = json!(limit.as_str().expect("text").replace("  ", " "));
    }
    expected
}

fn status(status: &DescriptorStatus) -> String {
    let mut text = format!("{} {}", code(status.code), status.limit_remaining);
    if let Some(limit) = &status.current_limit {
        let unit = Unit::from_number(limit.unit).expect("a unit");
        text.push_str(&format!(" of {}/{unit}", limit.requests_per_unit));
        if !limit.name.is_empty() {
            text.push_str(&format!(" {}", limit.name));
        }
        let left = status.duration_until_reset.as_ref().expect("a time").seconds;
        assert!(left >= 1 && left.unsigned_abs() <= unit.seconds(), "{left}");
    }
    text
}

fn code(code: i32) -> &'static str {
    match code {
        1 => "OK",
        2 => "OVER_LIMIT",
        _ => "UNKNOWN",
    }
}

fn fields(metadata: &prost_types::Struct) -> Value {
    let fields = metadata.fields.iter().map(|(name, value)| (name.clone(), field(value)));
    Value::Object(fields.collect())
}

fn field(value: &prost_types::Value) -> Value {
    match value.kind.as_ref().expect("a value") {
        Kind::NullValue(_) => Value::Null,
        Kind::BoolValue(value) => json!(value),
        Kind::NumberValue(number) => json!(number),
        Kind::StringValue(text) => json!(text),
        Kind::ListValue(list) => list.values.iter().map(field).collect(),
        Kind::StructValue(nested) => fields(nested),
    }
}

fn sums(decided: &[Decided]) -> Map<String, Value> {
    let mut sums: BTreeMap<String, BTreeMap<&str, u64>> = BTreeMap::new();
    for increments in decided.iter().flat_map(|it| &it.verdict.increments) {
        let (domain, key1, key2) = increments.metric.labels();
        let labels: Vec<&str> = [domain, key1].into_iter().chain(key2).collect();
        let sums = sums.entry(labels.join(" | ")).or_default();
        for (name, count) in increments.on_page().into_iter().filter(|(_, count)| *count > 0) {
            *sums.entry(name).or_default() += count;
        }
    }
    sums.retain(|_, counts| !counts.is_empty());
    sums.into_iter().map(|(labels, counts)| (labels, json!(counts))).collect()
}
