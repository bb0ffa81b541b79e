//! Responses as a client sees them.

use actix_web::http::StatusCode;
use actix_web::http::header::{CONTENT_TYPE, HeaderValue};
use actix_web::{HttpResponse, HttpResponseBuilder, web};
use sluicegate::error::DeniedReason;
use sluicegate::http::FieldFormat;
use sluicegate_actix::LimitMiddleware;
use sluicegate_testkit::servers::Server;

use super::serve;
use super::web::{Client, Limits, Reply};

fn site(limit: LimitMiddleware) -> Client {
    serve(limit, |config| {
        config.route("/", web::get().to(async || "hello"));
        let away = async || HttpResponse::SeeOther().insert_header(("location", "/")).finish();
        config.route("/away", web::get().to(away));
        config.route("/same", web::get().to(async || HttpResponse::NotModified().finish()));
        let own = async || HttpResponse::Ok().insert_header(("ratelimit", "\"own\";r=1")).finish();
        config.route("/own", web::get().to(own));
        let fails = async || Err::<&str, _>(actix_web::error::ErrorConflict("no"));
        config.route("/fails", web::get().to(fails));
        let busy = async || {
            HttpResponse::ServiceUnavailable().insert_header(("retry-after", "5")).finish()
        };
        config.route("/busy", web::get().to(busy));
    })
}

fn told(reply: &Reply) -> Vec<String> {
    reply.limit_fields().iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|&text| text.to_owned()).collect()
}

#[tokio::test]
async fn fields_of_every_format() {
    for (format, first, denied) in [
        (
            FieldFormat::Draft11,
            &["ratelimit: \"minute\";r=0;t=60", "ratelimit-policy: \"minute\";q=1;w=60"][..],
            3,
        ),
        (
            FieldFormat::DraftNext,
            &[
                "ratelimit: \"minute\";a=0;w=60;c=1",
                "ratelimit-partition: \"minute\";sluicegate-ip",
                "ratelimit-policy: \"minute\";q=1;w=60",
            ],
            4,
        ),
        (
            FieldFormat::Draft03,
            &[
                "ratelimit-limit: 1, 1;w=60;name=\"minute\"",
                "ratelimit-remaining: 0",
                "ratelimit-reset: 60",
            ],
            4,
        ),
        (
            FieldFormat::XRateLimit,
            &["x-ratelimit-limit: 1", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 60"],
            4,
        ),
        (FieldFormat::None, &[], 1),
    ] {
        let limits = Limits::with("fixed_window 1/min as minute");
        let client = site(LimitMiddleware::new(limits.api()).fields(format));
        let reply = client.get("/").await;
        assert_eq!((reply.status, told(&reply)), (200, owned(first)));
        let reply = client.get("/").await;
        assert_eq!((reply.status, told(&reply).len()), (429, denied), "{reply:?}");
        assert_eq!(reply.field("retry-after").as_deref(), Some("60"));
    }
}

#[tokio::test]
async fn fields_stand_next_to_those_that_are_there_and_on_no_redirection() {
    let limits = Limits::with("fixed_window 9/h as hour");
    let client = site(LimitMiddleware::new(limits.api()));
    assert_eq!(told(&client.get("/away").await).len(), 0);
    let same = client.get("/same").await;
    let policy = "ratelimit-policy: \"hour\";q=9;w=3600";
    assert_eq!(same.status, 304);
    assert_eq!(told(&same), owned(&["ratelimit: \"hour\";r=7;t=3600", policy]));
    let own = client.get("/own").await.field("ratelimit");
    assert_eq!(own.as_deref(), Some("\"own\";r=1, \"hour\";r=6;t=3600"));
    let failed = client.get("/fails").await;
    assert_eq!((failed.status, told(&failed).len()), (409, 2));
    let busy = client.get("/busy").await;
    assert_eq!(busy.field("ratelimit").as_deref(), Some("\"hour\";r=4;t=3600"));
    assert_eq!(busy.field("retry-after").as_deref(), Some("5"));
}

#[tokio::test]
async fn a_denial_is_a_problem_or_what_one_likes() {
    let limits = Limits::with("fixed_window 1/min as minute");
    let limit = LimitMiddleware::new(limits.api());
    let client = site(limit.clone());
    client.get("/").await;
    let denied = client.get("/").await;
    assert_eq!(denied.field("content-type").as_deref(), Some("application/problem+json"));
    assert_eq!(denied.field("cache-control").as_deref(), Some("no-store"));
    assert!(denied.body.contains(r#""violated-policies":["minute"]"#), "{}", denied.body);

    let client = site(limit.denied_response(|denied, standard| {
        assert_eq!(denied.reason(), DeniedReason::Limited);
        let mut response = HttpResponseBuilder::new(StatusCode::IM_A_TEAPOT);
        for (name, value) in standard.headers().iter().filter(|(name, _)| *name != CONTENT_TYPE) {
            response.append_header((name.clone(), value.clone()));
        }
        response.insert_header((CONTENT_TYPE, HeaderValue::from_static("text/plain")));
        response.body(denied.to_string())
    }));
    let denied = client.get("/").await;
    assert_eq!((denied.status, denied.field("retry-after").as_deref()), (418, Some("60")));
    assert_eq!(denied.body, "limit `api` is exhausted: retry in 1 min");
    limits.pass(60);
    assert_eq!(client.get("/").await.status, 200);
}

#[tokio::test]
async fn a_call_of_grpc_is_denied_in_its_way_and_a_blocked_client_forbidden() {
    let limits = Limits::of("limits: {api: {policies: [gcra 1/h], block: [127.0.0.3]}}");
    let client = site(LimitMiddleware::new(limits.api()));
    client.get("/").await;
    let reply = client.get_with("/", &[("content-type", "application/grpc")]).await;
    assert_eq!((reply.status, reply.field("grpc-status").as_deref()), (200, Some("8")));
    assert_eq!(client.at([127, 0, 0, 3]).get("/").await.status, 403);
}

#[tokio::test]
async fn the_limit_says_what_happens_when_the_store_is_gone() {
    for (on_failure, status) in [("error", 503), ("deny", 503), ("allow", 200)] {
        let mut server = Server::start().unwrap();
        let config = format!(
            "store: \"{}\"\nlimits: {{api: {{deadline: 5s, policies: [fixed_window 2/h], on_store_failure: {on_failure}}}}}",
            server.url()
        );
        let config = sluicegate::Config::parse(&config, "limits.yaml").unwrap();
        let registry = sluicegate::Registry::open(&config).unwrap();
        let client = site(LimitMiddleware::new(registry.gate("api")));
        assert_eq!(client.statuses("/", 3).await, [200, 200, 429]);
        server.kill().unwrap();
        let reply = client.get("/").await;
        assert_eq!(reply.status, status, "{on_failure}");
        let kind = "http-problem-types#temporary-reduced-capacity";
        assert_eq!(reply.body.contains(kind), status == 503, "{}", reply.body);
    }
}
