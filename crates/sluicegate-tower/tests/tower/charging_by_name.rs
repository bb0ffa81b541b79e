//! A gateway to a language model: each request costs one unit before its response, and its tokens
//! after it.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::HeaderName;
use sluicegate::{Ask, Config, Registry};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_async;
use sluicegate_tower::{Charge, LimitLayer};
use tokio::sync::Semaphore;
use tower_http::catch_panic::CatchPanicLayer;

use super::serve;
use super::web::{Client, Limits, key, now};

const GATEWAY: &str = "limits: {llm: {policies: [fixed_window 3/h as requests, token_bucket 100/h burst 100 as tokens]}}";
const KEY: &str = "127.0.0.1";

fn layer(registry: &Registry) -> LimitLayer {
    LimitLayer::new(registry.gate("llm"))
        .cost(|_| [("requests", 1)])
        .charge_after(|response| response.charge())
}

/// Answers with the given number of tokens, and reports it.
async fn generate(Path(tokens): Path<u64>) -> Response {
    let mut response = "words".into_response();
    response.extensions_mut().insert(Charge::from([("tokens", tokens)]));
    response
}

async fn site(layer: LimitLayer) -> Client {
    let panics = get(async || -> &'static str { panic!("on purpose") });
    let router = Router::new().route("/{tokens}", get(generate)).route("/panic", panics);
    serve(router.layer(layer).layer(CatchPanicLayer::new())).await
}

fn left(limits: &Limits) -> [u64; 2] {
    let decision = now(limits.gate("llm").peek(KEY)).unwrap();
    ["requests", "tokens"].map(|name| decision.outcome(name).unwrap().remaining().unwrap())
}

#[tokio::test]
async fn a_request_is_taken_before_the_response_and_its_tokens_after_it() {
    let limits = Limits::of(GATEWAY);
    let client = site(layer(&limits.registry)).await;
    let fields = async |path: &str| client.get(path).await.field("ratelimit").unwrap();
    assert_eq!(fields("/40").await, "\"requests\";r=2;t=3600, \"tokens\";r=60;t=1440");
    assert_eq!(fields("/60").await, "\"requests\";r=1;t=3600, \"tokens\";r=0;t=3600");
    let denied = client.get("/1").await;
    assert_eq!((denied.status, denied.field("retry-after").as_deref()), (429, Some("36")));
    assert!(denied.body.contains(r#""violated-policies":["tokens"]"#), "{}", denied.body);
    assert_eq!(left(&limits), [1, 0], "a request that finds no tokens is none");
    limits.pass(36);
    assert_eq!(client.get("/1").await.status, 200);
    assert_eq!(left(&limits), [0, 0]);
    limits.pass(36);
    let denied = client.get("/1").await;
    assert!(denied.body.contains(r#""violated-policies":["requests"]"#), "{}", denied.body);
    assert_eq!(left(&limits), [0, 1]);
}

#[tokio::test]
async fn requests_in_flight_are_no_more_than_the_policy_that_is_taken_before() {
    let limits = Limits::of(GATEWAY);
    let (open, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (gate, entry) = (Arc::clone(&open), Arc::clone(&arrived));
    let slow = async move || {
        entry.add_permits(1);
        gate.acquire().await.unwrap().forget();
        generate(Path(50)).await
    };
    let client = serve(Router::new().route("/", get(slow)).layer(layer(&limits.registry))).await;
    let visits: Vec<_> = (0..5)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("/").await.status })
        })
        .collect();
    arrived.acquire_many(3).await.unwrap().forget();
    assert_eq!(left(&limits), [0, 100]);
    open.add_permits(5);
    let mut statuses = Vec::new();
    for visit in visits {
        statuses.push(visit.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
    assert_eq!(arrived.available_permits(), 0, "nobody else came through");
    assert_eq!(left(&limits), [0, 0]);
}

#[tokio::test]
async fn a_field_of_the_response_can_say_how_many_tokens_it_was() {
    let limits = Limits::of(GATEWAY);
    let layer = layer(&limits.registry).charge_after(|response| {
        let tokens = response.field(&HeaderName::from_static("x-tokens"))?;
        Some([("tokens", str::from_utf8(tokens).ok()?.parse().ok()?)])
    });
    let told = get(async || [("x-tokens", "30")]);
    let router = Router::new().route("/told", told).route("/silent", get(async || "hello"));
    let client = serve(router.layer(layer)).await;
    assert_eq!(client.get("/told").await.status, 200);
    assert_eq!(left(&limits), [2, 70]);
    assert_eq!(client.get("/silent").await.status, 200);
    assert_eq!(left(&limits), [1, 70]);
}

#[tokio::test]
async fn a_handler_that_panics_keeps_the_request_and_pays_for_the_rest() {
    let limits = Limits::of(GATEWAY);
    let client = site(layer(&limits.registry)).await;
    assert_eq!(client.get("/panic").await.status, 500);
    assert_eq!(left(&limits), [2, 99]);
    let client = site(layer(&limits.registry).charge_unanswered([("tokens", 40)])).await;
    assert_eq!(client.get("/panic").await.status, 500);
    assert_eq!(left(&limits), [1, 59]);
}

/// Two of three limits have tokens, each with a key of its own; the third one has none.
#[tokio::test]
async fn a_name_is_charged_in_every_limit_that_has_it_and_all_are_told() {
    let limits = Limits::of(
        "limits: {user: {policies: [fixed_window 9/h as requests, fixed_window 100/h as tokens]}, organisation: {policies: [fixed_window 500/h as tokens]}, address: {policies: [fixed_window 9/h as visits]}}",
    );
    let layer = LimitLayer::new(limits.gate("user"))
        .key(key("query:user"))
        .cost(|_| [("requests", 1)])
        .and(limits.gate("organisation"), key("query:organisation"))
        .unwrap()
        .and(limits.gate("address"), key("ip"))
        .unwrap()
        .charge_after(|response| response.charge());
    let client = site(layer).await;
    let reply = client.get("/40?user=alice&organisation=acme").await;
    assert_eq!(
        reply.field("ratelimit").as_deref(),
        Some(
            "\"requests\";r=8;t=3600, \"user/tokens\";r=60;t=3600, \"organisation/tokens\";r=460;t=3600, \"visits\";r=9;t=0"
        )
    );
    let reply = client.get("/40?user=bob&organisation=acme").await;
    assert!(
        reply.field("ratelimit").unwrap().contains("\"organisation/tokens\";r=420;"),
        "{reply:?}"
    );
    assert_eq!(limits.left("address", KEY), 9, "nothing of it has a name here");
}

#[tokio::test]
async fn a_name_that_is_wrong_is_no_open_door() {
    let limits = Limits::of(GATEWAY);
    let client = site(layer(&limits.registry).cost(|_| [("request", 1)])).await;
    assert_eq!(client.get("/1").await.status, 500);
    assert_eq!(left(&limits), [3, 100]);
}

#[tokio::test]
async fn a_store_over_the_network_takes_and_charges_alike() {
    let server = Server::start().unwrap();
    let config = format!("store: \"{}\"\n{GATEWAY}", server.url());
    let config = config.replace("{llm: {", "{llm: {deadline: 5s, ");
    let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
    let client = site(layer(&registry)).await;
    let first = client.get("/60").await.field("ratelimit").unwrap();
    assert!(first.starts_with("\"requests\";r=2;t=3600, \"tokens\";r=40;"), "{first}");
    assert_eq!(client.get("/70").await.status, 200);
    let denied = client.get("/1").await;
    assert!(denied.body.contains(r#""violated-policies":["tokens"]"#), "{}", denied.body);
    // A key without a debt, so that the time that passes here doesn't matter.
    let gate = registry.gate("llm");
    let decision = gate.refund(Ask::new(KEY).cost_of("tokens", 100)).await.unwrap();
    assert_eq!(decision.outcome("requests").unwrap().remaining(), Some(1), "two were taken");
    assert_eq!(client.get("/panic").await.status, 500);
    until_async("the request that panicked is paid for", async || {
        let left = gate.peek(KEY).await.unwrap().outcome("requests").unwrap().remaining();
        if left == Some(0) { Ok(()) } else { Err(left) }
    })
    .await;
    let denied = client.get("/1").await;
    assert!(denied.body.contains(r#""violated-policies":["requests"]"#), "{}", denied.body);
}
