//! Tests keys that are addresses, over HTTP and on the command line.

use serde_json::json;
use sluicegate_testkit::servers::shared;

use crate::support::{File, Service, own_store, sluicegate};

const LIMITS: &str = r#"
http: {ipv6_prefix: 64}
limits:
  ip: {policies: ["fixed_window 3/h"], key: ip, block: [10.0.0.0/8], ban: 5/min for 15min}
  jobs: {policies: ["concurrency 9 hold 30s"]}
  plan: {policies: ["fixed_window 3/h"], key: "header:x-plan + header:x-tenant"}
"#;

fn service() -> (Service, File) {
    let file = File::new("limits.yaml", &(own_store(shared().unwrap().url()) + LIMITS));
    (Service::start(&["--config", file.path()]), file)
}

#[test]
fn the_api_gave_each_spelling_of_an_address_a_budget_of_its_own() {
    let (service, file) = service();
    let left = |key: &str| {
        let answer = service.call("check", "ip", key, &json!({})).json();
        answer["policies"][0]["remaining"].as_u64()
    };
    assert_eq!(left("2001:db8:1:2::1"), Some(2));
    assert_eq!(left("2001:DB8:1:2:0:0:0:2"), Some(1));
    assert_eq!((left("198.51.100.1"), left("::ffff:198.51.100.1:80")), (Some(2), None));
    assert_eq!(left("[::ffff:198.51.100.1]:80"), Some(1));
    assert_eq!(service.call("check", "ip", "::ffff:10.1.2.3", &json!({})).status, 403);
    // Recent decisions show the normalized key.
    let recent = service.get("/v1/recent").body;
    assert!(recent.contains("2001:db8:1:2::/64") && !recent.contains("2001:DB8"), "{recent}");
    // The command line uses the same key, in the store and at the service.
    let url = format!("http://{}", service.address());
    for (to, expected) in [(["--config", file.path()], 0), (["--server", &url], 1)] {
        let key = ["--limit", "ip", "--key", "2001:db8:1:2::9", "--json"];
        let done = sluicegate(&[&["check"], &to[..], &key].concat());
        assert_eq!(done.status, expected, "{done:?}");
    }
    // A key from a list can be used in requests.
    assert_eq!(service.call("ban", "ip", "2001:DB8:1:2::7", &json!({"for": "1h"})).status, 200);
    let bans = service.get("/v1/bans?limit=ip").json();
    assert_eq!(bans["bans"][0]["key"], "2001:db8:1:2::/64");
    let unban = ["--limit", "ip", "--key", "2001:db8:1:2::/64", "--config", file.path()];
    let done = sluicegate(&[&["unban"], &unban[..]].concat());
    assert!(done.stdout.contains("unbanned"), "{done:?}");
}

#[test]
fn a_token_is_made_of_the_key_as_the_client_gave_it() {
    let (service, _file) = service();
    let id = "00112233445566778899aabbccddeeff";
    let hold = json!({"hold": {"for": "30s", "id": id}});
    assert_eq!(service.call("check", "jobs", "2001:DB8::1", &hold).status, 200);
    let listed = service.get("/v1/holders?limit=jobs&key=2001:db8::2").json();
    assert_eq!(listed["holders"][0]["hold"], id);
    let key: String = b"2001:DB8::1".iter().map(|byte| format!("{byte:02x}")).collect();
    let reply =
        service.post("/v1/cancel", json!({"hold": format!("1:{id}:jobs:{key}")}).to_string());
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[test]
fn a_key_that_does_not_fit_is_refused_with_what_is_expected() {
    let (service, file) = service();
    for (limit, key, words) in [
        ("ip", "alice", "write one such as 192.0.2.1 or 2001:db8::1"),
        ("ip", "10.0.0.0/8", "at least 32 bits of IPv4 or 64 bits of IPv6"),
        ("ip", "", "the key is empty"),
        ("jobs", "", "the key is empty"),
        ("plan", "acme", "has 1 component, but `header:x-plan+header:x-tenant` has 2"),
        ("plan", "gold|acme|x", "has 3 components"),
    ] {
        for call in ["check", "peek", "reset", "unban"] {
            let reply = service.call(call, limit, key, &json!({}));
            assert_eq!(
                (reply.status, &*reply.error_code()),
                (400, "unfit_key"),
                "{call} {key}: {reply:?}"
            );
            assert!(reply.body.contains(words), "{key}: {}", reply.body);
        }
        let done = sluicegate(&["check", "--config", file.path(), "--limit", limit, "--key", key]);
        assert_eq!(done.status, 2, "{done:?}");
        assert!(done.stderr.contains(words), "{key}: {}", done.stderr);
    }
    // Nothing was charged under this key.
    assert_eq!(
        service.call("check", "plan", "gold|acme", &json!({})).json()["policies"][0]["remaining"],
        2
    );
    let reply = service.get("/v1/holders?limit=ip&key=alice");
    assert_eq!((reply.status, &*reply.error_code()), (400, "unfit_key"), "{reply:?}");
}

#[test]
fn a_limit_without_a_key_accepts_any_text() {
    let service = Service::start(&[]);
    for key in ["alice", "-1001234567890", "10.0.0.0/8", "a\0b", "%", "--json"] {
        assert_eq!(service.call("check", "demo", key, &json!({})).status, 200, "{key:?}");
    }
}

#[test]
fn a_token_of_a_limit_with_a_colon_says_how_to_write_it() {
    let file = File::new("limits.yaml", "limits: {\"a:b\": {policies: [\"fixed_window 10/h\"]}}");
    let service = Service::start(&["--config", file.path()]);
    let id = "00112233445566778899aabbccddeeff";
    let hold = json!({"hold": {"for": "30s", "id": id}});
    assert_eq!(service.call("check", "a:b", "k", &hold).status, 200);
    let cancel = |token: String| service.post("/v1/cancel", json!({"hold": token}).to_string());
    let plain = cancel(format!("1:{id}:a:b:6b"));
    assert_eq!(plain.status, 400);
    assert!(plain.body.contains("in the name of a limit write `%` for each `:`"), "{}", plain.body);
    assert_eq!(cancel(format!("1:{id}:a%b:6b")).status, 200);
}
