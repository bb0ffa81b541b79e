//! The checks of a request, and their answers.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use sluicegate::error::DeniedReason;
use sluicegate::http::{Key, KeyExtractor as _, OnMissingKey, User, fixed, from_fn as key_fn};
use sluicegate_tower::{DeniedResponse, LimitLayer};

use super::serve;
use super::web::{Client, Limits, key, who};

const LOGIN: &str =
    "limits: {address: {policies: [fixed_window 3/h]}, account: {policies: [fixed_window 2/h]}}";

async fn site<D>(layer: LimitLayer<D>) -> Client
where
    D: DeniedResponse<Body> + Clone + Send + Sync + 'static,
{
    serve(Router::new().route("/", get(async || "hello")).layer(layer)).await
}

async fn statuses_of(client: &Client, account: &str, visits: usize) -> Vec<u16> {
    let mut statuses = Vec::new();
    for _ in 0..visits {
        statuses.push(client.get_with("/", &[("x-account", account)]).await.status);
    }
    statuses
}

#[tokio::test]
async fn several_limits_are_decided_all_or_nothing() {
    let limits = Limits::of(LOGIN);
    let layer = LimitLayer::new(limits.gate("address"))
        .key(key("ip"))
        .and(limits.gate("account"), key("header:x-account"))
        .unwrap();
    let client = site(layer).await;
    assert_eq!(statuses_of(&client, "alice", 4).await, [200, 200, 429, 429]);
    // A request that the account refused took no unit of the address.
    assert_eq!(limits.left("address", "127.0.0.1"), 1);
    let reply = client.get_with("/", &[("x-account", "bob")]).await;
    assert_eq!(reply.status, 200);
    let told = "\"address/fixed_window\";r=0;t=3600, \"account/fixed_window\";r=1;t=3600";
    assert_eq!(reply.field("ratelimit").as_deref(), Some(told));
    // The reverse holds too.
    let denied = client.get_with("/", &[("x-account", "carol")]).await;
    assert_eq!(denied.status, 429);
    let violated = r#""violated-policies":["address/fixed_window"]"#;
    assert!(denied.body.contains(violated), "{}", denied.body);
    assert_eq!(limits.left("account", "carol"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn however_many_come_at_once_no_more_are_let_in() {
    let limits = Limits::with("fixed_window 100/h, token_bucket 90/h burst 90");
    let client = site(LimitLayer::new(limits.api())).await;
    let mut visitors = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let client = client.clone();
        visitors.spawn(async move { client.statuses("/", 25).await });
    }
    let statuses = visitors.join_all().await.concat();
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 90);
    assert_eq!(statuses.iter().filter(|&&status| status == 429).count(), 310);
}

#[tokio::test]
async fn limits_with_keys_of_the_configuration_are_joined_as_gates() {
    let limits = Limits::of(
        "limits: {address: {policies: [fixed_window 3/h]}, account: {key: 'header:x-account', policies: [fixed_window 1/h]}}",
    );
    let client =
        site(LimitLayer::new(limits.gate("address").and(limits.gate("account")).unwrap())).await;
    assert_eq!(statuses_of(&client, "alice", 2).await, [200, 429]);
    assert_eq!(limits.left("address", "127.0.0.1"), 2);
}

#[tokio::test]
async fn a_request_costs_what_a_function_says() {
    let limits = Limits::of(LOGIN);
    let length = |request: &dyn sluicegate::http::RequestView| {
        request.query().map_or(1, |query| query.parse().unwrap_or(u64::MAX))
    };
    let layer = LimitLayer::new(limits.gate("address")).cost(length);
    let layer = layer.and(limits.gate("account"), fixed("all")).unwrap();
    let client = site(layer).await;
    assert_eq!(client.get("/?3").await.status, 200);
    assert_eq!((limits.left("address", "127.0.0.1"), limits.left("account", "all")), (0, 1));
    assert_eq!(client.get("/").await.status, 429);
    // A part that costs nothing isn't checked, and the other limit is.
    assert_eq!(client.get("/?0").await.status, 200);
    assert_eq!(limits.left("account", "all"), 0);
    // No such cost is ever admitted, so a retry is useless.
    for absurd in ["/?4", "/?18446744073709551615", "/?99999999999999999999999"] {
        let never = client.get(absurd).await;
        assert_eq!((never.status, never.field("retry-after")), (429, None), "{absurd}");
    }
}

#[tokio::test]
async fn some_requests_pass_unasked() {
    let limits = Limits::with("fixed_window 1/h");
    let layer = LimitLayer::new(limits.api())
        .skip_if(|request| request.query() == Some("health"))
        .skip_if(|request| request.method() == "OPTIONS");
    let client = site(layer).await;
    for _ in 0..3 {
        let reply = client.get("/?health").await;
        assert_eq!((reply.status, reply.limit_fields().len()), (200, 0));
        assert_ne!(client.send("OPTIONS", "/", &[]).await.status, 429);
    }
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_request_without_a_key_is_treated_as_was_said() {
    for (policy, alone, also_others) in [
        (None, [200, 429], [200, 429]),
        (Some(OnMissingKey::Shared), [200, 429], [200, 429]),
        (Some(OnMissingKey::Refuse), [400, 400], [200, 429]),
        (Some(OnMissingKey::Skip), [200, 200], [200, 429]),
    ] {
        let limits = Limits::with("fixed_window 1/h");
        let mut layer = LimitLayer::new(limits.api()).key(key("header:x-account"));
        if let Some(policy) = policy {
            layer = layer.on_missing_key(policy);
        }
        let client = site(layer).await;
        assert_eq!(client.statuses("/", 2).await, alone, "{policy:?}");
        assert_eq!(statuses_of(&client, "alice", 2).await, also_others, "{policy:?}");
    }
}

#[tokio::test]
async fn a_refusal_says_what_the_request_lacks() {
    let limits = Limits::of(
        "limits: {api: {key: 'header:x-account', missing_key: refuse, policies: [gcra 1/h]}}",
    );
    let client = site(LimitLayer::new(limits.api())).await;
    for (fields, said) in [
        (&[][..], "the request has no header field `x-account`"),
        (&[("x-account", "")], "the request has no header field `x-account`"),
        (
            &[("x-account", "a"), ("x-account", "b")],
            "the request has more than one header field `x-account`",
        ),
    ] {
        let reply = client.get_with("/", fields).await;
        assert_eq!(reply.status, 400);
        assert_eq!(reply.field("content-type").as_deref(), Some("application/problem+json"));
        assert!(reply.body.contains(said), "{}", reply.body);
    }
}

#[tokio::test]
async fn no_expression_on_what_is_absent_makes_a_server_error() {
    for component in
        ["user", "route", "header:x-none", "cookie:none", "query:none", "user+header:x-none"]
    {
        let limits = Limits::with("fixed_window 1/h");
        // Outside of the router, the route isn't known yet.
        let layer = LimitLayer::new(limits.api()).key(key(component));
        let router = Router::new().fallback_service(tower::Layer::layer(
            &layer,
            Router::new().route("/", get(async || "hello")),
        ));
        let client = serve(router).await;
        assert_eq!(client.statuses("/", 2).await, [200, 429], "{component}");
    }
}

#[tokio::test]
async fn a_key_can_be_made_by_a_function_and_of_several_parts() {
    let limits = Limits::with("fixed_window 1/h");
    let tenant = key_fn(|request| {
        let host = request.authority().or(request.query())?;
        Some(Key::new(host.split('.').next()?))
    });
    let client = site(LimitLayer::new(limits.api()).key(tenant.and(key("method")))).await;
    assert_eq!(client.get("/?acme.example").await.status, 200);
    assert_eq!(client.get("/?acme.test").await.status, 429);
    assert_eq!(client.get("/?other.example").await.status, 200);
    assert_eq!(client.send("HEAD", "/?acme.example", &[]).await.status, 200);
}

#[tokio::test]
async fn those_on_a_list_pass_or_are_forbidden() {
    let limits = Limits::of(
        "limits: {api: {policies: [fixed_window 1/h], allow: [127.0.0.2], block: [127.0.0.3/32]}}",
    );
    let client = site(LimitLayer::new(limits.api())).await;
    assert_eq!(client.at([127, 0, 0, 2]).statuses("/", 3).await, [200; 3]);
    let blocked = client.at([127, 0, 0, 3]).get("/").await;
    assert_eq!((blocked.status, blocked.field("retry-after")), (403, None));
    assert!(blocked.body.contains("\"status\":403"), "{}", blocked.body);
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_denial_is_a_problem_that_no_cache_keeps() {
    let limits = Limits::with("fixed_window 1/min as minute");
    let client = site(LimitLayer::new(limits.api())).await;
    client.get("/").await;
    let denied = client.get("/").await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.field("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!(denied.field("cache-control").as_deref(), Some("no-store"));
    assert_eq!(
        denied.body,
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"The request exceeds its quota. Try again in 1 min.","violated-policies":["minute"]}"#
    );
    limits.pass(59);
    assert_eq!(client.get("/").await.field("retry-after").as_deref(), Some("1"));
    limits.pass(1);
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test]
async fn a_denial_can_look_as_one_likes() {
    let limits = Limits::with("fixed_window 1/min");
    let layer = LimitLayer::new(limits.api()).denied_response(|denied, standard| {
        assert_eq!(denied.reason(), DeniedReason::Limited);
        let (mut parts, _) = standard.into_parts();
        parts.status = StatusCode::IM_A_TEAPOT;
        parts.headers.insert("content-type", "text/plain".parse().unwrap());
        Response::from_parts(parts, Body::from(denied.to_string()))
    });
    let client = site(layer).await;
    client.get("/").await;
    let denied = client.get("/").await;
    assert_eq!((denied.status, denied.field("retry-after").as_deref()), (418, Some("60")));
    assert_eq!(denied.field("content-type").as_deref(), Some("text/plain"));
    assert_eq!(denied.body, "limit `api` is exhausted: retry in 1 min");
}

#[tokio::test]
async fn a_custom_denial_is_told_why() {
    let limits = Limits::of(
        "limits: {api: {key: user, missing_key: refuse, policies: [gcra 1/h], block: [mallory]}}",
    );
    let layer = LimitLayer::new(limits.api())
        .denied_response(|denied, standard| standard.map(|_| Body::from(format!("{denied}"))));
    let router =
        Router::new().route("/", get(async || "hello")).layer(layer).layer(from_fn(log_in));
    let client = serve(router).await;
    let said = async |user: &str| client.get_with("/", &[("x-user", user)]).await.body;
    assert_eq!(said("").await, "the request lacks a part of the key of limit `api`");
    assert_eq!(said("mallory").await, "the key is blocked");
}

/// Identifies the user, as an application would.
async fn log_in(mut request: Request, next: Next) -> Response {
    let user = request.headers().get("x-user").map(User::new);
    if let Some(user) = user {
        request.extensions_mut().insert(user);
    }
    next.run(request).await.into_response()
}

#[tokio::test]
async fn handlers_know_whom_they_run_for() {
    let limits = Limits::with("fixed_window 9/h");
    let router = |layer| {
        let router: Router = Router::new().route("/", get(who)).layer(layer);
        router.layer(from_fn(log_in))
    };
    let client = serve(router(LimitLayer::new(limits.api()))).await;
    let body = client.get_with("/", &[("x-user", "alice")]).await.body;
    assert_eq!(body, "Some(\"127.0.0.1\") Some(\"alice\")");
    assert_eq!(client.get("/").await.body, "Some(\"127.0.0.1\") None");
    // A skipped request has a caller too.
    let skipping = LimitLayer::new(limits.api()).skip_if(|_| true);
    assert_eq!(serve(router(skipping)).await.get("/").await.body, "Some(\"127.0.0.1\") None");
    let silent = LimitLayer::new(limits.api()).caller(sluicegate::config::Switch::Off);
    assert_eq!(serve(router(silent)).await.get("/").await.body, "None None");
}
