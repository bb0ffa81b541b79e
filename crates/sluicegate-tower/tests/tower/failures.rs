//! Failing stores: a real server, killed or halted.

use std::sync::Arc;

use axum::Router;
use axum::response::IntoResponse as _;
use axum::routing::get;
use sluicegate::error::DeniedReason;
use sluicegate::http::fixed;
use sluicegate::{Config, Registry};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_async;
use sluicegate_tower::{Charge, LimitLayer};
use tokio::sync::Mutex;

use super::serve;
use super::web::Client;

fn registry(server: &Server, limit: &str) -> Registry {
    let config = format!(
        "store: \"{}\"\nlimits: {{api: {{deadline: 5s, policies: [fixed_window 2/h], {limit}}}, other: {{policies: [gcra 9/s]}}}}",
        server.url()
    );
    Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap()
}

async fn site(layer: LimitLayer) -> Client {
    serve(Router::new().route("/", get(async || "hello")).layer(layer)).await
}

#[tokio::test]
async fn a_store_over_the_network_answers_as_any_other() {
    let server = Server::start().unwrap();
    let registry = registry(&server, "key: ip");
    let client = site(LimitLayer::new(registry.gate("api"))).await;
    let first = client.get("/").await;
    assert_eq!(first.status, 200);
    assert_eq!(first.field("ratelimit").as_deref(), Some("\"fixed_window\";r=1;t=3600"));
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
    // Another process uses the same store.
    let other = site(LimitLayer::new(self::registry(&server, "key: ip").gate("api"))).await;
    assert_eq!(other.get("/").await.status, 429);
}

#[tokio::test]
async fn the_limit_says_what_happens_when_the_store_is_gone() {
    for (on_failure, status) in [("error", 503), ("deny", 503), ("allow", 200)] {
        let mut server = Server::start().unwrap();
        let registry = registry(&server, &format!("on_store_failure: {on_failure}"));
        let client = site(LimitLayer::new(registry.gate("api"))).await;
        assert_eq!(client.get("/").await.status, 200);
        server.kill().unwrap();
        let reply = client.get("/").await;
        assert_eq!(reply.status, status, "{on_failure}");
        assert_eq!(reply.field("ratelimit"), None, "nobody counted");
        assert_eq!(reply.field("retry-after"), None);
        if status == 503 {
            assert_eq!(reply.field("content-type").as_deref(), Some("application/problem+json"));
            let kind = "http-problem-types#temporary-reduced-capacity";
            assert!(reply.body.contains(kind), "{}", reply.body);
            assert!(!reply.body.contains("127.0.0.1"), "{}", reply.body);
        }
        server.restart().unwrap();
        // After the break, requests pass uncounted until the connection is re-established.
        until_async("a counted request", async || {
            let reply = client.get("/").await;
            if reply.field("ratelimit").is_some() { Ok(()) } else { Err(reply.status) }
        })
        .await;
    }
}

#[tokio::test]
async fn a_store_that_halts_costs_one_deadline() {
    let mut server = Server::start().unwrap();
    let config = format!(
        "store: \"{}\"\nlimits: {{api: {{deadline: 50ms, policies: [fixed_window 2/h]}}}}",
        server.url()
    );
    let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
    let client = site(LimitLayer::new(registry.gate("api"))).await;
    server.pause().unwrap();
    assert_eq!(client.get("/").await.status, 503);
    server.resume().unwrap();
    until_async("an answer of the store", async || {
        let reply = client.get("/").await;
        if reply.status == 503 { Err(reply.body) } else { Ok(()) }
    })
    .await;
}

#[tokio::test]
async fn a_custom_denial_tells_failure_from_exhaustion() {
    let mut server = Server::start().unwrap();
    let registry = registry(&server, "key: ip");
    let layer = LimitLayer::new(registry.gate("api")).denied_response(|denied, standard| {
        assert_eq!(denied.reason(), DeniedReason::StoreFailed);
        assert!(denied.error().is_some());
        standard.map(|_| axum::body::Body::from("try later"))
    });
    let client = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    server.kill().unwrap();
    let reply = client.get("/").await;
    assert_eq!((reply.status, &*reply.body), (503, "try later"));
}

#[tokio::test]
async fn responses_are_charged_over_the_network_and_go_out_when_that_fails() {
    let server = Arc::new(Mutex::new(Server::start().unwrap()));
    let registry = registry(&*server.lock().await, "enabled: true");
    let killer = Arc::clone(&server);
    let priced = get(async || {
        let mut response = "words".into_response();
        response.extensions_mut().insert(Charge::from(2));
        response
    });
    let last = get(async move || {
        killer.lock().await.kill().unwrap();
        "the store is gone"
    });
    let layer = LimitLayer::new(registry.gate("api"))
        .key(fixed("all"))
        .charge_after(|response| response.charge().unwrap_or_else(|| Charge::from(1)));
    let router = Router::new().route("/", priced).route("/last", last).layer(layer);
    let client = serve(router).await;
    let reply = client.get("/").await;
    assert_eq!(reply.field("ratelimit").as_deref(), Some("\"fixed_window\";r=0;t=3600"));
    assert_eq!(client.get("/").await.status, 429);
    assert!(registry.gate("api").reset("all").await.unwrap().is_allowed());
    let reply = client.get("/last").await;
    assert_eq!((reply.status, &*reply.body), (200, "the store is gone"));
}

#[tokio::test]
async fn a_panic_is_paid_for_over_the_network_too() {
    let server = Server::start().unwrap();
    let registry = registry(&server, "enabled: true");
    let layer = LimitLayer::new(registry.gate("api"))
        .key(fixed("all"))
        .charge_after(|_| None::<u64>)
        .charge_unanswered(2);
    let panics = get(async || -> &'static str { panic!("on purpose") });
    let client = serve(Router::new().route("/", panics).layer(layer)).await;
    // The panic isn't caught, so the connection breaks.
    assert!(client.try_send("GET", "/", &[]).await.is_err());
    let api = registry.gate("api");
    until_async("the request that panicked is paid for", async || {
        let left = api.peek("all").await.unwrap().remaining();
        if left == Some(0) { Ok(()) } else { Err(left) }
    })
    .await;
    assert_eq!(client.get("/").await.status, 429);
}

#[test]
fn limits_that_cannot_be_decided_together_are_no_layer() {
    let (one, two) = (super::web::Limits::with("gcra 1/h"), super::web::Limits::with("gcra 1/h"));
    let error = LimitLayer::new(one.api()).and(two.api(), fixed("all")).unwrap_err();
    assert!(error.to_string().contains("in both gates"), "{error}");
}

/// A misspelled name admits no request, and no client learns which names exist.
#[tokio::test]
async fn a_limit_that_nobody_has_configured_is_a_mistake_of_the_server() {
    let limits = super::web::Limits::of("limits: {secret: {policies: [gcra 1/h]}}");
    let client = site(LimitLayer::new(limits.gate("secert"))).await;
    let reply = client.get("/").await;
    assert_eq!(reply.status, 500);
    assert_eq!(reply.field("content-type").as_deref(), Some("application/problem+json"));
    assert!(reply.body.starts_with(r#"{"type":"about:blank","title":"Internal Server Error","#));
    assert!(!reply.body.contains("sec"), "{}", reply.body);
    assert_eq!(reply.limit_fields(), []);
    let call = client.get_with("/", &[("content-type", "application/grpc")]).await;
    assert_eq!((call.status, call.field("grpc-status").as_deref()), (200, Some("13")));
    let told = limits.gate("secert").check("k").await.unwrap_err().to_string();
    assert!(told.contains("did you mean `secret`?"), "{told}");
    let next = Config::parse("limits: {secert: {policies: [gcra 1/h]}}", "limits.yaml").unwrap();
    limits.registry.replace(&next).unwrap();
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
}
