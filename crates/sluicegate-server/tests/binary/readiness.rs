//! Tests readiness, with a real server that stops and starts.

use sluicegate_core::Store as _;
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until;

use crate::support::{Client, File, Reply, Service, sluicegate};

const LIMITS: [&str; 4] = ["allow", "local", "deny", "error"];

/// Writes a config with one limit for each `on_store_failure`, named after it.
fn config(server: &Server) -> File {
    let limit = |mode: &str| {
        format!(
            "  {mode}: {{policies: [gcra 9/h burst 9], on_store_failure: {mode}, deadline: 1s}}\n"
        )
    };
    let limits: String = LIMITS.map(limit).concat();
    let fallback = "fallback: {processes: 1}";
    File::new("limits.yaml", &format!("store: \"{}\"\n{fallback}\nlimits:\n{limits}", server.url()))
}

fn check(service: &Service, limit: &str) -> Reply {
    service.post("/v1/check", format!(r#"{{"limit":"{limit}","key":"a"}}"#))
}

/// Waits until the first ping is answered, which may be late on a busy machine.
fn until_ready(service: &Service) -> Reply {
    until("the service is ready", || match service.get("/readyz") {
        reply if reply.status == 200 => Ok(reply),
        reply => Err(reply),
    })
}

/// Waits until `/readyz` reports this state of the store, and asserts that it always answers 200.
fn until_store_is(service: &Service, state: &str) -> Reply {
    until("the state of the store", || {
        let reply = service.get("/readyz");
        assert_eq!(reply.status, 200, "{}", reply.body);
        let json = reply.json();
        if json["store"] == state { Ok(reply) } else { Err(json) }
    })
}

/// Regression test: an orchestrator removed all instances during an outage of the store.
#[test]
fn a_store_that_stops_leaves_the_service_ready_and_its_state_in_the_body() {
    let mut server = Server::start().unwrap();
    let file = config(&server);
    let mut service = Service::start(&["--config", file.path(), "--health", "127.0.0.1:0"]);
    let log = service.follow_its_log();
    assert_eq!(until_ready(&service).body, r#"{"status":"ready","store":"up"}"#);
    assert_eq!(service.metric("sluicegate_store_up"), 1);
    for limit in LIMITS {
        assert_eq!(check(&service, limit).status, 200, "{limit}");
    }
    server.kill().unwrap();
    // No request calls the store, so only the pings detect the outage.
    let down = until_store_is(&service, "down").json();
    assert!(down["store_error"].as_str().unwrap().contains("can't be reached"), "{down}");
    let mut health = Client::connect(service.health()).unwrap();
    assert_eq!(health.get("/readyz").unwrap().status, 200);
    assert_eq!(service.metric("sluicegate_store_up"), 0);
    let fails = |log: &str| log.matches("the store fails: ").count();
    until("the line in the log", || {
        let log = log.lock().unwrap().clone();
        if fails(&log) == 1 { Ok(()) } else { Err(log) }
    });
    for (limit, status) in [("allow", 200), ("local", 200), ("deny", 503), ("error", 503)] {
        assert_eq!(check(&service, limit).status, status, "{limit}");
        assert_eq!(service.get("/readyz").status, 200, "{limit}");
    }
    server.restart().unwrap();
    until_store_is(&service, "up");
    assert_eq!(service.metric("sluicegate_store_up"), 1);
    until("the line in the log", || {
        let log = log.lock().unwrap().clone();
        if log.contains("the store answers again: ") { Ok(()) } else { Err(log) }
    });
    assert_eq!(fails(&log.lock().unwrap()), 1, "the outage is told once");
    service.signal(rustix::process::Signal::TERM);
    until("it drains", || match service.get("/readyz") {
        reply if reply.status == 503 => {
            assert_eq!(reply.error_code(), "draining");
            Ok(())
        }
        reply => Err(reply),
    });
}

#[test]
fn a_service_is_not_ready_before_its_store_has_answered_once() {
    let mut server = Server::start().unwrap();
    let file = config(&server);
    server.kill().unwrap();
    let service = Service::start(&["--config", file.path()]);
    let waived = Service::start(&["--config", file.path(), "--ready-without-store"]);
    let reply = service.get("/readyz");
    assert_eq!((reply.status, &*reply.error_code()), (503, "store_unavailable"));
    assert!(reply.body.contains("has not answered since the service started: "), "{}", reply.body);
    assert_eq!(service.get("/healthz").status, 200);
    assert_eq!(service.metric("sluicegate_store_up"), 0);
    // Not even while the service decides without the store.
    assert_eq!(check(&service, "allow").status, 200);
    assert_eq!(service.get("/readyz").status, 503);
    assert_eq!(waived.get("/readyz").status, 200);
    until_store_is(&waived, "down");
    server.restart().unwrap();
    until_ready(&service);
    until_store_is(&waived, "up");
    server.kill().unwrap();
    until_store_is(&service, "down");
}

/// A decision of the store counts as an answer, like a ping.
#[test]
fn a_service_whose_store_decides_is_ready() {
    let server = Server::start().unwrap();
    let file = config(&server);
    let service = Service::start(&["--config", file.path()]);
    assert_eq!(check(&service, "error").status, 200);
    assert_eq!(service.get("/readyz").status, 200);
}

/// A paused server delays every call. A probe must not wait for it, because the probe would time
/// out.
#[test]
fn a_store_that_hangs_does_not_hold_up_probes() {
    let mut server = Server::start().unwrap();
    let file = config(&server);
    let service = Service::start(&["--config", file.path()]);
    until_ready(&service);
    server.pause().unwrap();
    until_store_is(&service, "down");
    server.resume().unwrap();
    until_store_is(&service, "up");
}

/// Regression test: the answer was 429 with `retry_after_ms: null`, which means that the request
/// can never pass.
#[test]
fn a_limit_that_denies_without_its_store_answers_503() {
    let mut server = Server::start().unwrap();
    let file = config(&server);
    let service = Service::start(&["--config", file.path()]);
    assert_eq!(check(&service, "deny").status, 200);
    server.kill().unwrap();
    let body = r#"{"limit":"deny","key":"a"}"#;
    let waits = r#"{"limit":"deny","key":"a","within":"1s"}"#;
    let several = r#"{"limits":[{"limit":"deny","key":"a"},{"limit":"allow","key":"a"}]}"#;
    for (path, body) in [
        ("/v1/check", body),
        ("/v1/peek", body),
        ("/v1/take", body),
        ("/v1/acquire", waits),
        ("/v1/reserve", waits),
        ("/v1/check", several),
    ] {
        let reply = service.post(path, body);
        assert_eq!(reply.status, 503, "{path}: {}", reply.body);
        assert_eq!(reply.error_code(), "store_failed_closed", "{path}");
        assert!(reply.body.contains("`on_store_failure: deny`"), "{path}: {}", reply.body);
        assert_eq!(reply.field("retry-after"), None, "{path}");
    }
    let url = format!("http://{}", service.address());
    let key = ["--limit", "deny", "--key", "a"];
    for to in [["--config", file.path()], ["--server", &url]] {
        for verb in [&["check"][..], &["peek"], &["take"], &["acquire", "--within", "1s"]] {
            let done = sluicegate(&[verb, &to[..], &key[..]].concat());
            assert_eq!((done.status, &*done.stdout), (3, ""), "{verb:?} {to:?}: {done:?}");
            assert!(done.stderr.contains("on_store_failure: deny"), "{done:?}");
        }
    }
}

/// The service's `on_store_failure` applies, not the program's.
#[tokio::test]
async fn a_client_is_denied_as_its_service_is_configured() {
    use sluicegate::OnStoreFailure;
    use sluicegate::error::DeniedReason;
    use sluicegate::{Denied, Limiter};
    use sluicegate_client::RemoteStore;

    let mut server = Server::start().unwrap();
    let file = config(&server);
    let service = Service::start(&["--config", file.path()]);
    let store = RemoteStore::connect(&format!("http://{}", service.address())).unwrap();
    until_ready(&service);
    store.ping().await.unwrap();
    server.kill().unwrap();
    let limit = sluicegate::Limit::new("deny", ["gcra 9/h burst 9"]).unwrap();
    let limiter = Limiter::builder(store.clone(), limit);
    let limiter = limiter.on_store_failure(OnStoreFailure::Allow).build();
    let denied = Denied::unless_allowed(limiter.check("a").await.unwrap()).unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::StoreFailed);
    assert_eq!(denied.problem().status(), 503);
    until_store_is(&service, "down");
    let error = store.ping().await.unwrap_err();
    assert!(error.to_string().contains("the store of the service at "), "{error}");
}

#[test]
fn a_command_says_whether_the_service_is_ready() {
    let service = Service::start(&["--health", "127.0.0.1:0"]);
    until_ready(&service);
    for address in [service.address(), service.health()] {
        let asked = sluicegate(&["health", "--server", &format!("http://{address}")]);
        assert_eq!((asked.status, &*asked.stdout, &*asked.stderr), (0, "ready, store up\n", ""));
    }
    let address = service.address();
    drop(service);
    let asked = sluicegate(&["health", "--server", &format!("http://{address}")]);
    assert_eq!((asked.status, &*asked.stdout), (1, ""));
    assert!(asked.stderr.contains(&address.to_string()), "{asked:?}");
    let other = sluicegate(&["health", "--server", "nonsense"]);
    assert_eq!(other.status, 2);
}
