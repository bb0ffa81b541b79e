//! Limited handlers of axum, which return a denial as their error.

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use sluicegate::{Ask, Config, Registry, limit};
use sluicegate_testkit::servers::Server;
use sluicegate_tower::{Denied, LimitLayer};

use super::serve;
use super::web::{Client, Limits, Reply};

#[limit("word", key = "{word}", registry = limits)]
async fn of_the_registry(
    State(limits): State<Registry>,
    Path(word): Path<String>,
) -> Result<String, Denied> {
    Ok(word)
}

/// Refuses all requests unless a layer sets the address.
#[limit("address", key = ip, missing = refuse, registry = limits)]
async fn by_address(State(limits): State<Registry>) -> Result<&'static str, Denied> {
    Ok("hello")
}

/// Calls a limited function, without being limited itself.
async fn inner(State(limits): State<Registry>) -> Result<&'static str, Denied> {
    #[limit("inner", key = "k", registry = limits)]
    fn work(limits: &Registry) -> Result<(), sluicegate::Denied> {
        Ok(())
    }
    work(&limits)?;
    Ok("done")
}

/// Takes an estimate, and settles the difference when the usage is known.
async fn spend(
    State(limits): State<Registry>,
    Path((tenant, used)): Path<(String, u64)>,
) -> Result<String, Denied> {
    const ESTIMATE: u64 = 3;
    let llm = limits.gate("llm");
    let tokens = |count| Ask::new(&tenant).cost_of("tokens", count);
    llm.enforce(tokens(ESTIMATE)).await?;
    if used > ESTIMATE {
        let _ = llm.charge(tokens(used - ESTIMATE)).await?;
    } else {
        let _ = llm.refund(tokens(ESTIMATE - used)).await?;
    }
    Ok(format!("{:?}", llm.peek(tokens(1)).await?.remaining()))
}

/// Charges a policy that doesn't exist.
async fn mistaken(State(limits): State<Registry>) -> Result<&'static str, Denied> {
    let _ = limits.gate("llm").charge(Ask::new("acme").cost_of("token", 1)).await?;
    Ok("charged")
}

fn router(limits: Registry) -> Router {
    Router::new()
        .route("/spend/{tenant}/{used}", get(spend))
        .route("/mistaken", get(mistaken))
        .route("/word/{word}", get(of_the_registry))
        .route("/address", get(by_address))
        .route("/inner", get(inner))
        .with_state(limits)
}

const LIMITS: &str = "
limits:
  word: {policies: [fixed_window 1/h as hour, gcra 9/s], block: [forbidden]}
  address: {policies: [fixed_window 1/h]}
  inner: {policies: [fixed_window 1/h]}
  llm: {policies: [fixed_window 9/h as tokens], on_store_failure: allow, deadline: 5s}
";

fn told(reply: &Reply) -> Vec<String> {
    reply.limit_fields().iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

#[tokio::test]
async fn a_denial_is_the_response_that_the_layer_would_send() {
    let limits = Limits::of(LIMITS);
    let handler = serve(router(limits.registry.clone())).await;
    assert_eq!(handler.get("/word/tree").await.body, "tree");
    let own = handler.get("/word/tree").await;
    // The layer checks the limit with the same key.
    let layer = LimitLayer::new(limits.gate("word")).key(sluicegate::http::fixed("tree"));
    let behind: Client = serve(Router::new().route("/", get(async || "hello")).layer(layer)).await;
    let layered = behind.get("/").await;
    assert_eq!((own.status, &own.body), (429, &layered.body));
    assert_eq!(own.field("retry-after").as_deref(), Some("3600"));
    assert_eq!(own.field("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!((told(&own), told(&own).len()), (told(&layered), 3));
    assert!(own.body.contains(r#""violated-policies":["hour"]"#), "{}", own.body);

    assert_eq!(handler.statuses("/inner", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_blocked_key_is_403_and_a_missing_one_400() {
    let limits = Limits::of(LIMITS);
    let client = serve(router(limits.registry.clone())).await;
    let blocked = client.get("/word/forbidden").await;
    assert_eq!((blocked.status, told(&blocked).len()), (403, 0));
    assert!(blocked.body.contains(r#""title":"Forbidden""#), "{}", blocked.body);
    let missing = client.get("/address").await;
    assert_eq!((missing.status, told(&missing).len()), (400, 0));
    assert!(missing.body.contains("can't be assigned to a quota"), "{}", missing.body);
    // A layer around it knows the address.
    let around = LimitLayer::new(limits.gate("inner"));
    let client = serve(router(limits.registry.clone()).layer(around)).await;
    assert_eq!(client.get("/address").await.status, 200);
}

#[tokio::test]
async fn the_fields_are_those_of_the_configuration() {
    for (format, wanted) in [
        ("none", &["retry-after: 3600"][..]),
        (
            "x-ratelimit",
            &[
                "retry-after: 3600",
                "x-ratelimit-limit: 1",
                "x-ratelimit-remaining: 0",
                "x-ratelimit-reset: 3600",
            ],
        ),
    ] {
        let limits = Limits::of(&format!("http: {{fields: {format}}}\n{LIMITS}"));
        let client = serve(router(limits.registry.clone())).await;
        assert_eq!(client.get("/word/tree").await.status, 200);
        assert_eq!(told(&client.get("/word/tree").await), wanted);
    }
}

#[tokio::test]
async fn a_store_that_failed_is_503() {
    for on_failure in ["error", "deny"] {
        let mut server = Server::start().unwrap();
        let config = format!("store: \"{}\"\n{LIMITS}", server.url());
        let word = format!("word: {{deadline: 5s, on_store_failure: {on_failure}, ");
        let config = Config::parse(&config.replace("word: {", &word), "limits.yaml").unwrap();
        let client = serve(router(Registry::open(&config).unwrap())).await;
        assert_eq!(client.statuses("/word/tree", 2).await, [200, 429]);
        server.kill().unwrap();
        let failed = client.get("/word/tree").await;
        assert_eq!(failed.status, 503, "{on_failure}");
        assert_eq!((failed.field("ratelimit"), failed.field("retry-after")), (None, None));
        let kind = "http-problem-types#temporary-reduced-capacity";
        assert!(failed.body.contains(kind), "{}", failed.body);
        assert!(!failed.body.contains("127.0.0.1"), "{}", failed.body);
    }
}

#[tokio::test]
async fn a_handler_enforces_and_settles_the_difference() {
    let limits = Limits::of(LIMITS);
    let client = serve(router(limits.registry.clone())).await;
    assert_eq!(client.get("/spend/acme/1").await.body, "Some(8)");
    assert_eq!(client.get("/spend/acme/5").await.body, "Some(3)");
    assert_eq!(client.get("/spend/acme/8").await.body, "Some(0)", "into debt");
    let denied = client.get("/spend/acme/1").await;
    assert_eq!((denied.status, denied.field("ratelimit").is_some()), (429, true));
    assert_eq!(client.get("/spend/oscorp/3").await.body, "Some(6)");
    // No client learns which names exist.
    let mistaken = client.get("/mistaken").await;
    assert_eq!((mistaken.status, told(&mistaken).len()), (500, 0));
    assert_eq!(mistaken.field("content-type").as_deref(), Some("application/problem+json"));
    assert!(!mistaken.body.contains("llm") && !mistaken.body.contains("token"));
}

/// The limit lets requests pass after its store has failed, but the used units can't be charged.
#[tokio::test]
async fn a_charge_that_the_store_does_not_take_is_503() {
    let mut server = Server::start().unwrap();
    let config = Config::parse(&format!("store: \"{}\"\n{LIMITS}", server.url()), "limits.yaml");
    let client = serve(router(Registry::open(&config.unwrap()).unwrap())).await;
    assert_eq!(client.get("/spend/acme/4").await.body, "Some(5)");
    server.kill().unwrap();
    let failed = client.get("/spend/acme/4").await;
    assert_eq!((failed.status, told(&failed).len()), (503, 0));
    let kind = "http-problem-types#temporary-reduced-capacity";
    assert!(failed.body.contains(kind), "{}", failed.body);
    assert!(!failed.body.contains("127.0.0.1"), "{}", failed.body);
}
