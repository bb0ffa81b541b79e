//! Handlers that pass on the answers of an upstream, which pauses a key by 429 or 503.

use axum::Router;
use axum::extract::Path;
use axum::routing::get;
use http::StatusCode;
use sluicegate_tower::LimitLayer;

use super::serve;
use super::web::{Limits, key};

#[tokio::test]
async fn a_response_with_retry_after_pauses_its_key_and_no_other() {
    let limits = Limits::of("limits: {api: {policies: [fixed_window 9/h]}}");
    let layer = LimitLayer::new(limits.registry.gate("api"))
        .key(key("query:account"))
        .pause_on(|response| response.retry_after());
    let upstream = async |Path(status): Path<u16>| {
        (StatusCode::from_u16(status).unwrap(), [("retry-after", "30")])
    };
    let router = Router::new().route("/{status}", get(upstream)).layer(layer);
    let client = serve(router).await;
    let get = async |status: u16, account: &str| {
        client.get(&format!("/{status}?account={account}")).await
    };
    for (status, account) in [(429, "a"), (503, "b")] {
        assert_eq!(get(200, account).await.status, 200, "it has the field, and another status");
        assert_eq!(get(status, account).await.status, status);
        let denied = get(200, account).await;
        assert_eq!((denied.status, denied.field("retry-after").as_deref()), (429, Some("30")));
        assert!(denied.body.contains(r#""code":"paused""#), "{}", denied.body);
    }
    assert_eq!(get(200, "c").await.status, 200);
    limits.pass(30);
    assert_eq!(get(200, "a").await.status, 200);
}

#[tokio::test]
async fn only_the_limits_of_the_gate_added_last_are_paused() {
    let limits = Limits::of("limits: {all: {policies: [gcra 9/s]}, api: {policies: [gcra 9/s]}}");
    let layer = LimitLayer::new(limits.registry.gate("all"))
        .key(key("host"))
        .and(limits.registry.gate("api"), key("query:account"))
        .unwrap()
        .pause_on(|response| response.retry_after());
    let upstream = async || (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "30")]);
    let open = async || StatusCode::OK;
    let router = Router::new().route("/busy", get(upstream)).route("/", get(open)).layer(layer);
    let client = serve(router).await;
    assert_eq!(client.get("/busy?account=a").await.status, 429);
    let denied = client.get("/?account=a").await;
    assert!(denied.body.contains(r#""code":"paused""#), "{}", denied.body);
    assert_eq!(client.get("/?account=b").await.status, 200, "its host isn't paused");
}
