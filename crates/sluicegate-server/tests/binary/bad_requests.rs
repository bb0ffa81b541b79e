//! Tests that every request, valid or not, gets the right answer.

use std::io::Write as _;

use crate::support::{Client, File, Reply, Service};

const MALFORMED: &[&str] = &[
    "",
    " \n",
    "null",
    "[]",
    r#"["demo","alice",1]"#,
    r#""demo""#,
    "{",
    "{}",
    "{]",
    r#"{"limit":"demo"}"#,
    r#"{"key":"a"}"#,
    r#"{"limit":"demo","key":"a"} x"#,
    r#"{"limit":"demo","key":"a"}{}"#,
    r#"{"limit":"demo","key":"a",}"#,
    r#"{"limit":"demo","key":"a","costs":1}"#,
    r#"{"limit":"demo","key":"a","Cost":1}"#,
    r#"{"limit":"demo","key":"a","key":"b"}"#,
    r#"{"limit":1,"key":"a"}"#,
    r#"{"limit":"demo","key":1}"#,
    r#"{"limit":"demo","key":null}"#,
    r#"{"limit":"demo","key":["a"]}"#,
    r#"{"limit":"demo","key":"\ud800"}"#,
    r#"{"limit":"demo","key":"a","cost":0}"#,
    r#"{"limit":"demo","key":"a","cost":-1}"#,
    r#"{"limit":"demo","key":"a","cost":1.5}"#,
    r#"{"limit":"demo","key":"a","cost":1.0}"#,
    r#"{"limit":"demo","key":"a","cost":1e2}"#,
    r#"{"limit":"demo","key":"a","cost":9007199254740992}"#,
    r#"{"limit":"demo","key":"a","cost":99999999999999999999}"#,
    r#"{"limit":"demo","key":"a","cost":"1"}"#,
    r#"{"limit":"demo","key":"a","cost":null}"#,
    r#"{"limit":"demo","key":"a","cost":true}"#,
    r#"{"limit":"demo","key":"a","cost":[1]}"#,
    r#"{"limit":"demo","key":"a","cost":{"token_bucket":-1}}"#,
    r#"{"limit":"demo","key":"a","cost":{"token_bucket":1,"token_bucket":1}}"#,
    r#"{"limit":"demo","key":"a","cost":{"other":1}}"#,
    r#"{"limit":"unknown","key":"a","cost":0}"#,
    r#"{"limits":[]}"#,
    r#"{"limits":null}"#,
    r#"{"limits":{"limit":"demo","key":"a"}}"#,
    r#"{"limits":"demo"}"#,
    r#"{"limits":[{}]}"#,
    r#"{"limits":[null]}"#,
    r#"{"limits":["demo"]}"#,
    r#"{"limits":[["demo","a"]]}"#,
    r#"{"limits":[{"limit":"demo"}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a","cost":0}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a","cost":null}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a","more":1}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a","within":"2s"}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a"}],"limit":"demo"}"#,
    r#"{"limits":[{"limit":"demo","key":"a"}],"key":"a"}"#,
    r#"{"limits":[{"limit":"demo","key":"a"}],"cost":1}"#,
    r#"{"limits":[{"limit":"demo","key":"a"}],"limits":[{"limit":"demo","key":"a"}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a"},{"limit":"demo","key":"b"}]}"#,
    r#"{"limits":[{"limit":"demo","key":"a","cost":{"other":1}}]}"#,
    "limit=demo&key=a",
];

const CALLS: [&str; 8] = [
    "/v1/acquire",
    "/v1/charge",
    "/v1/check",
    "/v1/explain",
    "/v1/peek",
    "/v1/refund",
    "/v1/reset",
    "/v1/take",
];

/// Returns the body for the call: an acquire needs a maximum wait.
fn body_of(call: &str, body: &str) -> String {
    match body.strip_prefix(r#"{"limit"#) {
        Some(rest) if call == "/v1/acquire" => format!(r#"{{"within":"2s","limit{rest}"#),
        _ => body.to_owned(),
    }
}

#[test]
fn malformed_bodies_are_400_and_say_why() {
    let service = Service::start(&[]);
    for call in CALLS.into_iter().chain(["/v1/simulate"]) {
        for body in MALFORMED {
            let reply = service.post(call, body_of(call, body));
            assert_eq!(
                (reply.status, reply.error_code().as_str()),
                (400, "malformed"),
                "{call} {body}"
            );
        }
        let invalid: &[&[u8]] = &[
            b"\xff",
            b"{\"limit\":\"demo\",\"key\":\"\xff\"}",
            b"{\"limit\":\"demo\",\"\xff\":1}",
        ];
        for body in invalid {
            assert_eq!(service.post(call, body).status, 400, "{call} {body:?}");
        }
        let deep = format!(
            r#"{{"limit":"demo","key":"a","cost":{}1{}}}"#,
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        assert_eq!(service.post(call, deep).status, 400);
    }
    let nothing = service.post("/v1/peek", r#"{"limit":"demo","key":"a"}"#).json();
    assert_eq!(nothing["policies"][0]["remaining"], 20, "nothing of it was charged");
}

/// Calls that don't wait refuse a maximum wait.
#[test]
fn a_wait_is_for_an_acquire_alone_and_has_a_length() {
    let service = Service::start(&[]);
    let with = |within: &str| format!(r#"{{"limit":"demo","key":"a","within":{within}}}"#);
    for nonsense in [
        "null",
        "2",
        "2.5",
        "true",
        "[]",
        "{}",
        r#""""#,
        r#""2""#,
        r#""2m""#,
        r#""-1s""#,
        r#""1.5s""#,
        r#""11min""#,
        r#""1h""#,
        r#""soon""#,
        r#""99999999999999999999s""#,
    ] {
        let reply = service.post("/v1/acquire", with(nonsense));
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{nonsense}");
    }
    let without = service.post("/v1/acquire", r#"{"limit":"demo","key":"a"}"#);
    assert_eq!(without.status, 400);
    assert!(without.body.contains("lacks `within`"), "{}", without.body);
    for call in CALLS.into_iter().filter(|call| *call != "/v1/acquire") {
        let reply = service.post(call, with(r#""2s""#));
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{call}");
        assert!(reply.body.contains("only /v1/acquire and /v1/reserve wait"), "{}", reply.body);
    }
    let peeked = service.post("/v1/peek", r#"{"limit":"demo","key":"a"}"#).json();
    assert_eq!(peeked["policies"][0]["remaining"], 20, "nothing of it was charged");
}

#[test]
fn messages_name_the_value_and_the_range() {
    let service = Service::start(&[]);
    let message = |body: &str| {
        service.post("/v1/check", body).json()["error"]["message"].as_str().unwrap().to_owned()
    };
    let cost = message(r#"{"limit":"demo","key":"a","cost":0}"#);
    assert!(cost.contains("`0`") && cost.contains("from 1 to 9007199254740991"), "{cost}");
    let field = message(r#"{"limit":"demo","key":"a","costs":1}"#);
    assert!(field.contains("`costs`") && field.contains("`cost`"), "{field}");
    let policy = message(r#"{"limit":"demo","key":"a","cost":{"other":1}}"#);
    assert!(policy.contains("`other`") && policy.contains("token_bucket"), "{policy}");
}

#[test]
fn any_content_type_is_taken_for_json() {
    let service = Service::start(&[]);
    for kind in
        ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=utf-8"]
    {
        let body = br#"{"limit":"demo","key":"a"}"#;
        assert_eq!(service.send("POST", "/v1/check", &[("Content-Type", kind)], body).status, 200);
    }
}

#[test]
fn unknown_limits_paths_and_methods_have_their_own_status() {
    let service = Service::start(&[]);
    for call in CALLS {
        let reply = service.post(call, body_of(call, r#"{"limit":"nobody","key":"a"}"#));
        assert_eq!((reply.status, reply.error_code().as_str()), (404, "unknown_limit"));
        for method in ["GET", "PUT", "DELETE"] {
            let reply = service.send(method, call, &[], b"");
            assert_eq!((reply.status, reply.error_code().as_str()), (405, "method_not_allowed"));
            assert_eq!(reply.field("allow"), Some("POST"), "{method} {call}");
        }
    }
    let reply = service.post("/v1/limits", "");
    assert_eq!((reply.status, reply.field("allow")), (405, Some("GET,HEAD")));
    for call in ["/v1/check", "/v1/take", "/v1/charge"] {
        let body = r#"{"limits":[{"limit":"demo","key":"a"},{"limit":"nobody","key":"a"}]}"#;
        let reply = service.post(call, body);
        assert_eq!((reply.status, reply.error_code().as_str()), (404, "unknown_limit"));
        assert!(reply.body.contains("`nobody`"), "{}", reply.body);
    }
    for path in ["/v1", "/v1/check/", "/v2/check", "/v1/%ff", "/..%2f"] {
        let reply = service.get(path);
        assert_eq!((reply.status, reply.error_code().as_str()), (404, "not_found"), "{path}");
    }
}

#[test]
fn a_body_that_is_too_large_is_413_announced_or_not() {
    let service = Service::start(&[]);
    let large = format!(r#"{{"limit":"demo","key":"{}"}}"#, "x".repeat(1 << 20));
    let reply = service.post("/v1/check", &large);
    assert_eq!((reply.status, reply.error_code().as_str()), (413, "too_large"));
    let mut stream = service.connect();
    let head = "POST /v1/check HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let _ = stream.write_all(chunk.as_bytes()).and_then(|()| stream.write_all(chunk.as_bytes()));
    assert_eq!(Reply::read(&mut stream).status, 413);
    let fits = format!(r#"{{"limit":"demo","key":"{}"}}"#, "x".repeat(60_000));
    assert_eq!(service.post("/v1/check", fits).status, 200);
}

#[test]
fn what_is_no_http_gets_no_further_and_the_service_goes_on() {
    let service = Service::start(&[]);
    for nonsense in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"HELLO\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n\r\n\0",
    ] {
        let mut stream = service.connect();
        stream.write_all(nonsense).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    }
    // The client sends half a body and disconnects.
    let mut stream = service.connect();
    stream
        .write_all(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"li")
        .unwrap();
    drop(stream);
    assert_eq!(service.get("/healthz").status, 200);
}

/// Sends a head and a body unchanged, and returns the answer.
fn raw(service: &Service, head: &str, body: &[u8]) -> Reply {
    let mut stream = service.connect();
    let head = head.replace('\n', "\r\n");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let _ = stream.write_all(body);
    Reply::read(&mut stream)
}

/// Two programs on the route may each choose another one of the hosts.
#[test]
fn a_request_with_two_hosts_or_none_is_400() {
    let service = Service::start(&["--health", "127.0.0.1:0"]);
    for (head, status) in [
        ("GET /v1/limits HTTP/1.1\nHost: a", 200),
        ("GET /v1/limits HTTP/1.1\nHost: a:8080", 200),
        ("GET /v1/limits HTTP/1.1\nHost: [::1]:8080", 200),
        ("GET /v1/limits HTTP/1.0\nHost: a", 200),
        ("GET /v1/limits HTTP/1.0", 200),
        ("GET http://a/v1/limits HTTP/1.1\nHost: a", 200),
        ("GET /v1/limits HTTP/1.1", 400),
        ("GET /v1/limits HTTP/1.1\nHost: a\nHost: b", 400),
        ("GET /v1/limits HTTP/1.1\nHost: a\nHost: a", 400),
        ("GET /v1/limits HTTP/1.1\nHost: a\nhost: a", 400),
        ("GET /v1/limits HTTP/1.0\nHost: a\nHost: b", 400),
        ("GET /v1/limits HTTP/1.1\nHost: a, b", 400),
        ("GET /v1/limits HTTP/1.1\nHost: a b", 400),
        ("GET /v1/limits HTTP/1.1\nHost: user@a", 400),
        ("GET http://b/v1/limits HTTP/1.1\nHost: a", 400),
        ("GET /nowhere HTTP/1.1\nHost: a\nHost: b", 400),
        ("GET /healthz HTTP/1.1\nHost: a\nHost: b", 400),
        ("GET / HTTP/1.1\nHost: a\nHost: b", 400),
        ("POST /v1/check HTTP/1.1\nHost: a\nHost: b\nContent-Length: 0", 400),
    ] {
        let reply = raw(&service, head, b"");
        assert_eq!(reply.status, status, "{head}: {}", reply.body);
        if status == 400 {
            assert_eq!(reply.error_code(), "malformed", "{head}");
            assert!(reply.body.contains("host") || reply.body.contains("Host"), "{}", reply.body);
        }
    }
    let mut health = std::net::TcpStream::connect(service.health()).unwrap();
    health
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n")
        .unwrap();
    assert_eq!(Reply::read(&mut health).status, 400);
}

/// A proxy that uses another length would see another request.
#[test]
fn a_request_without_one_valid_length_is_400_and_nothing_of_it_is_charged() {
    let service = Service::start(&[]);
    let body = r#"{"limit":"demo","key":"a"}"#;
    let length = body.len();
    let head = "POST /v1/check HTTP/1.1\nHost: a";
    for fields in [
        format!("Content-Length: {length}\nContent-Length: 3"),
        "Transfer-Encoding: gzip".to_owned(),
        "Content-Length: +1".to_owned(),
        "Content-Length: -1".to_owned(),
    ] {
        let reply = raw(&service, &format!("{head}\n{fields}"), body.as_bytes());
        assert_eq!(reply.status, 400, "{fields}: {}", reply.body);
    }
    let peeked = service.post("/v1/peek", body).json();
    assert_eq!(peeked["policies"][0]["remaining"], 20);
}

/// RFC 9112, section 6.1. Only a proxy that used the length would treat the bytes after the chunks
/// as a request.
#[test]
fn a_request_with_a_length_and_chunks_is_read_by_its_chunks_and_is_the_last_of_its_connection() {
    let service = Service::start(&[]);
    let body = r#"{"limit":"demo","key":"a"}"#;
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let smuggled = format!(
        "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let length = format!("Content-Length: {}", chunks.len() + smuggled.len());
    let coding = "Transfer-Encoding: chunked".to_owned();
    for [first, second] in [[&length, &coding], [&coding, &length]] {
        let head = format!("POST /v1/check HTTP/1.1\r\nHost: a\r\n{first}\r\n{second}\r\n\r\n");
        let mut client = Client::on(service.connect()).unwrap();
        client.send(&format!("{head}{chunks}{smuggled}")).unwrap();
        let reply = client.reply().unwrap();
        assert_eq!((reply.status, reply.field("connection")), (200, Some("close")), "{head}");
        client.wait_until_closed();
    }
    let peeked = service.post("/v1/peek", body).json();
    assert_eq!(peeked["policies"][0]["remaining"], 18, "one charge for each connection");
}

#[test]
fn an_encoded_body_is_415_and_says_to_send_it_plain() {
    let service = Service::start(&[]);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(br#"{"limit":"demo","key":"a"}"#).unwrap();
    let packed = packed.finish().unwrap();
    for call in CALLS.into_iter().chain(["/v1/settle", "/v1/cancel", "/v1/ban"]) {
        for coding in ["gzip", "GZIP", "br", "zstd", "deflate", "identity, gzip", "x"] {
            let reply = service.send("POST", call, &[("Content-Encoding", coding)], &packed);
            assert_eq!(
                (reply.status, &*reply.error_code(), reply.field("accept-encoding")),
                (415, "unsupported_encoding", Some("identity")),
                "{call} {coding}"
            );
        }
    }
    let plain = br#"{"limit":"demo","key":"a"}"#;
    let reply = service.send("POST", "/v1/check", &[("Content-Encoding", "identity")], plain);
    assert_eq!(reply.status, 200);
}

/// A check of `?cost=0`, or a list of one limit's decisions, would have been a different request.
#[test]
fn parameters_that_a_call_does_not_know_are_refused() {
    let file = File::new("limits.yaml", "limits: {demo: {policies: [gcra 9/h], ban: 9/h for 1h}}");
    let service = Service::start(&["--config", file.path()]);
    let refused = |reply: Reply, path: &str| {
        assert_eq!((reply.status, &*reply.error_code()), (400, "malformed"), "{path}");
        assert!(reply.body.contains("`count`") || reply.body.contains("`x`"), "{}", reply.body);
    };
    for path in ["/v1/config", "/v1/fleet", "/v1/openapi.json"] {
        assert_eq!(service.get(path).status, 200, "{path}");
        assert_eq!(service.get(&format!("{path}?")).status, 200, "{path}");
        for query in ["?count=5", "?x", "?x=", "?&x=1"] {
            refused(service.get(&format!("{path}{query}")), path);
        }
    }
    for path in [
        "/v1/bans?limit=demo&x=1",
        "/v1/keys?limit=demo&x=1",
        "/v1/limits?count=5&x=1",
        "/v1/recent?count=5&x=1",
        "/v1/stream?count=5&x=1",
    ] {
        refused(service.get(path), path);
    }
    for call in CALLS {
        let body = body_of(call, r#"{"limit":"demo","key":"a"}"#);
        refused(service.post(&format!("{call}?x=1"), body), call);
    }
    let peeked = service.post("/v1/peek", r#"{"limit":"demo","key":"a"}"#).json();
    assert_eq!(peeked["policies"][0]["remaining"], 9, "nothing of it was charged");
    // Probes and scrapers may add parameters.
    for path in ["/healthz", "/readyz", "/metrics", "/"] {
        assert_eq!(service.get(&format!("{path}?x=1")).status, 200, "{path}");
    }
}
