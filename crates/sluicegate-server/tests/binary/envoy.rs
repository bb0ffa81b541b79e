//! Tests `sluicegate envoy`, which takes the place of envoyproxy/ratelimit.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::rate_limit_service_client::RateLimitServiceClient;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until;
use tonic::transport::Endpoint;

use crate::support::{Client, Reply, Service, binary, sluicegate};

const FREE: &str = "127.0.0.1:0";

/// Writes the files of a folder.
fn write(folder: &Path, most: u32) {
    fs::create_dir_all(folder).unwrap();
    let text = format!(
        "domain: shop\ndescriptors:\n  - key: plan\n    value: gold\n    rate_limit: {{unit: day, requests_per_unit: {most}}}\n"
    );
    fs::write(folder.join("shop.yaml"), text).unwrap();
}

/// Starts the service on free ports.
pub(crate) fn start(variables: &[(&str, &str)], args: &[&str]) -> Service {
    let mut command = binary();
    let ports = ["--grpc", FREE, "--http", FREE, "--debug", FREE, "--metrics", FREE];
    command.arg("envoy").args(ports).args(args).envs(variables.iter().copied());
    Service::of(command)
}

/// Sends a request to a listener.
pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    Client::connect(address).unwrap().get(path).unwrap()
}

/// Asks about a descriptor over HTTP. Returns the status and the remaining requests.
fn ask(service: &Service) -> (u16, Value) {
    let request =
        json!({"domain": "shop", "descriptors": [{"entries": [{"key": "plan", "value": "gold"}]}]});
    let reply = service.post("/json", request.to_string());
    (reply.status, reply.json()["statuses"][0]["limitRemaining"].clone())
}

fn lines(service: &Service) -> String {
    get(service.address_of("debug"), "/rlconfig").body
}

const LINE: &str =
    "shop.plan_gold: unit=DAY requests_per_unit=3, shadow_mode: false, quota_mode: false\n";

#[test]
fn a_folder_is_checked_with_a_line_for_each_rule_or_every_problem() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 3);
    let path = temp.path().to_str().unwrap();
    let done = sluicegate(&["envoy", "check", path]);
    assert_eq!((done.status, done.stdout.as_str()), (0, LINE));
    let file = temp.path().join("shop.yaml");
    let done = sluicegate(&["envoy", "check", file.to_str().unwrap()]);
    assert_eq!((done.status, done.stdout.as_str()), (0, LINE));
    fs::write(temp.path().join("more.yaml"), "domain: shop\ndescriptors:\n  - ky: x\n").unwrap();
    let done = sluicegate(&["envoy", "check", path]);
    assert_eq!((done.status, done.stdout.as_str()), (2, ""));
    assert!(done.stderr.contains("more.yaml:3:5: "), "{}", done.stderr);
    let done = sluicegate(&["envoy", "check", "/does/not/exist"]);
    assert_eq!(done.status, 2);
    assert!(done.stderr.contains("/does/not/exist: can't be read"), "{}", done.stderr);
}

#[test]
fn the_ports_of_the_incumbent_answer() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 3);
    let service = start(&[], &["--config", temp.path().to_str().unwrap(), "--incumbent-metrics"]);
    assert_eq!(service.get("/healthcheck").body, "OK");
    assert_eq!((ask(&service), ask(&service)), ((200, json!(2)), (200, json!(1))));
    assert_eq!((ask(&service), ask(&service).0), ((200, Value::Null), 429));
    assert_eq!(lines(&service), LINE);
    let known = get(service.address_of("debug"), "/");
    assert_eq!(known.status, 404);
    assert!(known.body.contains("/rlconfig"));
    let metrics = get(service.address_of("metrics"), "/metrics").body;
    for line in [
        r#"ratelimit_service_rate_limit_total_hits{domain="shop",key1="plan_gold"} 4"#,
        r#"ratelimit_service_rate_limit_over_limit{domain="shop",key1="plan_gold"} 1"#,
        "ratelimit_service_config_load_success 1",
        r#"sluicegate_decisions_total{limit="shop/plan_gold","#,
    ] {
        assert!(metrics.contains(line), "{line} isn't in {metrics}");
    }
    assert_eq!(get(service.address_of("metrics"), "/healthcheck").status, 404);
    assert_eq!(service.post("/json", "{}").status, 400);
    assert_eq!(service.get("/json").status, 400);
    assert_eq!(service.get("/v1/limits").status, 404, "the admin calls have no listener");
}

#[test]
fn a_new_root_is_loaded_and_a_broken_one_is_not() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("current");
    let swap = |version: &str| {
        let new = temp.path().join("new");
        symlink(version, &new).unwrap();
        fs::rename(new, &root).unwrap();
    };
    write(&temp.path().join("v1/config"), 3);
    swap("v1");
    let mut service = start(&[("RUNTIME_ROOT", root.to_str().unwrap())], &[]);
    let log = service.follow_its_log();
    assert_eq!(ask(&service), (200, json!(2)));
    // Only the root counts.
    write(&temp.path().join("v1/config"), 4);
    write(&temp.path().join("v2/config"), 10);
    swap("v2");
    until("the second version", || {
        let seen = lines(&service);
        if seen.contains("requests_per_unit=10,") { Ok(()) } else { Err(seen) }
    });
    assert_eq!(ask(&service), (200, json!(8)), "the consumed request counts");
    fs::create_dir_all(temp.path().join("v3/config")).unwrap();
    fs::write(temp.path().join("v3/config/x.yaml"), "domain: [").unwrap();
    swap("v3");
    until("the refusal", || {
        let seen = log.lock().unwrap().clone();
        if seen.contains("the former rules stay in force") { Ok(()) } else { Err(seen) }
    });
    assert_eq!(ask(&service), (200, json!(7)));
}

#[test]
fn a_folder_of_the_command_line_is_loaded_again_when_a_file_changes_or_on_request() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 3);
    let service = start(&[], &["--config", temp.path().to_str().unwrap()]);
    write(temp.path(), 500);
    until("the changed file", || {
        let seen = lines(&service);
        if seen.contains("requests_per_unit=500,") { Ok(()) } else { Err(seen) }
    });
    let loads = || {
        let stats = get(service.address_of("debug"), "/stats").body;
        let line =
            stats.lines().find_map(|it| it.strip_prefix("ratelimit_service_config_load_success "));
        line.unwrap().parse::<u64>().unwrap()
    };
    let before = loads();
    service.signal(Signal::HUP);
    until("another load", || if loads() > before { Ok(()) } else { Err(before) });
}

#[test]
fn without_usable_files_everything_passes_and_health_is_as_the_variable_says() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("none");
    let args = ["--config", folder.to_str().unwrap()];
    let service = start(&[], &args);
    assert_eq!((service.get("/healthcheck").status, ask(&service).0), (200, 200));
    let service = start(&[("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED", "true")], &args);
    assert_eq!(service.get("/healthcheck").status, 500);
    write(&folder, 3);
    until("health", || {
        let status = service.get("/healthcheck").status;
        if status == 200 { Ok(()) } else { Err(status) }
    });
}

#[test]
fn variables_that_cannot_be_used_are_named() {
    let mut command = binary();
    command.arg("envoy").envs([("GRPC_PORT", "x"), ("SHADOW_MODE", "maybe")]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("error: GRPC_PORT must be a port from 0 to 65535, but is `x`"), "{said}");
    assert!(said.contains("error: SHADOW_MODE must be true or false"), "{said}");
    let mut service = start(&[("REDIS_PIPELINES", "2"), ("USE_STATSD", "true")], &[]);
    service.signal(Signal::INT);
    let (_, said) = service.wait();
    for sentence in
        ["REDIS_PIPELINES has no effect", "USE_STATSD has no effect", "the store is memory:"]
    {
        assert!(said.contains(sentence), "{said}");
    }
}

#[test]
fn instances_on_one_server_share_their_counters_and_restarts_keep_them() {
    let redis = Server::start().unwrap();
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 3);
    let address = format!("127.0.0.1:{}", redis.port());
    let variables = [("REDIS_URL", address.as_str()), ("REDIS_SOCKET_TYPE", "tcp")];
    let args = ["--config", temp.path().to_str().unwrap()];
    let (one, other) = (start(&variables, &args), start(&variables, &args));
    assert_eq!((ask(&one), ask(&other)), ((200, json!(2)), (200, json!(1))));
    drop(one);
    let again = start(&variables, &args);
    assert_eq!((ask(&again), ask(&other).0), ((200, Value::Null), 429));
}

#[test]
fn limits_per_second_are_in_a_server_of_their_own() {
    let [redis, per_second] = [(); 2].map(|()| Server::start().unwrap());
    let [address, of_seconds] =
        [&redis, &per_second].map(|server| format!("127.0.0.1:{}", server.port()));
    let file = "domain: shop\ndescriptors:\n  \
                - {key: day, rate_limit: {unit: day, requests_per_unit: 3}}\n  \
                - {key: second, rate_limit: {unit: second, requests_per_unit: 9999}}\n";
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("shop.yaml"), file).unwrap();
    let variables = [
        ("REDIS_URL", address.as_str()),
        ("REDIS_SOCKET_TYPE", "tcp"),
        ("REDIS_PERSECOND", "true"),
        ("REDIS_PERSECOND_URL", of_seconds.as_str()),
        ("REDIS_PERSECOND_SOCKET_TYPE", "tcp"),
    ];
    let mut service = start(&variables, &["--config", temp.path().to_str().unwrap()]);
    let both = json!({"domain": "shop", "descriptors": [
        {"entries": [{"key": "day", "value": "a"}]},
        {"entries": [{"key": "second", "value": "a"}]},
    ]});
    for left in [2, 1] {
        let reply = service.post("/json", both.to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["statuses"][0]["limitRemaining"], left);
        assert_eq!(reply.json()["statuses"][1]["currentLimit"]["unit"], "SECOND");
    }
    let has_calls = |server: &Server| {
        server.cli(&["INFO", "commandstats"]).unwrap().contains("cmdstat_evalsha")
    };
    assert!(has_calls(&redis) && has_calls(&per_second));
    let keys = |server: &Server| server.cli(&["KEYS", "*shop/day*"]).unwrap().lines().count();
    assert_eq!((keys(&redis), keys(&per_second)), (1, 0));
    service.signal(Signal::INT);
    let (_, said) = service.wait();
    assert!(said.contains(&format!("and redis://{of_seconds} for limits per second")), "{said}");
}

#[test]
fn the_admin_listener_has_the_rules_as_limits() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 3);
    let args = ["--config", temp.path().to_str().unwrap(), "--admin", FREE];
    let service = start(&[], &args);
    let limits = get(service.address_of("admin"), "/v1/limits").json();
    assert_eq!(limits["limits"][0]["name"], "shop/plan_gold");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocol_is_answered_by_the_rules() {
    let temp = tempfile::tempdir().unwrap();
    write(temp.path(), 3);
    let service = start(&[], &["--config", temp.path().to_str().unwrap()]);
    let address = format!("http://{}", service.address_of("grpc"));
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut client = RateLimitServiceClient::new(channel);
    let entry = Entry { key: "plan".to_owned(), value: "gold".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let request = RateLimitRequest {
        domain: "shop".to_owned(),
        descriptors: vec![descriptor; 4],
        ..RateLimitRequest::default()
    };
    let answer = client.should_rate_limit(request).await.unwrap().into_inner();
    let codes: Vec<i32> = answer.statuses.iter().map(|status| status.code).collect();
    assert_eq!((answer.overall_code, codes), (2, vec![1, 1, 1, 2]));
}
