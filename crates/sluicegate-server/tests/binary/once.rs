//! Tests requests with an id, over HTTP and on the command line.

use serde_json::{Value, json};

use crate::support::{File, Service, sluicegate};

const LIMITS: &str = "limits: {mail: {policies: [fixed_window 100/h]}}";

fn start() -> (Service, String) {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    let url = format!("http://{}", service.address());
    (service, url)
}

fn body(cost: u64, id: Option<&str>) -> String {
    let mut body = json!({"limit": "mail", "key": "alice", "cost": cost});
    if let Some(id) = id {
        body["request_id"] = json!(id);
    }
    body.to_string()
}

fn remaining(answer: &Value) -> u64 {
    answer["policies"][0]["remaining"].as_u64().unwrap()
}

#[test]
fn a_repeat_is_answered_as_before_and_charged_nothing() {
    let (service, _) = start();
    for (path, first, left) in
        [("/v1/check", "a", 70), ("/v1/take", "b", 40), ("/v1/charge", "c", 10)]
    {
        let reply = service.post(path, body(30, Some(first))).json();
        assert_eq!((reply.get("repeat"), remaining(&reply)), (None, left), "{path}");
        // The id in the header field, with or without quotes.
        let quoted = format!("\"{first}\"");
        for field in [None, Some(first), Some(&*quoted)] {
            let id = field.is_none().then_some(first);
            let fields = field.map(|field| ("Idempotency-Key", field));
            let sent = body(30, id);
            let repeat = service.send("POST", path, fields.as_slice(), sent.as_bytes());
            assert_eq!(repeat.status, 200, "{path} {field:?}: {}", repeat.body);
            let mut repeat = repeat.json();
            assert_eq!(repeat.as_object_mut().unwrap().remove("repeat"), Some(json!(true)));
            assert_eq!(repeat, reply, "{path} {field:?}");
        }
    }
    let peeked = service.post("/v1/peek", body(1, None)).json();
    assert_eq!(remaining(&peeked), 10);
}

#[test]
fn a_repeat_has_the_token_of_what_the_first_one_holds() {
    let (service, _) = start();
    let ask = |path: &str, hold: &str| {
        let body =
            json!({"limit": "mail", "key": "alice", "cost": 30, "hold": hold, "request_id": path});
        service.post(path, body.to_string())
    };
    for path in ["/v1/check", "/v1/take", "/v1/charge"] {
        let first = ask(path, "30s").json();
        let repeat = ask(path, "30s").json();
        assert_eq!((&repeat["repeat"], first.get("repeat")), (&json!(true), None), "{path}");
        assert_eq!(repeat["hold"]["token"], first["hold"]["token"], "{path}");
        assert_eq!(ask(path, "31s").status, 409, "{path}");
        let settle = json!({"hold": repeat["hold"]["token"], "used": 0});
        assert_eq!(service.post("/v1/settle", settle.to_string()).json()["found"], "live");
        assert_eq!(ask(path, "30s").json()["repeat"], true, "{path}: also after it was settled");
    }
    assert_eq!(remaining(&service.post("/v1/peek", body(1, None)).json()), 100);
}

#[test]
fn what_is_asked_otherwise_is_a_conflict_and_what_is_no_id_is_malformed() {
    let (service, _) = start();
    assert_eq!(service.post("/v1/check", body(30, Some("a"))).status, 200);
    for (path, cost) in [("/v1/check", 31), ("/v1/take", 30), ("/v1/charge", 30)] {
        let reply = service.post(path, body(cost, Some("a")));
        assert_eq!((reply.status, &*reply.error_code()), (409, "conflict"), "{path}");
    }
    let long = "x".repeat(256);
    for id in ["", &long] {
        let reply = service.post("/v1/check", body(1, Some(id)));
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{id:?}");
    }
    for (field, id) in [("b", Some("a")), ("", None), ("\"a", None), (&long, None)] {
        let sent = body(1, id);
        let fields = [("Idempotency-Key", field)];
        let reply = service.send("POST", "/v1/check", &fields, sent.as_bytes());
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{field:?} {id:?}");
    }
    // Calls that take no units, and waits, accept no request id.
    for path in ["/v1/peek", "/v1/refund", "/v1/reset"] {
        let reply = service.post(path, body(1, Some("a")));
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{path}");
    }
    let wait = json!({"limit": "mail", "key": "alice", "within": "1s", "request_id": "a"});
    for path in ["/v1/acquire", "/v1/reserve"] {
        let reply = service.post(path, wait.to_string());
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{path}");
        assert!(reply.body.contains("omit `request_id`"), "{path}: {}", reply.body);
    }
    let peeked = service.post("/v1/peek", body(1, None)).json();
    assert_eq!(remaining(&peeked), 70);
}

#[test]
fn the_command_line_gives_a_request_an_id() {
    let (_service, url) = start();
    let ask = |verb: &str, more: &[&str]| {
        let args = [verb, "--server", &url, "--limit", "mail", "--key", "alice", "--json"];
        sluicegate(&[&args[..], more].concat())
    };
    let once = ["--request-id", "order-1", "--cost", "30"];
    assert_eq!(remaining(&ask("check", &once).json()), 70);
    let repeat = ask("check", &once).json();
    assert_eq!((&repeat["repeat"], remaining(&repeat)), (&json!(true), 70));
    let conflict = ask("charge", &once);
    assert_eq!(conflict.status, 2, "{}", conflict.stderr);
    assert!(conflict.stderr.contains("409"), "{}", conflict.stderr);
    assert_eq!(ask("check", &["--request-id", ""]).status, 2);
}
