//! Tests `x_sluicegate` blocks in the files of `sluicegate envoy`.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};
use sluicegate_testkit::wait::until;

use crate::envoy::{get, start};
use crate::support::{Client, Reply, Service, sluicegate};

const FREE: &str = "127.0.0.1:0";

/// Writes a file with a rule that has a block with these settings, and one without a block.
fn write(folder: &Path, settings: &str) {
    let text = format!(
        "domain: shop\ndescriptors:\n  - {{key: user, x_sluicegate: {{{settings}}}}}\n  - {{key: plan, rate_limit: {{unit: day, requests_per_unit: 3}}}}\n"
    );
    fs::write(folder.join("shop.yaml"), text).unwrap();
}

/// Asks about a user over HTTP. Returns the status and the answer's remaining requests.
fn ask(service: &Service, user: &str) -> (u16, u64) {
    let entry = json!({"key": "user", "value": user});
    let request = json!({"domain": "shop", "descriptors": [{"entries": [entry]}]});
    let reply = service.post("/json", request.to_string());
    (reply.status, reply.json()["statuses"][0]["limitRemaining"].as_u64().unwrap_or(0))
}

/// Sends an admin call, which needs the address as the host.
fn post(address: SocketAddr, path: &str, body: &str) -> Reply {
    let mut client = Client::connect(address).unwrap();
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
    client.send(&format!("{head}{body}")).unwrap();
    client.reply().unwrap()
}

const LINES: &str = "\
shop.user: policies=[token_bucket 1/h burst 2], shadow_mode: false, quota_mode: false
shop.plan: unit=DAY requests_per_unit=3, shadow_mode: false, quota_mode: false
";

#[test]
fn check_prints_policies_or_refuses_blocks() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().to_str().unwrap();
    write(temp.path(), "policies: [token_bucket 1/h burst 2]");
    let done = sluicegate(&["envoy", "check", path]);
    assert_eq!((done.status, done.stdout.as_str(), done.stderr.as_str()), (0, LINES, ""));
    let done = sluicegate(&["envoy", "check", "--strict-compat", path]);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""));
    let expected = "shop.yaml:3:17: descriptors[0]: `x_sluicegate` is not a field of the incumbent: remove the block";
    assert!(done.stderr.contains(expected), "{}", done.stderr);
    write(temp.path(), "policies: [fixed_window 0/h], deadline: 9");
    let done = sluicegate(&["envoy", "check", path]);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""));
    assert!(done.stderr.contains("error: "), "{}", done.stderr);
    assert!(
        done.stderr.contains("shop.yaml:3:72: descriptors[0].x_sluicegate.deadline: "),
        "{}",
        done.stderr
    );
    write(temp.path(), "policies: [fixed_window 0/h]");
    let done = sluicegate(&["envoy", "check", path]);
    assert_eq!(done.status, 0);
    let warning = "descriptors[0].x_sluicegate.policies[0]: refuses every request: its limit is 0";
    assert!(done.stderr.contains(warning), "{}", done.stderr);
}

#[test]
fn the_service_decides_by_blocks_and_admin_calls_see_their_limits() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "policies: [token_bucket 1/h burst 2], ban: 9/1min for 15min");
    let mut service = start(&[], &["--config", temp.path().to_str().unwrap(), "--admin", FREE]);
    let log = service.follow_its_log();
    assert_eq!([ask(&service, "alice"), ask(&service, "alice")], [(200, 1), (200, 0)]);
    assert_eq!(ask(&service, "alice"), (429, 0));
    assert_eq!(get(service.address_of("debug"), "/rlconfig").body, LINES);
    let admin = service.address_of("admin");
    let limits = get(admin, "/v1/limits").json();
    let limit = &limits["limits"][0];
    assert_eq!(limit["name"], "shop/user");
    let file = temp.path().join("shop.yaml");
    let place = |of: &Value| json!([of["file"], of["line"], of["column"]]);
    assert_eq!(place(limit), json!([file, 3, 31]), "the block");
    let explained = post(admin, "/v1/explain", r#"{"limit": "shop/user", "key": "alice"}"#).json();
    assert_eq!(place(&explained["because"][0]), json!([file, 3, 43]), "{explained}");
    let ban = json!({"limit": "shop/user", "key": "bob", "for": "1h"}).to_string();
    assert_eq!(post(admin, "/v1/ban", &ban).status, 200);
    assert_eq!(ask(&service, "bob"), (429, 0));
    // A block that can't be used leaves the rules in force.
    write(temp.path(), "policies: [token_bucket 1/h burst 9], charge: maybe");
    until("the refusal", || {
        let seen = log.lock().unwrap().clone();
        if seen.contains("x_sluicegate.charge: must be `forced`") { Ok(()) } else { Err(seen) }
    });
    assert_eq!(get(service.address_of("debug"), "/rlconfig").body, LINES);
    write(temp.path(), "policies: [token_bucket 1/h burst 9]");
    until("the new rules", || {
        let seen = get(service.address_of("debug"), "/rlconfig").body;
        if seen.contains("burst 9") { Ok(()) } else { Err(seen) }
    });
    assert_eq!(ask(&service, "alice"), (200, 6), "what was consumed counts");
}

#[test]
fn a_strict_service_refuses_blocks() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), "policies: [token_bucket 1/h burst 2]");
    let args = ["--config", temp.path().to_str().unwrap(), "--strict-compat"];
    let service = start(&[("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true")], &args);
    assert_eq!(service.get("/healthcheck").status, 500);
    assert_eq!(get(service.address_of("debug"), "/rlconfig").body, "");
    let stats = get(service.address_of("debug"), "/stats").body;
    assert!(stats.contains("ratelimit_service_config_load_error 1"), "{stats}");
}
