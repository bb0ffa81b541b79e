//! Limits among other layers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::get;
use sluicegate::http::FieldFormat;
use sluicegate_tower::{LimitBody, LimitLayer};
use tower::ServiceBuilder;
use tower::limit::ConcurrencyLimitLayer;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any, CorsLayer};

use super::serve;
use super::web::Limits;

#[tokio::test]
async fn a_browser_of_another_origin_sees_denials_and_their_fields() {
    let limits = Limits::with("fixed_window 1/h");
    let exposed = FieldFormat::Draft11.exposed().split(", ");
    let cors = CorsLayer::new()
        .allow_origin(Any)
        .expose_headers(exposed.map(|name| name.parse().unwrap()).collect::<Vec<_>>());
    let layers = ServiceBuilder::new().layer(cors).layer(LimitLayer::new(limits.api()));
    let client = serve(Router::new().route("/", get(async || "hello")).layer(layers)).await;
    let origin = ("origin", "https://shop.example");
    // The outer layer answers a browser's preflight requests, so they aren't counted.
    for _ in 0..3 {
        let asks = [origin, ("access-control-request-method", "GET")];
        let reply = client.send("OPTIONS", "/", &asks).await;
        assert_eq!((reply.status, reply.limit_fields().len()), (200, 0));
    }
    for status in [200, 429] {
        let reply = client.get_with("/", &[origin]).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.field("access-control-allow-origin").as_deref(), Some("*"));
        let exposed = reply.field("access-control-expose-headers").unwrap();
        assert_eq!(exposed, "ratelimit,ratelimit-policy,retry-after");
    }
}

#[tokio::test]
async fn layers_inside_and_outside_keep_working() {
    let inside = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&inside);
    let count = map_response(move |response: Response| {
        seen.fetch_add(1, Ordering::Relaxed);
        std::future::ready(response)
    });
    async fn mark(mut response: Response<LimitBody<Body>>) -> Response<LimitBody<Body>> {
        response.headers_mut().insert("x-outside", "yes".parse().unwrap());
        response
    }
    let limits = Limits::with("fixed_window 2/h");
    let layers = ServiceBuilder::new()
        .layer(CatchPanicLayer::new())
        .layer(map_response(mark))
        .layer(LimitLayer::new(limits.api()))
        .layer(ConcurrencyLimitLayer::new(1))
        .layer(count);
    let client = serve(Router::new().route("/", get(async || "hello")).layer(layers)).await;
    for status in [200, 200, 429, 429, 429] {
        let reply = client.get("/").await;
        assert_eq!((reply.status, reply.field("x-outside").as_deref()), (status, Some("yes")));
    }
    assert_eq!(inside.load(Ordering::Relaxed), 2, "denied requests got no further");
}

#[tokio::test]
async fn what_a_handler_says_of_its_limits_itself_stays() {
    let limits =
        Limits::of("http: {fields: x-ratelimit}\nlimits: {api: {policies: [fixed_window 100/h]}}");
    let stricter = get(async || [("x-ratelimit-limit", "5"), ("x-ratelimit-remaining", "1")]);
    let laxer = get(async || [("x-ratelimit-limit", "900"), ("x-ratelimit-remaining", "800")]);
    let router = Router::new()
        .route("/stricter", stricter)
        .route("/laxer", laxer)
        .layer(LimitLayer::new(limits.api()));
    let client = serve(router).await;
    let stricter = client.get("/stricter").await;
    assert_eq!(stricter.field("x-ratelimit-remaining").as_deref(), Some("1"));
    assert_eq!(stricter.field("x-ratelimit-limit").as_deref(), Some("5"));
    let laxer = client.get("/laxer").await;
    assert_eq!(laxer.field("x-ratelimit-remaining").as_deref(), Some("98"));
    assert_eq!(laxer.field("x-ratelimit-limit").as_deref(), Some("100"));
}
