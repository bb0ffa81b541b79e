//! The recorded requests get the recorded answers.

use prost_types::value::Kind;
use serde_json::{Value, json};
use sluicegate::testing::SystemClock;
use sluicegate::{RedisStore, Registry};
use sluicegate_envoy::incumbent::Unit;
use sluicegate_envoy::service::protos::rate_limit_descriptor::{Entry, RateLimitOverride};
use sluicegate_envoy::service::protos::rate_limit_response::DescriptorStatus;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use sluicegate_testkit::servers;

use crate::recorded;
use crate::running::{Running, script_calls};

#[tokio::test]
async fn the_embedded_store_gives_the_recorded_answers() {
    for case in &recorded::requests() {
        let running = Running::embedded(case).await;
        let name = case["case"].as_str().expect("a name");
        for (index, asked) in case["asked"].as_array().expect("requests").iter().enumerate() {
            let answer = running.ask(request(asked)).await.expect("an answer");
            assert_eq!(
                written(&answer),
                recorded::expected(asked),
                "request {index} of {name}: {asked}"
            );
        }
        if let Some(counted) = case["counted"].as_object() {
            let decided = running.decided.lock().expect("no test panics here");
            let increments = decided.iter().flat_map(|it| &it.verdict.increments);
            assert_eq!(recorded::sums(increments), *counted, "{name}");
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
    let cases = recorded::requests();
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
            assert_eq!(
                written(&answer),
                recorded::expected(asked),
                "request {index} of {}",
                case["case"]
            );
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
    let of = |number: usize| json!({"e": [["k", format!("{}", number % 40)]]});
    let asked = json!({"domain": "d", "of": (0..64).map(of).collect::<Vec<_>>()});
    assert!(running.ask(request(&asked)).await.is_ok());
    let before = script_calls(&server);
    let answer = running.ask(request(&asked)).await.expect("an answer");
    assert_eq!(script_calls(&server) - before, 1);
    let remaining: Vec<u32> = answer.statuses.iter().map(|it| it.limit_remaining).collect();
    assert_eq!((remaining[0], remaining[30], remaining[40]), (6, 7, 5));
}

fn request(asked: &Value) -> RateLimitRequest {
    let descriptors = asked["of"].as_array().expect("descriptors").iter();
    RateLimitRequest {
        domain: asked["domain"].as_str().expect("a domain").to_owned(),
        descriptors: descriptors.map(descriptor).collect(),
        hits_addend: recorded::hits_of(asked),
    }
}

fn descriptor(of: &Value) -> RateLimitDescriptor {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let entry = |entry: &Value| Entry { key: text(&entry[0]), value: text(&entry[1]) };
    let limit = recorded::override_of(of).map(|limit| RateLimitOverride {
        requests_per_unit: limit.requests_per_unit,
        unit: limit.unit.number(),
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
