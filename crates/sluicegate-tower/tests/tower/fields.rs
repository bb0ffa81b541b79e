//! The limits as a client sees them in response fields.

use axum::Router;
use axum::http::StatusCode;
use axum::response::Redirect;
use axum::routing::get;
use sluicegate::http::{FieldFormat, OnMissingKey};
use sluicegate_tower::LimitLayer;

use super::serve;
use super::web::{Client, Limits, Reply, key};

async fn site(limits: &Limits, format: FieldFormat) -> Client {
    let layer = LimitLayer::new(limits.api()).fields(format);
    let router = Router::new()
        .route("/", get(async || "hello"))
        .route("/away", get(async || Redirect::to("/")))
        .route("/same", get(async || StatusCode::NOT_MODIFIED))
        .layer(layer);
    serve(router).await
}

fn told(reply: &Reply) -> Vec<String> {
    reply.limit_fields().iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Returns the fields of an admitted and of a denied request.
async fn of(format: FieldFormat) -> (Vec<String>, Vec<String>) {
    let limits = Limits::with("token_bucket 1/s burst 2 as burst, fixed_window 2/h as hour");
    let client = site(&limits, format).await;
    let first = client.get("/").await;
    assert_eq!(client.get("/").await.status, 200);
    let denied = client.get("/").await;
    assert_eq!((first.status, denied.status), (200, 429));
    (told(&first), told(&denied))
}

#[tokio::test]
async fn draft_11() {
    let (first, denied) = of(FieldFormat::Draft11).await;
    let policies = "ratelimit-policy: \"burst\";q=2;w=2, \"hour\";q=2;w=3600";
    assert_eq!(first, ["ratelimit: \"burst\";r=1;t=1, \"hour\";r=1;t=3600", policies]);
    assert_eq!(
        denied,
        ["ratelimit: \"burst\";r=0;t=1, \"hour\";r=0;t=3600", policies, "retry-after: 3600"]
    );
}

#[tokio::test]
async fn draft_next() {
    let (first, denied) = of(FieldFormat::DraftNext).await;
    let policies = "ratelimit-policy: \"burst\";q=2;w=2, \"hour\";q=2;w=3600";
    let partition = "ratelimit-partition: \"burst\";sluicegate-ip, \"hour\";sluicegate-ip";
    assert_eq!(
        first,
        ["ratelimit: \"burst\";a=1;w=1;c=1, \"hour\";a=1;w=3600;c=1", partition, policies]
    );
    assert_eq!(
        denied,
        [
            "ratelimit: \"burst\";a=0;w=1;c=1, \"hour\";a=0;w=3600;c=1",
            partition,
            policies,
            "retry-after: 3600"
        ]
    );
}

#[tokio::test]
async fn draft_03() {
    let (first, denied) = of(FieldFormat::Draft03).await;
    let limit = "ratelimit-limit: 2, 2;w=2;name=\"burst\", 2;w=3600;name=\"hour\"";
    assert_eq!(first, [limit, "ratelimit-remaining: 1", "ratelimit-reset: 3600"]);
    assert_eq!(
        denied,
        [limit, "ratelimit-remaining: 0", "ratelimit-reset: 3600", "retry-after: 3600"]
    );
}

#[tokio::test]
async fn x_ratelimit() {
    let (first, denied) = of(FieldFormat::XRateLimit).await;
    let limit = "x-ratelimit-limit: 2";
    assert_eq!(first, [limit, "x-ratelimit-remaining: 1", "x-ratelimit-reset: 3600"]);
    assert_eq!(
        denied,
        ["retry-after: 3600", limit, "x-ratelimit-remaining: 0", "x-ratelimit-reset: 3600"]
    );
}

#[tokio::test]
async fn x_ratelimit_unix_counts_from_the_epoch() {
    let (first, _) = of(FieldFormat::XRateLimitUnix).await;
    assert_eq!(first[..2], ["x-ratelimit-limit: 2", "x-ratelimit-remaining: 1"]);
    let reset: u64 = first[2].strip_prefix("x-ratelimit-reset: ").unwrap().parse().unwrap();
    // The reset is a time of the wall clock, the only clock that clients share: from 2025 to 2100.
    assert!((1_735_689_600..4_102_444_800).contains(&reset), "{reset}");
}

#[tokio::test]
async fn none_but_when_to_come_back() {
    let (first, denied) = of(FieldFormat::None).await;
    assert!(first.is_empty(), "{first:?}");
    assert_eq!(denied, ["retry-after: 3600"]);
}

#[tokio::test]
async fn the_configuration_says_which_unless_the_layer_does() {
    let limits = Limits::of("http: {fields: draft-03}\nlimits: {api: {policies: [gcra 9/h]}}");
    let router = |layer| Router::new().route("/", get(async || "hello")).layer(layer);
    let configured = serve(router(LimitLayer::new(limits.api()))).await;
    assert!(configured.get("/").await.field("ratelimit-limit").is_some());
    let told = LimitLayer::new(limits.api()).fields(FieldFormat::Draft11);
    let reply = serve(router(told)).await.get("/").await;
    assert!(reply.field("ratelimit-limit").is_none() && reply.field("ratelimit").is_some());
}

#[tokio::test]
async fn no_redirection_holds_a_client_up() {
    let limits = Limits::with("fixed_window 2/h");
    let client = site(&limits, FieldFormat::Draft11).await;
    let reply = client.get("/away").await;
    assert_eq!((reply.status, reply.limit_fields().len()), (303, 0));
    assert_eq!(client.get("/").await.limit_fields().len(), 2);
    let denied = client.get("/away").await;
    assert_eq!((denied.status, denied.limit_fields().len()), (429, 3));
}

/// The response redirects no client, and was charged like any other.
#[tokio::test]
async fn a_response_that_says_not_modified_has_fields() {
    let limits = Limits::with("fixed_window 9/h");
    let client = site(&limits, FieldFormat::Draft11).await;
    let reply = client.get("/same").await;
    assert_eq!(reply.status, 304);
    let policy = "ratelimit-policy: \"fixed_window\";q=9;w=3600";
    assert_eq!(told(&reply), ["ratelimit: \"fixed_window\";r=8;t=3600", policy]);
}

#[tokio::test]
async fn clones_of_a_layer_with_other_keys_tell_other_partitions() {
    let limits = Limits::with("fixed_window 9/h");
    let base = LimitLayer::new(limits.api()).fields(FieldFormat::DraftNext);
    let key = |text: &str| text.parse::<sluicegate::http::KeyExpression>().unwrap();
    let router = Router::new()
        .route("/a", get(async || "a").layer(base.clone().key(key("method"))))
        .route("/b", get(async || "b").layer(base.key(key("host"))));
    let client = serve(router).await;
    let partition = async |path| client.get(path).await.field("ratelimit-partition").unwrap();
    assert_eq!(partition("/a").await, "\"fixed_window\";method");
    assert_eq!(partition("/b").await, "\"fixed_window\";sluicegate-host");
}

#[tokio::test]
async fn a_policy_has_one_name_whichever_of_the_limits_are_asked() {
    let limits = Limits::of(
        "limits: {address: {policies: [fixed_window 3/h], allow: [127.0.0.2]}, account: {policies: [fixed_window 2/h]}}",
    );
    let free = |request: &dyn sluicegate::http::RequestView| u64::from(request.path() != "/free");
    let layer = LimitLayer::new(limits.gate("address"))
        .cost(free)
        .and(limits.gate("account"), key("header:x-account"))
        .unwrap();
    let layer = layer.on_missing_key(OnMissingKey::Skip);
    let client = serve(Router::new().fallback(get(async || "hello")).layer(layer)).await;
    let (address, account) =
        ("\"address/fixed_window\";q=3;w=3600", "\"account/fixed_window\";q=2;w=3600");
    let policies = async |client: &Client, path, account| {
        let reply = client.get_with(path, &[("x-account", account)]).await;
        (reply.status, reply.field("ratelimit-policy").unwrap())
    };
    let both = format!("{address}, {account}");
    assert_eq!(policies(&client, "/", "alice").await, (200, both));
    assert_eq!(policies(&client, "/free", "alice").await, (200, account.to_owned()));
    let listed = client.at([127, 0, 0, 2]);
    assert_eq!(policies(&listed, "/", "bob").await, (200, account.to_owned()));
    let nobody = client.get("/").await;
    assert_eq!(nobody.field("ratelimit-policy").as_deref(), Some(address));
    // A denial names the policy in this way too.
    let denied = client.get_with("/free", &[("x-account", "alice")]).await;
    assert_eq!(denied.status, 429);
    let violated = r#""violated-policies":["account/fixed_window"]"#;
    assert!(denied.body.contains(violated), "{}", denied.body);
}

#[tokio::test]
async fn a_shadow_is_never_told() {
    let limits = Limits::with("fixed_window 9/h as hour, fixed_window 1/h shadow as secret");
    let client = site(&limits, FieldFormat::Draft11).await;
    for _ in 0..3 {
        let reply = client.get("/").await;
        assert_eq!(reply.status, 200);
        assert!(!format!("{:?}", reply.headers).contains("secret"), "{:?}", reply.headers);
    }
}
