//! Charges after the response.

use std::future::ready;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

use actix_web::dev::{Service as _, ServiceRequest, ServiceResponse};
use actix_web::error::InternalError;
use actix_web::http::StatusCode;
use actix_web::test::{TestRequest, init_service};
use actix_web::{App, HttpResponse, web};
use sluicegate::Gate;
use sluicegate_actix::{Charge, LimitMiddleware};
use sluicegate_testkit::servers::Server;

use super::serve;
use super::web::Limits;

const KEY: &str = "127.0.0.1";

#[tokio::test]
async fn a_response_costs_what_its_handler_says() {
    let limits = Limits::with("token_bucket 100/h burst 100 as tokens");
    let limit = LimitMiddleware::new(limits.api()).charge_after(|response| response.charge());
    let client = serve(limit, |config| {
        let answer = async |units: web::Path<u64>| {
            let mut response = HttpResponse::Ok().body("words");
            response.extensions_mut().insert(Charge::from(*units));
            response
        };
        config.route("/{units}", web::get().to(answer));
    });
    let first = client.get("/40").await;
    assert_eq!(first.field("ratelimit").as_deref(), Some("\"tokens\";r=60;t=1440"));
    assert_eq!(client.statuses("/60", 2).await, [200, 429]);
    limits.pass(36);
    assert_eq!(client.statuses("/0", 2).await, [200, 200]);
}

/// A gateway to a language model: each request costs one unit before its response, and its tokens
/// after it. This holds with and without a store that has to be awaited.
#[tokio::test]
async fn what_a_cost_names_is_taken_before_the_response_and_what_the_handler_names_after_it() {
    let server = Server::start().unwrap();
    for store in ["memory:".to_owned(), server.url()] {
        let config = format!(
            "store: \"{store}\"\nlimits: {{llm: {{deadline: 5s, policies: [fixed_window 3/h as requests, fixed_window 100/h as tokens]}}}}"
        );
        let config = sluicegate::Config::parse(&config, "limits.yaml").unwrap();
        let registry = sluicegate::Registry::open(&config).unwrap();
        let llm = registry.gate("llm");
        let limit = LimitMiddleware::new(llm.clone())
            .cost(|_| [("requests", 1)])
            .charge_after(|response| response.charge());
        let client = serve(limit, move |config| {
            config.app_data(web::Data::new(llm.clone()));
            let answer = async |tokens: web::Path<u64>, llm: web::Data<Gate>| {
                let decision = llm.peek(KEY).await.unwrap();
                let requests = decision.outcome("requests").unwrap().remaining().unwrap();
                let mut response = HttpResponse::Ok().body(requests.to_string());
                response.extensions_mut().insert(Charge::from([("tokens", *tokens)]));
                response
            };
            config.route("/{tokens}", web::get().to(answer));
        });
        let first = client.get("/40").await;
        assert_eq!(first.body, "2", "taken before the handler ran");
        let fields = first.field("ratelimit").unwrap();
        assert!(
            fields.contains("\"requests\";r=2;") && fields.contains("\"tokens\";r=60;"),
            "{fields}"
        );
        assert_eq!(client.get("/80").await.body, "1");
        let denied = client.get("/1").await;
        assert_eq!(denied.status, 429);
        assert!(denied.body.contains(r#""violated-policies":["tokens"]"#), "{}", denied.body);
        assert!(denied.field("ratelimit").unwrap().contains("\"requests\";r=1;"), "{denied:?}");
    }
}

#[tokio::test]
async fn a_handler_that_panics_is_paid_for() {
    for (after, left) in [(false, 6), (true, 6)] {
        let limits = Limits::with("fixed_window 9/h cost 3");
        let mut limit = LimitMiddleware::new(limits.api());
        if after {
            limit = limit.charge_after(|response| response.charge());
        }
        let client = serve(limit, |config| {
            let panics = async || -> &'static str { panic!("on purpose") };
            config.route("/", web::get().to(panics));
        });
        assert!(client.try_send("GET", "/", &[]).await.is_err());
        assert_eq!(limits.left("api", KEY), left, "{after}");
    }
}

/// The error of a middleware becomes a response outside of the limit. It already has a status there.
#[tokio::test]
async fn an_error_of_a_middleware_is_charged_for_by_its_status() {
    let limits = Limits::with("fixed_window 9/h");
    let limit = LimitMiddleware::new(limits.api())
        .charge_after(|response| (response.status() == 404).then_some(2))
        .charge_unanswered(5);
    let client = serve(limit, |config| {
        for (path, status) in [("/missing", 404), ("/broken", 500)] {
            let fails = move |_: ServiceRequest, _: &_| {
                let status = StatusCode::from_u16(status).unwrap();
                ready(Err::<ServiceResponse, _>(InternalError::new("on purpose", status).into()))
            };
            config.service(web::resource(path).wrap_fn(fails).get(async || "hello"));
        }
    });
    assert_eq!(client.statuses("/missing", 2).await, [404, 404]);
    assert_eq!(limits.left("api", KEY), 5);
    assert_eq!(client.statuses("/broken", 1).await, [500]);
    assert_eq!(limits.left("api", KEY), 5);
}

/// Actix runs a handler to its end after its client has disconnected, but a timeout around it
/// doesn't.
#[tokio::test]
async fn a_request_that_is_given_up_is_paid_for() {
    let limits = Limits::with("fixed_window 9/h");
    let limit = LimitMiddleware::new(limits.api())
        .charge_after(|response| response.charge())
        .charge_unanswered(4);
    let endless = async || std::future::pending::<&'static str>().await;
    let application = App::new().wrap(limit).route("/", web::get().to(endless));
    let application = init_service(application).await;
    let peer = SocketAddr::from(([127, 0, 0, 1], 80));
    let mut answer = Box::pin(application.call(TestRequest::get().peer_addr(peer).to_request()));
    let first_look = std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context)));
    assert!(first_look.await.is_pending());
    assert_eq!(limits.left("api", KEY), 9);
    drop(answer);
    assert_eq!(limits.left("api", KEY), 5);
}

#[tokio::test]
async fn responses_are_charged_over_the_network() {
    let server = Server::start().unwrap();
    let config = format!(
        "store: \"{}\"\nlimits: {{api: {{deadline: 5s, policies: [fixed_window 5/h]}}}}",
        server.url()
    );
    let config = sluicegate::Config::parse(&config, "limits.yaml").unwrap();
    let registry = sluicegate::Registry::open(&config).unwrap();
    let limit = LimitMiddleware::new(registry.gate("api")).charge_after(|_| Some(4));
    let client = serve(limit, |config| {
        config.route("/", web::get().to(async || "hello"));
    });
    let first = client.get("/").await;
    assert_eq!(first.field("ratelimit").as_deref(), Some("\"fixed_window\";r=1;t=3600"));
    assert_eq!(client.statuses("/", 2).await, [200, 429]);
}

#[tokio::test]
async fn requests_wait_for_their_turn() {
    let limits = Limits::with("token_bucket 10/s burst 1");
    let limit = LimitMiddleware::new(limits.api()).wait_up_to(Duration::from_millis(150));
    let client = serve(limit, |config| {
        config.route("/", web::get().to(async || "hello"));
    });
    // The clock of the limits stands still. The second request has its turn after 100 ms, and the
    // third one would have it after 200 ms.
    assert_eq!(client.statuses("/", 3).await, [200, 200, 429]);
}
