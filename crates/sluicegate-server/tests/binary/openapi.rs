//! Tests that the service matches its OpenAPI document.

use std::collections::BTreeSet;

use jsonschema::Validator;
use serde_json::{Value, json};
use sluicegate_testkit::servers::shared;

use sluicegate_testkit::wait::until;

use crate::event_stream::Stream;
use crate::support::{Client, File, Reply, Service, binary, own_store};

/// The limits that the examples name.
const LIMITS: &str = r#"
limits_in_requests: true
limits:
  demo: {policies: ["token_bucket 10/h burst 20"], block: [mallory], ban: 1000/h for 1h}
  user: {policies: ["token_bucket 10/h"]}
  org: {policies: ["fixed_window 1000/h as tokens"]}
  llm: {policies: ["fixed_window 60/h as requests", "fixed_window 90000/h as tokens"]}
  jobs: {policies: ["concurrency 9 hold 30s queue 9 priorities 2"]}
  ring: {policies: ["sliding_window 9/h"]}
  closed: {policies: ["gcra 1/h"], block: [127.0.0.1]}
  once: {policies: ["gcra 1/h"]}
  odd:
    policies:
      - "smooth 1/h start full"
      - "shaper 1/min queue 9"
      - "gcra 1/h shadow as s"
      - "sliding_log 9/d and 1/h shadow as log"
"#;

struct Document(Value);

impl Document {
    fn of(service: &Service) -> Self {
        Self(service.get("/v1/openapi.json").json())
    }

    /// Returns every path with its method and operation.
    fn operations(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.0["paths"].as_object().unwrap().iter();
        paths.flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| (path.as_str(), method.as_str(), operation))
        })
    }

    fn responses<'d>(&'d self, operation: &'d Value) -> impl Iterator<Item = (u16, &'d Value)> {
        let responses = operation["responses"].as_object().unwrap().iter();
        responses.map(|(status, response)| (status.parse().unwrap(), self.resolved(response)))
    }

    /// Resolves a reference.
    fn resolved<'d>(&'d self, value: &'d Value) -> &'d Value {
        match value["$ref"].as_str() {
            Some(reference) => self.0.pointer(reference.strip_prefix('#').unwrap()).unwrap(),
            None => value,
        }
    }

    /// Returns a validator that accepts what a schema describes, and no other fields.
    fn validator(&self, schema: &Value) -> Validator {
        let mut whole = json!({"allOf": [schema], "components": self.0["components"]});
        close(&mut whole);
        jsonschema::draft202012::new(&whole).unwrap()
    }
}

/// Forbids fields that aren't described. Clients must ignore such fields, but the document must
/// describe all of them.
fn close(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(close),
        Value::Object(members) => {
            members.values_mut().for_each(close);
            if members.get("type") == Some(&json!("object")) && members.contains_key("properties") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        _ => {}
    }
}

#[track_caller]
fn assert_valid(validator: &Validator, value: &Value, what: &str) {
    let errors: Vec<_> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{what}: {errors:?}: {value}");
}

/// Returns the only content type, with its description.
fn content(value: &Value) -> (&str, &Value) {
    let content = value["content"].as_object().unwrap();
    assert_eq!(content.len(), 1, "{value}");
    let (kind, content) = content.iter().next().unwrap();
    (kind, content)
}

fn examples(content: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let examples = content["examples"].as_object().into_iter().flatten();
    examples.map(|(name, example)| (name.as_str(), &example["value"]))
}

/// Returns the token of a new hold.
fn held(service: &Service, limit: &str, key: &str) -> String {
    let body = json!({"limit": limit, "key": key, "hold": "30s"});
    let answer = service.post("/v1/check", body.to_string()).json();
    answer["hold"]["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// Returns the id in a token.
fn id_of(token: &str) -> String {
    token.split(':').nth(1).unwrap().to_owned()
}

/// Services in every state that affects an answer.
struct Services {
    local: Service,
    /// Service with clients.
    with_clients: Service,
    without_store: Service,
    /// Service whose store lists keys.
    on_redis: Service,
    /// Its decision log has a sample.
    sampled: Service,
    _log: File,
}

impl Services {
    fn start() -> Self {
        let (file, log) = (File::new("limits.yaml", LIMITS), File::new("log", ""));
        let config = ["--config", file.path()];
        let with =
            |listen: &str, more: &[&str]| Service::start_on(listen, &[&config[..], more].concat());
        Self {
            local: with("127.0.0.1:0", &[]),
            with_clients: {
                let token = File::new("token", "s3cret");
                let client = format!(
                    "{{name: a, token_file: {}, may: [check], limits: [none]}}",
                    token.path()
                );
                let file = File::new("limits.yaml", &format!("{LIMITS}\nclients: [{client}]"));
                Service::start(&["--config", file.path()])
            },
            sampled: {
                let limits = format!("{LIMITS}\ndecision_log: {{sample: 0.5}}");
                let file = File::new("limits.yaml", &limits);
                let service =
                    Service::start(&["--config", file.path(), "--decision-log", log.path()]);
                for _ in 0..64 {
                    service.post("/v1/check", r#"{"limit":"demo","key":"a"}"#);
                }
                service
            },
            _log: log,
            without_store: with("127.0.0.1:0", &["--store", "redis://127.0.0.1:1"]),
            on_redis: {
                let file = File::new("limits.yaml", &(own_store(shared().unwrap().url()) + LIMITS));
                let service = Service::start(&["--config", file.path()]);
                assert_eq!(service.call("check", "demo", "alice", &json!({})).status, 200);
                service
            },
        }
    }

    /// Returns the answer to a simulation of a log with a sample.
    fn simulate_a_sample(&self) -> Reply {
        let body = r#"{"limit":"demo","policies":["gcra 1/s"],"from":"log"}"#;
        until("a line of the log", || match self.sampled.post("/v1/simulate", body) {
            reply if reply.status == 409 => Ok(reply),
            reply => Err(reply.body),
        })
    }

    /// Returns an answer with this status. `demo` has no units left for `spent`, and blocks
    /// `mallory`.
    fn reply(&self, path: &str, method: &str, status: u16) -> Reply {
        let send = |service: &Service, limit: &str, key: &str, fields: &[(&str, &str)]| {
            let token = || match limit {
                "nobody" => format!("1:{}:demo:00", "0".repeat(32)),
                _ if status == 503 => format!("1:{}:demo:00", "0".repeat(32)),
                _ => held(service, limit, key),
            };
            let mut body = match path {
                "/v1/settle" => json!({"hold": token(), "used": 1}),
                "/v1/cancel" | "/v1/release" => json!({"hold": token()}),
                "/v1/renew" => json!({"hold": token(), "for": "30s"}),
                "/v1/revoke" => {
                    let id = match limit {
                        "demo" if status == 200 => id_of(&held(service, "jobs", key)),
                        _ => "0".repeat(32),
                    };
                    let limit = if limit == "demo" { "jobs" } else { limit };
                    json!({"limit": limit, "key": key, "hold": id})
                }
                // Don't ban `alice`, the key of the other requests.
                "/v1/ban" => json!({"limit": limit, "key": "banned", "for": "1min"}),
                "/v1/pause" => json!({"limit": limit, "key": "paused", "for": "1min"}),
                "/v1/simulate" => json!({"limit": limit, "policies": ["gcra 1/s"]}),
                _ if method == "put" => json!({"times": 2}),
                _ => json!({"limit": limit, "key": key}),
            };
            if path == "/v1/acquire" || path == "/v1/reserve" {
                body["within"] = json!("2s");
            }
            if status == 409 {
                body["hold"] = json!({"for": "30s", "id": "1".repeat(32)});
            }
            let has_body = ["post", "put"].contains(&method);
            let body = if has_body { body.to_string() } else { String::new() };
            let path = match path {
                "/v1/holders" if limit == "demo" => "/v1/holders?limit=jobs&key=alice&count=2",
                "/v1/holders" => "/v1/holders?limit=nobody&key=alice",
                "/v1/bans" if limit == "demo" => "/v1/bans?limit=demo",
                "/v1/bans" => "/v1/bans?limit=nobody",
                "/v1/keys" if limit == "demo" => "/v1/keys?limit=demo&prefix=al",
                "/v1/keys" => "/v1/keys?limit=nobody",
                "/v1/stream" => "/v1/stream?follow=off",
                path => path,
            };
            let path = path.replace("{limits}", limit).replace("{call}", &format!("{limit}/cart"));
            let path = path.replace("{limit}", limit).replace("{key}", key);
            let path = path.replace("{file}", if status == 404 { "none.js" } else { "main.js" });
            service.send(&method.to_uppercase(), &path, fields, body.as_bytes())
        };
        let call = |service: &Service, limit: &str, key: &str| send(service, limit, key, &[]);
        let is_guarded = [
            "/v1/ban",
            "/v1/bans",
            "/v1/charge",
            "/v1/config",
            "/v1/explain",
            "/v1/keys",
            "/v1/revoke",
            "/v1/holders",
            "/v1/pause",
            "/v1/resume",
            "/v1/refund",
            "/v1/reset",
            "/v1/recent",
            "/v1/limits/{limit}/top",
            "/v1/simulate",
            "/v1/stream",
            "/v1/unban",
        ]
        .contains(&path);
        // An override to read and to end.
        if status < 300 && path.contains("/override") {
            let path = path.replace("{limit}", "demo").replace("{key}", "alice");
            self.local.send("PUT", &path, &[], br#"{"times":2}"#);
        }
        match status {
            200 if path == "/v1/keys" => call(&self.on_redis, "demo", "alice"),
            200 | 204 => call(&self.local, "demo", "alice"),
            400 if path.starts_with("/v1/auth") => call(&self.local, ",", "alice"),
            400 if ["get", "delete"].contains(&method) => {
                let path = path.replace("{limit}", "demo").replace("{key}", "alice");
                self.local.send(&method.to_uppercase(), &format!("{path}?x=1"), &[], b"")
            }
            400 if method == "put" => {
                let path = path.replace("{limit}", "demo").replace("{key}", "alice");
                self.local.send("PUT", &path, &[], b"{}")
            }
            400 => self.local.post(path, "{}"),
            401 => call(&self.with_clients, "nobody", "alice"),
            403 if is_guarded => {
                let forwarded = [("X-Forwarded-For", "192.0.2.1")];
                self.local.send(&method.to_uppercase(), path, &forwarded, b"")
            }
            403 if path.starts_with("/v1/auth") => call(&self.local, "closed", "alice"),
            403 if path == "/v1/check" => call(&self.local, "demo", "mallory"),
            403 => {
                let token = [("Authorization", "Bearer s3cret")];
                send(&self.with_clients, "nobody", "alice", &token)
            }
            404 => call(&self.local, "nobody", "alice"),
            409 if path == "/v1/simulate" => self.simulate_a_sample(),
            409 if path == "/v1/acquire" => {
                let first = call(&self.local, "llm", path);
                assert_eq!(first.status, 200, "{}", first.body);
                call(&self.local, "llm", path)
            }
            409 => {
                let ask = |cost: u64| json!({"limit": "user", "key": path, "request_id": "one", "cost": cost});
                assert_eq!(self.local.post(path, ask(1).to_string()).status, 200);
                self.local.post(path, ask(2).to_string())
            }
            415 => self.local.send("POST", path, &[("Content-Encoding", "gzip")], b"{}"),
            413 if path == "/v1/simulate" => self.local.post(path, "x".repeat((4 << 20) + 1)),
            413 => self.local.post(path, "x".repeat(100_000)),
            429 if path.starts_with("/v1/auth") => {
                let _first = call(&self.local, "once", "alice");
                call(&self.local, "once", "alice")
            }
            429 => call(&self.local, "demo", "spent"),
            503 if path == "/v1/stream" => {
                let streams: Vec<_> = (0..32).map(|_| Stream::open(&self.local, "")).collect();
                let refused = call(&self.local, "demo", "alice");
                drop(streams);
                refused
            }
            503 => call(&self.without_store, "demo", "alice"),
            _ => panic!("no test knows how to get {status} of {path}"),
        }
    }
}

#[test]
fn every_status_of_every_path_is_answered_as_described() {
    let services = Services::start();
    let document = Document::of(&services.local);
    // They take ten seconds in total.
    let mut slow: Vec<(&str, Client)> = Vec::new();
    for (path, method, _) in document.operations().filter(|(_, method, _)| *method == "post") {
        let mut client = Client::connect(services.local.address()).unwrap();
        let method = method.to_uppercase();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{{");
        client.send(&head).unwrap();
        slow.push((path, client));
    }
    let spend = r#"{"limit":"demo","key":"spent","cost":100}"#;
    assert_eq!(services.local.post("/v1/charge", spend).status, 200);
    let mut seen = BTreeSet::new();
    let mut check = |call: &str, status: u16, response: &Value, reply: &Reply| {
        let what = format!("{status} of {call}");
        assert_eq!(reply.status, status, "{what}: {}", reply.body);
        let kind = reply.field("content-type").unwrap_or_default();
        match &response["content"] {
            Value::Null => assert_eq!(reply.body, "", "{what} has a body"),
            content => {
                let content = &content[kind];
                assert!(content.is_object(), "{what} is described with another type than {kind}");
                let body = if kind.ends_with("json") { reply.json() } else { json!(reply.body) };
                assert_valid(&document.validator(&content["schema"]), &body, &what);
            }
        }
        for name in response["headers"].as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(reply.field(&name.to_lowercase()).is_some(), "{what} has no {name}");
        }
        assert!(seen.insert((call.to_owned(), status)), "{what}");
    };
    for (path, method, operation) in document.operations() {
        // The 503 of a simulation needs another one that runs, which a test of the router has.
        let is_elsewhere = |status| status == 408 || path == "/v1/simulate" && status == 503;
        let responses = document.responses(operation);
        for (status, response) in responses.filter(|(status, _)| !is_elsewhere(*status)) {
            let call = format!("{method} {path}");
            check(&call, status, response, &services.reply(path, method, status));
        }
    }
    for (path, mut client) in slow {
        let operation = &document.0["paths"][path]["post"];
        let (_, response) =
            document.responses(operation).find(|(status, _)| *status == 408).unwrap();
        check(&format!("post {path}"), 408, response, &client.reply().unwrap());
    }
    assert!(seen.len() > 60, "{seen:?}");
}

#[test]
fn every_example_is_valid_and_the_service_takes_it() {
    let mut requests = 0;
    for (path, method, operation) in Document::of(&Service::start(&[])).operations() {
        let file = File::new("limits.yaml", LIMITS);
        let service = Service::start(&["--config", file.path()]);
        let document = Document::of(&service);
        for (status, response) in document.responses(operation) {
            for content in response["content"].as_object().into_iter().flat_map(|it| it.values()) {
                let validator = document.validator(&content["schema"]);
                for (name, example) in examples(content) {
                    assert_valid(&validator, example, &format!("`{name}` of {status} of {path}"));
                }
            }
        }
        if method != "post" {
            continue;
        }
        let (_, asked) = content(&operation["requestBody"]);
        let described = document.validator(&asked["schema"]);
        let (_, answered) = content(document.resolved(&operation["responses"]["200"]));
        let answered = document.validator(&answered["schema"]);
        for (name, example) in examples(asked) {
            assert_valid(&described, example, &format!("`{name}` for {path}"));
            let mut example = example.clone();
            if example["hold"].as_str().is_some_and(|token| token.starts_with("1:")) {
                example["hold"] = json!(held(&service, "llm", "alice"));
            }
            if path == "/v1/revoke" {
                example["hold"] = json!(id_of(&held(&service, "jobs", "acme")));
            }
            let reply = service.post(path, example.to_string());
            assert_eq!(reply.status, 200, "`{name}` for {path}: {}", reply.body);
            assert_valid(&answered, &reply.json(), &format!("the answer to `{name}` of {path}"));
            requests += 1;
        }
    }
    assert_eq!(requests, 61);
}

/// Covers shadows, waits, logs with several windows, and unbounded values.
#[test]
fn whatever_there_is_to_say_of_a_policy_is_described() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let document = Document::of(&service);
    let decision = document.validator(&json!({"$ref": "#/components/schemas/Decision"}));
    let mut seen = BTreeSet::new();
    let mut note = |answer: &Value| {
        assert_valid(&decision, answer, "an answer");
        for policy in answer["policies"].as_array().unwrap() {
            seen.extend(policy.as_object().unwrap().keys().cloned());
        }
        seen.extend(answer.as_object().unwrap().keys().cloned());
    };
    let reserving = json!({"limit": "user", "key": "r", "within": "0s"}).to_string();
    let reserved = service.post("/v1/reserve", reserving).json()["hold"]["token"].clone();
    let several = json!({"limits": [
        {"limit": "odd", "key": "a", "cost": {"shaper": 1, "s": 1, "log": 1}},
        {"limit": "user", "key": "a", "cost": 11},
    ]});
    for (path, body) in [
        ("/v1/check", json!({"limit": "odd", "key": "a", "cost": {"shaper": 1, "log": 1}})),
        ("/v1/check", json!({"limit": "odd", "key": "a", "cost": {"shaper": 1, "log": 1}})),
        ("/v1/check", several),
        ("/v1/take", json!({"limit": "user", "key": "a"})),
        ("/v1/check", json!({"limit": "user", "key": "b", "request_id": "one"})),
        ("/v1/check", json!({"limit": "user", "key": "b", "request_id": "one"})),
        ("/v1/refund", json!({"limit": "user", "key": "a"})),
        ("/v1/reset", json!({"limit": "user", "key": "a"})),
        ("/v1/check", json!({"limit": "ring", "key": "a"})),
        ("/v1/check", json!({"limit": "jobs", "key": "a"})),
        ("/v1/check", json!({"limit": "jobs", "key": "q", "cost": 9})),
        ("/v1/acquire", json!({"limit": "jobs", "key": "q", "within": "5ms"})),
        ("/v1/settle", json!({"hold": held(&service, "llm", "a"), "used": 0})),
        ("/v1/cancel", json!({"hold": reserved})),
        ("/v1/ban", json!({"limit": "demo", "key": "b", "for": "1h"})),
        ("/v1/check", json!({"limit": "demo", "key": "b"})),
        ("/v1/pause", json!({"limit": "demo", "key": "p", "for": "1h"})),
    ] {
        note(&service.post(path, body.to_string()).json());
    }
    let schemas = &document.0["components"]["schemas"];
    for schema in ["Decision", "Policy"] {
        for name in schemas[schema]["properties"].as_object().unwrap().keys() {
            // No clock steps back in this test.
            let is_seen = seen.contains(name) || name == "restamped";
            assert!(is_seen, "no answer has `{name}` of {schema}: {seen:?}");
        }
    }
}

#[test]
fn what_the_document_rejects_the_service_rejects() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let document = Document::of(&service);
    let of = |path: &str| {
        let (_, asked) = content(&document.0["paths"][path]["post"]["requestBody"]);
        document.validator(&asked["schema"])
    };
    let (check, acquire) = (of("/v1/check"), of("/v1/acquire"));
    for body in [
        json!({}),
        json!([]),
        json!({"limit": "demo"}),
        json!({"limit": "demo", "key": 1}),
        json!({"limit": "demo", "key": "a", "costs": 1}),
        json!({"limit": "demo", "key": "a", "cost": 0}),
        json!({"limit": "demo", "key": "a", "cost": 1.5}),
        json!({"limit": "demo", "key": "a", "cost": 1_u64 << 53}),
        json!({"limit": "demo", "key": "a", "cost": {}}),
        json!({"limit": "demo", "key": "a", "cost": null}),
        json!({"limit": "demo", "key": "a", "policies": []}),
        json!({"limit": "demo", "key": "a", "policies": "gcra 1/s"}),
        json!({"limit": "demo", "key": "a", "policies": vec!["gcra 1/s"; 65]}),
        json!({"limit": "demo", "key": "a", "limits": []}),
        json!({"limit": "demo", "key": "a", "request_id": ""}),
        json!({"limit": "demo", "key": "a", "request_id": "x".repeat(256)}),
        json!({"limits": [{"limit": "demo", "key": "a", "request_id": "x"}]}),
        json!({"limit": "demo", "key": "a", "within": "2"}),
        json!({"limit": "demo", "key": "a", "for": "1h"}),
        json!({"limit": "demo", "key": "a", "within": "2s", "request_id": "x", "hold": 1}),
        json!({"limit": "demo", "key": "a", "within": "2s", "priority": 16}),
        json!({"limit": "demo", "key": "a", "within": "2s", "priority": "0"}),
        json!({"limit": "demo", "key": "a", "hold": "2"}),
        json!({"limit": "demo", "key": "a", "hold": {"for": "2s"}}),
        json!({"limit": "demo", "key": "a", "hold": {"for": "2s", "id": "00"}}),
        json!({"limit": "demo", "key": "a", "hold": 2}),
        json!({"limit": "demo", "key": "a", "hold": "25h"}),
        json!({"limit": "demo", "key": "a", "within": "11min"}),
        json!({"limit": "demo", "key": "a", "cost": {"Token Bucket": 1}}),
        json!({"limits": []}),
        json!({"limits": vec![json!({"limit": "demo", "key": "a"}); 17]}),
        json!({"limits": [{"limit": "demo", "key": "a", "within": "2s"}]}),
    ] {
        for (path, schema) in [("/v1/check", &check), ("/v1/acquire", &acquire)] {
            assert!(!schema.is_valid(&body), "{path} {body}");
            assert_eq!(service.post(path, body.to_string()).status, 400, "{path} {body}");
        }
    }
}

#[test]
fn every_method_is_described() {
    let service = Service::start(&[]);
    let document = Document::of(&service);
    let mut ids = BTreeSet::new();
    for (path, _, operation) in document.operations() {
        assert!(ids.insert(operation["operationId"].as_str().unwrap()), "{path}");
        // The calls of proxies have any method.
        if path.starts_with("/v1/auth") {
            assert_eq!(service.send("DELETE", path, &[], b"").status, 404, "{path}");
            continue;
        }
        let reply = service.send("PATCH", path, &[], b"");
        assert_eq!(reply.status, 405, "{path}");
        let allowed = reply.field("allow").unwrap().to_lowercase();
        let allowed: BTreeSet<_> = allowed.split(',').filter(|method| *method != "head").collect();
        let described = document.0["paths"][path].as_object().unwrap().keys();
        assert_eq!(allowed, described.map(String::as_str).collect(), "{path}");
    }
}

#[test]
fn the_document_is_of_this_version() {
    let service = Service::start(&[]);
    let reply = service.get("/v1/openapi.json");
    assert_eq!(reply.field("content-type"), Some("application/json"));
    let document = reply.json();
    assert_eq!(
        (&document["openapi"], &document["info"]["version"]),
        (&json!("3.1.0"), &json!(env!("CARGO_PKG_VERSION")))
    );
    let version = binary().arg("--version").output().unwrap().stdout;
    let version = String::from_utf8(version).unwrap();
    assert!(version.contains(document["info"]["version"].as_str().unwrap()), "{version}");
}

/// The service accepts exactly the lengths of time that the document's patterns accept.
#[test]
fn lengths_of_time_are_described_to_the_last_one() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let document = Document::of(&service);
    let schema =
        |name: &str| document.validator(&json!({"$ref": format!("#/components/schemas/{name}")}));
    let (take, acquire, ban) = (schema("Take"), schema("Acquire"), schema("BanAsk"));
    let units: [(&str, u64); 7] = [
        ("us", 1),
        ("ms", 1_000),
        ("s", 1_000_000),
        ("min", 60_000_000),
        ("h", 3_600_000_000),
        ("d", 86_400_000_000),
        ("w", 604_800_000_000),
    ];
    let mut accepted = 0;
    for (described, path, field, shortest, longest) in [
        (&take, "/v1/check", "hold", 1_000, 86_400_000_000_u64),
        (&acquire, "/v1/acquire", "within", 0, 600_000_000),
        (&ban, "/v1/ban", "for", 1_000_000, 30 * 86_400_000_000),
    ] {
        for (unit, micros) in units {
            let bounds = [shortest / micros, longest / micros];
            let counts = bounds.into_iter().flat_map(|it| [it.saturating_sub(1), it, it + 1]);
            let texts = counts.flat_map(|it| [format!("{it}{unit}"), format!("007{it}{unit}")]);
            for text in texts.chain([unit.to_owned(), format!("1.5{unit}"), format!(" 1{unit}")]) {
                let body =
                    json!({"limit": "demo", "key": "t", field: text, "cost": {"token_bucket": 0}});
                let body = match field {
                    "for" => json!({"limit": "demo", "key": "t", field: text}),
                    _ => body,
                };
                let status = service.post(path, body.to_string()).status;
                let is_valid = described.is_valid(&body);
                assert_eq!(status != 400, is_valid, "{path} {field} {text}: {status}");
                accepted += u32::from(is_valid);
            }
        }
    }
    assert!(accepted > 40, "{accepted}");
}

/// Regression test: a schema-driven client sent them, and they were refused.
#[test]
fn what_the_document_accepts_is_not_malformed() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let document = Document::of(&service);
    let long = |count: usize, text: &str| text.repeat(count);
    let named = |id: &str| json!({"limit": "demo", "key": "a", "request_id": id});
    let token = |limit: &str| json!({"hold": format!("1:{}:{limit}:61", "0".repeat(32))});
    for (path, body, statuses) in [
        ("/v1/check", named(&long(255, "x")), &[200][..]),
        ("/v1/check", named(&long(63, "\u{1f980}")), &[200]),
        ("/v1/check", named("\u{0}"), &[200]),
        ("/v1/peek", json!({"limit": long(64, "x"), "key": "a"}), &[404]),
        ("/v1/peek", json!({"limit": "A_b-c.d:e/f@g", "key": "a"}), &[404]),
        ("/v1/cancel", token("demo"), &[404]),
        ("/v1/cancel", token(&long(64, "x")), &[404]),
        ("/v1/cancel", json!({"hold": "sealed:00:x"}), &[404]),
        ("/v1/settle", json!({"hold": token("llm")["hold"], "used": {"tokens": 0}}), &[404]),
    ] {
        let (_, asked) = content(&document.0["paths"][path]["post"]["requestBody"]);
        let schema = document.validator(&asked["schema"]);
        assert_valid(&schema, &body, path);
        let reply = service.post(path, body.to_string());
        assert!(statuses.contains(&reply.status), "{path} {body}: {}", reply.body);
    }
    let field =
        document.validator(&document.0["components"]["parameters"]["Idempotency-Key"]["schema"]);
    let body = br#"{"limit":"user","key":"i","cost":{"token_bucket":0}}"#;
    for (id, is_valid) in [
        ("a", true),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", true),
        ("\"a b\"", true),
        ("\"a\\\"b\\\\c\"", true),
        (&long(255, "x"), true),
        (&format!("\"{}\"", long(255, "x")), true),
        (&long(256, "x"), false),
        (&format!("\"{}\"", long(256, "x")), false),
        ("", false),
        ("\"\"", false),
        ("a b", false),
        ("a\"b", false),
        ("\"a", false),
        ("\"a\"b", false),
        ("\"a\\b\"", false),
    ] {
        assert_eq!(field.is_valid(&json!(id)), is_valid, "{id}");
        let reply = service.send("POST", "/v1/check", &[("Idempotency-Key", id)], body);
        assert_eq!(reply.status, if is_valid { 200 } else { 400 }, "{id}: {}", reply.body);
    }
}
