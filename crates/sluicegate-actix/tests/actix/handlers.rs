//! Limited handlers, which return a denial as their error.

use actix_web::{App, HttpServer, get, web};
use sluicegate::{Ask, Config, Registry, limit};
use sluicegate_actix::Denied;
use sluicegate_testkit::servers::Server;

use super::web::{Client, Limits, Reply};

#[limit("word", key = "{word}", registry = **limits)]
async fn of_the_registry(
    limits: web::Data<Registry>,
    word: web::Path<String>,
) -> Result<String, Denied> {
    Ok(word.into_inner())
}

/// Without a middleware around it, the address is unknown.
#[get("/address")]
#[limit("address", key = ip, missing = refuse, registry = **limits)]
async fn by_address(limits: web::Data<Registry>) -> Result<&'static str, Denied> {
    Ok("hello")
}

/// Calls a limited function, without being limited itself.
async fn inner(limits: web::Data<Registry>) -> Result<&'static str, Denied> {
    #[limit("inner", key = "k", registry = limits)]
    fn work(limits: &Registry) -> Result<(), sluicegate::Denied> {
        Ok(())
    }
    work(&limits)?;
    Ok("done")
}

/// Takes an estimate, and settles the difference when the usage is known.
async fn spend(
    limits: web::Data<Registry>,
    path: web::Path<(String, u64)>,
) -> Result<String, Denied> {
    const ESTIMATE: u64 = 3;
    let (tenant, used) = path.into_inner();
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
async fn mistaken(limits: web::Data<Registry>) -> Result<&'static str, Denied> {
    let _ = limits.gate("llm").charge(Ask::new("acme").cost_of("token", 1)).await?;
    Ok("charged")
}

const LIMITS: &str = "
limits:
  word: {policies: [fixed_window 1/h as hour, gcra 9/s], block: [forbidden]}
  address: {policies: [fixed_window 1/h]}
  inner: {policies: [fixed_window 1/h]}
  llm: {policies: [fixed_window 9/h as tokens], on_store_failure: allow, deadline: 5s}
";

fn serve(limits: Registry) -> Client {
    let application = move || {
        App::new()
            .app_data(web::Data::new(limits.clone()))
            .route("/word/{word}", web::get().to(of_the_registry))
            .route("/inner", web::get().to(inner))
            .route("/spend/{tenant}/{used}", web::get().to(spend))
            .route("/mistaken", web::get().to(mistaken))
            .service(by_address)
    };
    let server = HttpServer::new(application).workers(1).disable_signals();
    let server = server.bind(("127.0.0.1", 0)).unwrap();
    let site = server.addrs()[0];
    tokio::spawn(server.run());
    Client::of(site)
}

fn told(reply: &Reply) -> Vec<String> {
    reply.limit_fields().iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

#[tokio::test]
async fn a_denial_is_429_with_fields_and_a_problem() {
    let limits = Limits::of(LIMITS);
    let client = serve(limits.registry.clone());
    assert_eq!(client.get("/word/tree").await.body, "tree");
    let denied = client.get("/word/tree").await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.field("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!(denied.field("cache-control").as_deref(), Some("no-store"));
    assert!(denied.body.contains(r#""violated-policies":["hour"]"#), "{}", denied.body);
    assert_eq!(denied.field("retry-after").as_deref(), Some("3600"));
    assert_eq!(
        denied.field("ratelimit-policy").as_deref(),
        Some("\"hour\";q=1;w=3600, \"gcra\";q=9;w=1")
    );
    assert!(denied.field("ratelimit").unwrap().starts_with("\"hour\";r=0;t=3600, \"gcra\";r="));
    assert_eq!(client.statuses("/inner", 2).await, [200, 429]);
}

#[tokio::test]
async fn a_blocked_key_is_403_and_a_missing_one_400_and_fields_are_the_configuration_s() {
    let limits = Limits::of(&format!("http: {{fields: none}}{LIMITS}"));
    let client = serve(limits.registry.clone());
    let blocked = client.get("/word/forbidden").await;
    assert_eq!((blocked.status, told(&blocked).len()), (403, 0));
    let missing = client.get("/address").await;
    assert_eq!((missing.status, told(&missing).len()), (400, 0));
    assert_eq!(client.get("/word/tree").await.status, 200);
    assert_eq!(told(&client.get("/word/tree").await), ["retry-after: 3600"]);
}

#[tokio::test]
async fn a_store_that_failed_is_503() {
    let mut server = Server::start().unwrap();
    let config = format!("store: \"{}\"\n{LIMITS}", server.url());
    let config = config.replace("word: {", "word: {deadline: 5s, ");
    let config = Config::parse(&config, "limits.yaml").unwrap();
    let client = serve(Registry::open(&config).unwrap());
    assert_eq!(client.statuses("/word/tree", 2).await, [200, 429]);
    server.kill().unwrap();
    let failed = client.get("/word/tree").await;
    assert_eq!((failed.status, told(&failed).len()), (503, 0));
    let kind = "http-problem-types#temporary-reduced-capacity";
    assert!(failed.body.contains(kind), "{}", failed.body);
}

#[tokio::test]
async fn a_handler_enforces_and_settles_the_difference() {
    let limits = Limits::of(LIMITS);
    let client = serve(limits.registry.clone());
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
    let client = serve(Registry::open(&config.unwrap()).unwrap());
    assert_eq!(client.get("/spend/acme/4").await.body, "Some(5)");
    server.kill().unwrap();
    let failed = client.get("/spend/acme/4").await;
    assert_eq!((failed.status, told(&failed).len()), (503, 0));
    let kind = "http-problem-types#temporary-reduced-capacity";
    assert!(failed.body.contains(kind), "{}", failed.body);
    assert!(!failed.body.contains("127.0.0.1"), "{}", failed.body);
}
