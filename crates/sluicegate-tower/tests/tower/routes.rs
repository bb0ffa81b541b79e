//! The places of a limit in a router of axum.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::routing::{get, post};
use sluicegate_tower::LimitLayer;
use tower::{Layer as _, Service};

use super::serve;
use super::web::{Limits, hello, key};

#[tokio::test]
async fn a_limit_of_one_route_leaves_the_others_alone() {
    let limits = Limits::with("fixed_window 2/h");
    let layer = LimitLayer::new(limits.api());
    let router =
        Router::new().route("/limited", get(hello).layer(layer)).route("/free", get(hello));
    let client = serve(router).await;
    assert_eq!(client.statuses("/limited", 3).await, [200, 200, 429]);
    assert_eq!(client.statuses("/free", 3).await, [200; 3]);
    assert!(client.get("/free").await.limit_fields().is_empty());
}

#[tokio::test]
async fn a_limit_of_one_method_leaves_the_others_alone() {
    let limits = Limits::with("fixed_window 1/h");
    let router = Router::new()
        .route("/", post(hello).layer(LimitLayer::new(limits.api())).merge(get(hello)));
    let client = serve(router).await;
    let visit = |method| client.send(method, "/", &[]);
    assert_eq!([visit("POST").await.status, visit("POST").await.status], [200, 429]);
    assert_eq!(visit("GET").await.status, 200);
}

#[tokio::test]
async fn a_limit_of_the_whole_router_counts_every_route_and_what_is_not_found() {
    let limits = Limits::with("fixed_window 3/h");
    let router = Router::new()
        .route("/a", get(hello))
        .route("/b", get(hello))
        .layer(LimitLayer::new(limits.api()));
    let client = serve(router).await;
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(client.get("/b").await.status, 200);
    assert_eq!(client.get("/missing").await.status, 404);
    for path in ["/a", "/b", "/missing"] {
        assert_eq!(client.get(path).await.status, 429, "{path}");
    }
}

#[tokio::test]
async fn the_limit_of_a_nested_router_stands_inside_that_of_the_whole() {
    let limits = Limits::of(
        "limits: {site: {policies: [fixed_window 5/h as site]}, admin: {policies: [fixed_window 1/h as admin]}}",
    );
    let admin =
        Router::new().route("/users", get(hello)).layer(LimitLayer::new(limits.gate("admin")));
    let router = Router::new()
        .route("/", get(hello))
        .nest("/admin", admin)
        .layer(LimitLayer::new(limits.gate("site")));
    let client = serve(router).await;
    let first = client.get("/admin/users").await;
    assert_eq!(first.status, 200);
    // The response reports both, the inner one first.
    assert_eq!(
        first.field("ratelimit").as_deref(),
        Some("\"admin\";r=0;t=3600, \"site\";r=4;t=3600")
    );
    let denied = client.get("/admin/users").await;
    assert_eq!(denied.status, 429);
    assert!(denied.body.contains(r#""violated-policies":["admin"]"#), "{}", denied.body);
    assert_eq!(limits.left("site", "127.0.0.1"), 3, "the outer limit let it in");
    assert_eq!(client.statuses("/", 4).await, [200, 200, 200, 429]);
}

#[tokio::test]
async fn requests_are_counted_by_the_route_that_matched() {
    let limits = Limits::with("fixed_window 2/h");
    let layer = LimitLayer::new(limits.api()).key(key("route"));
    let router = Router::new()
        .route("/users/{id}", get(hello))
        .route("/orders/{id}", get(hello))
        .layer(layer);
    let client = serve(router).await;
    for (path, status) in
        [("/users/1", 200), ("/users/2", 200), ("/users/3", 429), ("/orders/3", 200)]
    {
        assert_eq!(client.get(path).await.status, status, "{path}");
    }
    assert_eq!(limits.left("api", "/users/{id}"), 0);
}

#[tokio::test]
async fn clients_are_told_apart_by_the_address_of_their_connection() {
    let limits = Limits::with("fixed_window 1/h");
    let router = Router::new().route("/", get(hello)).layer(LimitLayer::new(limits.api()));
    let client = serve(router).await;
    let other = client.at([127, 0, 0, 2]);
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
    assert_eq!(other.statuses("/", 2).await, [200, 429]);
    assert_eq!(limits.left("api", "127.0.0.2"), 0);
}

#[tokio::test]
async fn layers_of_one_gate_count_together() {
    let limits = Limits::with("fixed_window 2/h");
    let layer = LimitLayer::new(limits.api());
    let router = Router::new()
        .route("/a", get(hello).layer(layer.clone()))
        .route("/b", get(hello).layer(layer));
    let client = serve(router).await;
    assert_eq!(client.get("/a").await.status, 200);
    assert_eq!(client.get("/b").await.status, 200);
    assert_eq!(client.get("/a").await.status, 429);
}

#[tokio::test]
async fn a_change_of_the_configuration_counts_from_the_next_request_on() {
    let limits = Limits::with("fixed_window 1/h");
    let router = Router::new().route("/", get(hello)).layer(LimitLayer::new(limits.api()));
    let client = serve(router).await;
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
    let config = "http: {fields: x-ratelimit}\nlimits: {api: {policies: [fixed_window 9/h]}}";
    limits.registry.replace(&sluicegate::Config::parse(config, "limits.yaml").unwrap()).unwrap();
    let reply = client.get("/").await;
    assert_eq!((reply.status, reply.field("x-ratelimit-limit").as_deref()), (200, Some("9")));
    assert_eq!(reply.field("ratelimit"), None);
    limits.registry.switch(sluicegate::config::Switch::Off);
    assert_eq!(client.statuses("/", 20).await, [200; 20]);
}

/// Axum accepts no service that can fail.
#[test]
fn a_service_that_never_fails_never_fails_behind_limits() {
    fn never_fails<S: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static>(_: S) {}

    let limits = Limits::with("fixed_window 1/h");
    let router: Router = Router::new().route("/", get(hello));
    let layer = LimitLayer::new(limits.api());
    never_fails(layer.layer(router.clone()));
    let custom = layer.denied_response(|_, standard| standard.map(|_| Body::from("slow down")));
    never_fails(custom.layer(router));
}
