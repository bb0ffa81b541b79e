//! The calls in which a proxy asks about a request that it serves.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use serde_json::json;
use sluicegate_testkit::servers::Server;

use crate::support::{Client, File, Reply, Service};

const LIMITS: &str = "
http: {client_address: x-forwarded-for, trusted_proxies: [127.0.0.1]}
limits:
  address: {policies: [fixed_window 3/h], key: ip, block: [192.0.2.66]}
  route: {policies: [fixed_window 9/h as nine], key: method+host+path, missing_key: refuse}
  tenant: {policies: [fixed_window 3/h], key: header:x-tenant}
  jobs: {policies: [concurrency 3 hold 30s], key: ip}
  shaped: {policies: [shaper 100/s queue 9], key: ip}
  shop/slash: {policies: [fixed_window 3/h], key: ip}
";

fn service(text: &str) -> Service {
    let file = File::new("limits.yaml", text);
    Service::start(&["--config", file.path()])
}

/// Asks about a request of a client at this address.
fn auth(service: &Service, call: &str, address: &str) -> Reply {
    let fields = [
        ("X-Forwarded-For", address),
        ("X-Forwarded-Method", "POST"),
        ("X-Forwarded-Uri", "/cart?item=7"),
        ("X-Forwarded-Host", "shop.example"),
    ];
    service.send("GET", call, &fields, b"")
}

fn remaining(reply: &Reply) -> &str {
    let field = reply.field("ratelimit").unwrap_or_else(|| panic!("{reply:?}"));
    field.split("r=").nth(1).unwrap().split(';').next().unwrap()
}

#[test]
fn each_outcome_has_its_status_and_fields() {
    let service = service(LIMITS);
    for left in ["2", "1", "0"] {
        let allowed = auth(&service, "/v1/auth/address", "192.0.2.1");
        assert_eq!((allowed.status, &*allowed.body), (200, ""), "{allowed:?}");
        assert_eq!(remaining(&allowed), left);
        assert!(allowed.field("ratelimit-policy").unwrap().contains("q=3"), "{allowed:?}");
        assert_eq!(allowed.field("retry-after"), None);
        assert_eq!(allowed.field("cache-control"), Some("no-store"));
    }
    let denied = auth(&service, "/v1/auth/address", "192.0.2.1");
    assert_eq!(denied.status, 429);
    assert_eq!(denied.field("content-type"), Some("application/problem+json"));
    assert_eq!(denied.json()["title"], "Quota exceeded");
    assert_eq!(remaining(&denied), "0");
    assert!((1..=3600).contains(&denied.field("retry-after").unwrap().parse().unwrap()));
    assert_eq!(denied.field("sluicegate-outcome"), None);
    for (status, expected) in [("403", 403), ("200", 200), ("599", 599)] {
        let call = format!("/v1/auth/address?denied={status}");
        let denied = auth(&service, &call, "192.0.2.1");
        assert_eq!((denied.status, remaining(&denied)), (expected, "0"), "{denied:?}");
        assert!(denied.field("retry-after").is_some());
    }
    let forbidden = auth(&service, "/v1/auth/address?denied=403", "192.0.2.1");
    assert_eq!(forbidden.json()["status"], 403);
    let blocked = auth(&service, "/v1/auth/address?denied=200", "192.0.2.66");
    assert_eq!((blocked.status, blocked.field("sluicegate-outcome")), (403, Some("blocked")));
    assert_eq!(blocked.field("retry-after"), None);
    let unknown = auth(&service, "/v1/auth/adress", "192.0.2.1");
    assert_eq!((unknown.status, &*unknown.error_code()), (404, "unknown_limit"));
    // A cost that never fits has no end.
    let never = auth(&service, "/v1/auth/address?cost=4", "192.0.2.2");
    assert_eq!((never.status, never.field("retry-after")), (429, None), "{never:?}");
    let costly = auth(&service, "/v1/auth/address?cost=2", "192.0.2.2");
    assert_eq!((costly.status, remaining(&costly)), (200, "1"));
    let waited = auth(&service, "/v1/auth/shaped", "192.0.2.2");
    assert_eq!(waited.status, 200, "{waited:?}");
}

#[test]
fn several_limits_are_one_decision() {
    let service = service(LIMITS);
    let both = auth(&service, "/v1/auth/address,route?cost=2", "192.0.2.1");
    assert_eq!(both.status, 200, "{both:?}");
    assert!(both.field("ratelimit-policy").unwrap().contains("nine"), "{both:?}");
    assert_eq!(auth(&service, "/v1/auth/route,address?cost=2", "192.0.2.1").status, 429);
    // The denied request took nothing of the other limit.
    let one = auth(&service, "/v1/auth/route", "192.0.2.1");
    assert_eq!(remaining(&one), "6");
    let slash = auth(&service, "/v1/auth/shop%2Fslash,address", "192.0.2.1");
    assert_eq!(slash.status, 200, "{slash:?}");
    assert_eq!(auth(&service, "/v1/auth/shop/slash", "192.0.2.1").status, 404);
}

#[test]
fn the_key_is_that_of_the_described_request() {
    let service = service(LIMITS);
    let left = |fields: &[(&str, &str)]| {
        let reply = service.send("GET", "/v1/auth/route", fields, b"");
        (reply.status, reply.field("ratelimit").map(|_| remaining(&reply).to_owned()))
    };
    let fields = [
        ("X-Forwarded-Method", "POST"),
        ("X-Forwarded-Uri", "/cart?item=7"),
        ("X-Forwarded-Host", "shop.example"),
    ];
    assert_eq!(left(&fields), (200, Some("8".into())));
    // The other family, and the call itself.
    for more in [("X-Original-Method", "GET"), ("X-Original-URI", "/"), ("Content-Type", "a")] {
        let (status, _) = left(&[&fields[..], &[more]].concat());
        assert_eq!(status, 200);
    }
    assert_eq!(left(&fields), (200, Some("4".into())));
    for other in [
        ("X-Forwarded-Method", "GET"),
        ("X-Forwarded-Uri", "/other"),
        ("X-Forwarded-Host", "other.example"),
    ] {
        let changed = fields.map(|field| if field.0 == other.0 { other } else { field });
        assert_eq!(left(&changed), (200, Some("8".into())), "{other:?}");
        // Given twice, it is missing.
        assert_eq!(left(&[&fields[..], &[other]].concat()), (403, None), "{other:?}");
        let without: Vec<_> = fields.into_iter().filter(|field| field.0 != other.0).collect();
        assert_eq!(left(&without), (403, None), "{other:?}");
    }
}

#[test]
fn with_x_original_the_other_family_never_counts() {
    let service = service(&LIMITS.replace("http: {", "http: {forwarded_request: x-original, "));
    let original = [("X-Original-Method", "POST"), ("X-Original-URI", "/cart")];
    let forged =
        [("X-Forwarded-Method", "GET"), ("X-Forwarded-Uri", "/a"), ("X-Forwarded-Host", "b")];
    let left = |fields: &[(&str, &str)]| service.send("GET", "/v1/auth/route", fields, b"");
    assert_eq!(remaining(&left(&original)), "8");
    assert_eq!(remaining(&left(&[&original[..], &forged[..]].concat())), "7");
    assert_eq!(left(&forged).status, 403);
}

#[test]
fn no_field_counts_from_a_peer_that_is_not_trusted() {
    let mut service = service(&LIMITS.replace("[127.0.0.1]", "[127.0.0.2]"));
    let log = service.follow_its_log();
    for (address, left) in [("192.0.2.1", "2"), ("192.0.2.2", "1"), ("192.0.2.66", "0")] {
        let reply = auth(&service, "/v1/auth/address", address);
        assert_eq!((reply.status, remaining(&reply)), (200, left), "{address}");
    }
    assert_eq!(auth(&service, "/v1/auth/route", "192.0.2.1").status, 403);
    let text = log.lock().unwrap().clone();
    assert_eq!(text.matches("add its address to `http.trusted_proxies`").count(), 1, "{text}");
}

#[test]
fn trusted_proxies_count_even_if_the_address_is_the_peers() {
    let service = service(&LIMITS.replace("client_address: x-forwarded-for, ", ""));
    let reply = auth(&service, "/v1/auth/route", "192.0.2.1");
    assert_eq!((reply.status, remaining(&reply)), (200, "8"));
    for left in ["2", "1"] {
        assert_eq!(remaining(&auth(&service, "/v1/auth/address", left)), left);
    }
}

#[test]
fn after_a_prefix_all_is_of_the_client() {
    let service = service(LIMITS);
    let call = |method: &str, path: &str, more: &[(&str, &str)]| {
        let fields = [&[("X-Forwarded-For", "192.0.2.1")], more].concat();
        service.send(method, path, &fields, b"")
    };
    assert_eq!(remaining(&call("POST", "/v1/authz/route;cost=2/cart", &[])), "7");
    // Nothing after the prefix is a parameter, and no field describes the request.
    let forged =
        [("X-Forwarded-Uri", "/a"), ("X-Forwarded-Method", "GET"), ("X-Original-URI", "/b")];
    assert_eq!(
        remaining(&call("POST", "/v1/authz/route;cost=2/cart?cost=1&denied=200", &forged)),
        "5"
    );
    assert_eq!(remaining(&call("POST", "/v1/authz/route/cart;cost=2", &[])), "8", "another path");
    assert_eq!(remaining(&call("PUT", "/v1/authz/route/cart", &[])), "8", "another method");
    // Without a path there is no key.
    assert_eq!(call("PUT", "/v1/authz/route", &[]).status, 403);
    for left in ["2", "1", "0"] {
        assert_eq!(remaining(&call("GET", "/v1/authz/address/a//b/../c?d", &[])), left);
    }
    let denied = call("GET", "/v1/authz/address;denied=403/?denied=200", &[]);
    assert_eq!((denied.status, remaining(&denied)), (403, "0"));
    for wrong in
        ["/v1/authz/address;denied=99/", "/v1/authz/address;cost=0/", "/v1/authz/;cost=2/a"]
    {
        assert_eq!(call("GET", wrong, &[]).error_code(), "malformed", "{wrong}");
    }
    assert_eq!(call("GET", "/v1/authz/adress/cart", &[]).status, 404);
}

#[test]
fn every_method_is_answered_and_no_body_is_read() {
    let service = service(LIMITS);
    let mut client = Client::connect(service.address()).unwrap();
    let mut send = |method: &str, tenant: &str, more: &str| {
        let head = format!(
            "{method} /v1/auth/tenant HTTP/1.1\r\nHost: x\r\nX-Tenant: {tenant}\r\n{more}\r\n"
        );
        client.send(&head).unwrap();
        client.reply().unwrap()
    };
    for method in ["GET", "OPTIONS", "POST", "DELETE", "PURGE"] {
        assert_eq!(send(method, method, "").status, 200, "{method}");
    }
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(send("GET", "upgrade", upgrade).status, 200);
    let encoded =
        "Content-Type: application/grpc\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n";
    for status in [200, 200, 200, 429] {
        let reply = send("POST", "grpc", encoded);
        assert_eq!(reply.status, status, "{reply:?}");
    }
    // The client would wait for more of its body.
    let unsent = "Content-Length: 1000000\r\nExpect: 100-continue\r\n";
    assert_eq!(send("PUT", "unsent", unsent).status, 200);
    for method in ["HEAD", "CONNECT"] {
        let mut client = Client::connect(service.address()).unwrap();
        let head =
            format!("{method} /v1/auth/tenant HTTP/1.1\r\nHost: x\r\nX-Tenant: {method}\r\n\r\n");
        client.send(&head).unwrap();
        assert_eq!(client.reply().unwrap().status, 200, "{method}");
    }
}

#[test]
fn unusable_calls_get_an_error_that_says_what_to_write() {
    let service = service(LIMITS);
    for (call, words) in [
        ("/v1/auth/address?cost=0", "`cost` is `0`"),
        ("/v1/auth/address?cost=9007199254740992", "from 1 to 9007199254740991"),
        ("/v1/auth/address?denied=99", "from 200 to 599"),
        ("/v1/auth/address?failed=600", "from 200 to 599"),
        ("/v1/auth/address?denied=403&denied=403", "twice"),
        ("/v1/auth/address?next=/", "parameter `next` is unknown"),
        ("/v1/auth/address,address", "named twice"),
        ("/v1/auth/,", "write 1 to 16 names"),
        ("/v1/auth/%FF", "UTF-8"),
    ] {
        let reply = auth(&service, call, "192.0.2.1");
        assert_eq!(reply.error_code(), "malformed", "{call}");
        assert!(reply.body.contains(words), "{call}: {}", reply.body);
    }
    let passed_on = service.send(
        "GET",
        "/v1/auth/address?denied=200",
        &[("X-Forwarded-Uri", "/cart?denied=200")],
        b"",
    );
    assert!(passed_on.body.contains("make the proxy replace the query"), "{passed_on:?}");
    let in_flight = auth(&service, "/v1/auth/jobs", "192.0.2.1");
    assert_eq!(in_flight.error_code(), "unsupported", "{in_flight:?}");
    assert_eq!(
        remaining(&auth(&service, "/v1/auth/address", "192.0.2.1")),
        "2",
        "none was charged"
    );
}

#[test]
fn a_proxy_has_a_token_of_its_own() {
    let tokens = File::new("token", "s3cret");
    let service = service(&format!(
        "{LIMITS}\nclients: [{{name: edge, token_file: {}, may: [check], limits: [address]}}]",
        tokens.path()
    ));
    let status = |call: &str, fields: &[(&str, &str)]| service.send("GET", call, fields, b"");
    let call = "/v1/auth/address";
    let missing = status(call, &[("Authorization", "Bearer s3cret")]);
    assert_eq!(
        (missing.status, missing.field("www-authenticate")),
        (401, Some("Sluicegate-Token"))
    );
    assert!(missing.body.contains("send `Sluicegate-Token: TOKEN`"), "{missing:?}");
    let token = ("Sluicegate-Token", "s3cret");
    let of_user = ("Authorization", "Basic YTpi");
    assert_eq!(status(call, &[token, of_user]).status, 200);
    assert_eq!(status("/v1/authz/address/", &[token, of_user]).status, 200);
    assert_eq!(status(call, &[("Sluicegate-Token", "other")]).status, 401);
    assert_eq!(status(call, &[token, token]).status, 401, "twice");
    assert_eq!(status("/v1/auth/address,route", &[token]).error_code(), "forbidden");
    let recent = status("/v1/recent", &[("Authorization", "Bearer s3cret")]);
    assert_eq!(recent.error_code(), "forbidden");
}

#[test]
fn decisions_are_among_the_others() {
    let service = service(LIMITS);
    auth(&service, "/v1/auth/address,route", "192.0.2.1");
    auth(&service, "/v1/auth/address", "192.0.2.66");
    let recent = service.get("/v1/recent").json();
    let row = |index: usize| {
        let row = &recent["recent"][index];
        json!([row["limit"], row["key"], row["allowed"], row["source"], row["together"]])
    };
    assert_eq!(row(0), json!(["address", "192.0.2.66", false, "bypass", null]));
    assert_eq!(row(1), json!(["address", "192.0.2.1", true, "store", ["route"]]));
    assert_eq!(row(2), json!(["route", "POST|shop.example|/cart", true, "store", ["address"]]));
    let metrics = service.get("/metrics").body;
    assert!(metrics.contains(r#"limit="address""#), "{metrics}");
}

#[test]
fn a_unix_socket_and_the_admin_listener_answer_too() {
    let (file, folder) = (File::new("limits.yaml", LIMITS), tempfile::tempdir().unwrap());
    let socket = folder.path().join("http.sock");
    let listen = format!("unix:{}", socket.display());
    let service = Service::start_on(&listen, &["--config", file.path(), "--admin", "127.0.0.1:0"]);
    let call = "GET /v1/auth/address HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n";
    let mut stream = UnixStream::connect(&socket).unwrap();
    write!(stream, "{call}Connection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("r=2;"), "{answer}");
    let mut admin = Client::connect(service.address_of("admin")).unwrap();
    admin.send(&format!("{call}\r\n")).unwrap();
    // The peer of the socket counts as 127.0.0.1, so both calls are about one client.
    assert_eq!(remaining(&admin.reply().unwrap()), "1");
}

#[test]
fn if_the_store_fails_the_call_decides() {
    let mut store = Server::start().unwrap();
    let service = service(&format!("store: \"{}\"\n{LIMITS}", store.url()));
    assert_eq!(auth(&service, "/v1/auth/address?denied=403", "192.0.2.1").status, 200);
    store.kill().unwrap();
    let failed = auth(&service, "/v1/auth/address?denied=403", "192.0.2.1");
    assert_eq!(failed.status, 503, "{failed:?}");
    assert_eq!(failed.json()["title"], "Temporarily reduced capacity");
    assert_eq!(auth(&service, "/v1/auth/address?failed=200", "192.0.2.1").status, 200);
    assert_eq!(auth(&service, "/v1/authz/address;failed=502/", "192.0.2.1").status, 502);
    let blocked = auth(&service, "/v1/auth/address?failed=200", "192.0.2.66");
    assert_eq!(blocked.status, 403, "{blocked:?}");
}

#[test]
fn a_removed_limit_is_unknown_from_then_on() {
    let file = File::new("limits.yaml", LIMITS);
    let service = Service::start(&["--config", file.path()]);
    for call in ["/v1/auth/tenant", "/v1/auth/tenant,address"] {
        assert_eq!(auth(&service, call, "192.0.2.1").status, 200);
    }
    file.replace(&LIMITS.replace("  tenant:", "  tenants:"));
    service.signal(rustix::process::Signal::HUP);
    sluicegate_testkit::wait::until("the new configuration", || {
        match auth(&service, "/v1/auth/tenants", "192.0.2.1").status {
            200 => Ok(()),
            other => Err(other),
        }
    });
    for call in ["/v1/auth/tenant", "/v1/auth/tenant,address"] {
        assert_eq!(auth(&service, call, "192.0.2.1").status, 404, "{call}");
    }
}
