//! Charges after the response, when its cost is known.

use std::convert::Infallible;
use std::future::ready;
use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{HeaderName, Request, Response, StatusCode};
use sluicegate::http::{KeyExpression, Peer, fixed};
use sluicegate::{Config, Registry};
use sluicegate_testkit::servers::Server;
use sluicegate_testkit::wait::until_async;
use sluicegate_tower::{Charge, LimitLayer};
use tokio::sync::{Notify, Semaphore};
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::catch_panic::CatchPanicLayer;

use super::serve;
use super::web::{Client, Limits, now};

const KEY: &str = "127.0.0.1";

async fn site<H, T>(layer: LimitLayer, handler: H) -> Client
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    let router = Router::new().route("/{*path}", get(handler)).layer(layer);
    serve(router.layer(CatchPanicLayer::new())).await
}

/// Charges the cost that the handler reports.
fn charging(limits: &Limits) -> LimitLayer {
    LimitLayer::new(limits.api()).charge_after(|response| response.charge())
}

#[tokio::test]
async fn a_response_costs_what_its_handler_says() {
    let limits = Limits::with("token_bucket 100/h burst 100 as tokens");
    let answer = async |Path(units): Path<u64>| {
        let mut response = "words".into_response();
        response.extensions_mut().insert(Charge::from(units));
        response
    };
    let client = site(charging(&limits), answer).await;
    let first = client.get("/40").await;
    // The client sees the remaining units after the response is paid for.
    assert_eq!(first.field("ratelimit").as_deref(), Some("\"tokens\";r=60;t=1440"));
    // The cost of a response is unknown beforehand, so any client with units left gets one.
    assert_eq!(
        client.get("/260").await.field("ratelimit").as_deref(),
        Some("\"tokens\";r=0;t=10800")
    );
    let denied = client.get("/1").await;
    assert_eq!((denied.status, denied.field("retry-after").as_deref()), (429, Some("7236")));
    limits.pass(7_235);
    assert_eq!(client.get("/1").await.status, 429);
    limits.pass(1);
    assert_eq!(client.get("/0").await.status, 200);
    assert_eq!(limits.left("api", KEY), 1, "the last one was for free");
}

#[tokio::test]
async fn status_and_fields_can_say_it_too() {
    let limits = Limits::with("fixed_window 3/h");
    let failed_logins = LimitLayer::new(limits.api()).charge_after(|response| {
        let bytes = response.field(&HeaderName::from_static("x-cost"))?;
        let said = str::from_utf8(bytes).ok()?.parse::<u64>().ok()?;
        (response.status() == StatusCode::UNAUTHORIZED).then_some(said)
    });
    let login = async |Path(password): Path<String>| match &*password {
        "right" => (StatusCode::OK, [("x-cost", "1")]),
        "wrong" => (StatusCode::UNAUTHORIZED, [("x-cost", "1")]),
        _ => (StatusCode::UNAUTHORIZED, [("x-cost", "nonsense")]),
    };
    let client = site(failed_logins, login).await;
    assert_eq!(client.statuses("/right", 9).await, [200; 9]);
    assert_eq!(client.statuses("/nonsense", 9).await, [401; 9]);
    assert_eq!(client.statuses("/wrong", 4).await, [401, 401, 401, 429]);
    assert_eq!(client.get("/right").await.status, 429);
}

#[tokio::test]
async fn requests_in_flight_pass_together_and_leave_their_debt() {
    let limits = Limits::with("token_bucket 10/h burst 10");
    let (open, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (gate, entry) = (Arc::clone(&open), Arc::clone(&arrived));
    let slow = async move || {
        entry.add_permits(1);
        gate.acquire().await.unwrap().forget();
        let mut response = "done".into_response();
        response.extensions_mut().insert(Charge::from(8));
        response
    };
    let client = site(charging(&limits), slow).await;
    let visits: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get("/slow").await })
        })
        .collect();
    arrived.acquire_many(3).await.unwrap().forget();
    assert_eq!(limits.left("api", KEY), 10, "nothing is charged before the responses");
    open.add_permits(3);
    for visit in visits {
        assert_eq!(visit.await.unwrap().status, 200);
    }
    // The debt is 24 of 10 units. 15 have to come back, and one unit takes 360 s.
    let denied = client.get("/slow").await;
    assert_eq!((denied.status, denied.field("retry-after").as_deref()), (429, Some("5400")));
}

#[tokio::test]
async fn several_limits_are_charged_for_one_response() {
    let limits = Limits::of(
        "limits: {address: {policies: [fixed_window 9/h]}, account: {policies: [fixed_window 9/h]}}",
    );
    let layer = LimitLayer::new(limits.gate("address"))
        .and(limits.gate("account"), "query:account".parse::<KeyExpression>().unwrap())
        .unwrap()
        .charge_after(|_| Some(4));
    let client = site(layer, async || "hello").await;
    assert_eq!(client.get("/words?account=alice").await.status, 200);
    assert_eq!(limits.left("address", KEY), 5);
    assert_eq!(limits.left("account", "alice"), 5);
}

#[tokio::test]
async fn a_handler_that_panics_is_paid_for() {
    let panics = async || -> &'static str { panic!("on purpose") };
    // The charge comes before the response.
    let limits = Limits::with("fixed_window 9/h");
    let client = site(LimitLayer::new(limits.api()), panics).await;
    assert_eq!(client.get("/panic").await.status, 500);
    assert_eq!(limits.left("api", KEY), 8);
    // The charge comes after the response. By default it is the cost that a charge before it would
    // have.
    for (told, left) in [(None, 6), (Some(5), 4), (Some(0), 9)] {
        let limits = Limits::with("fixed_window 9/h cost 3");
        let mut layer = charging(&limits);
        if let Some(units) = told {
            layer = layer.charge_unanswered(units);
        }
        let client = site(layer, panics).await;
        assert_eq!(client.get("/panic").await.status, 500);
        assert_eq!(limits.left("api", KEY), left, "{told:?}");
    }
}

/// The cost of the response stays unknown.
#[tokio::test]
async fn a_charge_that_panics_is_paid_for() {
    let limits = Limits::with("fixed_window 9/h");
    let layer = LimitLayer::new(limits.api())
        .charge_after(|_| -> Option<u64> { panic!("on purpose") })
        .charge_unanswered(4);
    let client = site(layer, async || "words").await;
    assert_eq!(client.get("/a").await.status, 500);
    assert_eq!(limits.left("api", KEY), 5);
}

#[tokio::test]
async fn a_client_that_hangs_up_pays() {
    let (started, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    /// Notifies the test when the handler is dropped.
    struct Ending(Arc<Notify>);
    impl Drop for Ending {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    for (after, left) in [(false, 8), (true, 8)] {
        let limits = Limits::with("fixed_window 9/h");
        let (entry, end) = (Arc::clone(&started), Arc::clone(&ended));
        let endless = async move || -> &'static str {
            let _ending = Ending(Arc::clone(&end));
            entry.notify_one();
            std::future::pending().await
        };
        let layer = if after { charging(&limits) } else { LimitLayer::new(limits.api()) };
        let client = site(layer, endless).await;
        let visit = tokio::spawn(async move { client.get("/endless").await });
        started.notified().await;
        visit.abort();
        assert!(visit.await.unwrap_err().is_cancelled());
        // The server notices the closed connection, and drops the request.
        ended.notified().await;
        // The charge follows the drop of the handler.
        until_async("what is left", async || {
            let seen = limits.left("api", KEY);
            if seen == left { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

#[test]
fn a_service_that_fails_is_paid_for() {
    let limits = Limits::with("fixed_window 9/h");
    let failing = service_fn(async |_: Request<()>| Err::<Response<String>, _>("no"));
    let service = charging(&limits).layer(failing);
    let peer = Peer(([127, 0, 0, 1], 80).into());
    let request = Request::builder().extension(peer).body(()).unwrap();
    assert_eq!(now(service.oneshot(request)).unwrap_err(), "no");
    assert_eq!(limits.left("api", KEY), 8);
}

#[tokio::test]
async fn an_absurd_charge_is_a_debt_and_no_more() {
    let limits = Limits::with("token_bucket 10/s burst 10");
    let layer = LimitLayer::new(limits.api()).charge_after(|_| Some(u64::MAX));
    let client = site(layer, async || "hello").await;
    // The charge is more than the limit can owe. The operator learns of it, not the client.
    assert_eq!(client.get("/x").await.status, 200);
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_is_charged_pays() {
    let server = Server::start().unwrap();
    let config = format!(
        "store: \"{}\"\nlimits: {{api: {{deadline: 5s, policies: [fixed_window 9/h]}}}}",
        server.url()
    );
    let registry = Registry::open(&Config::parse(&config, "limits.yaml").unwrap()).unwrap();
    let api = registry.gate("api");
    let layer = LimitLayer::new(api.clone()).key(fixed("all")).charge_after(|_| Some(2));
    let served = Arc::new(Notify::new());
    let serving = Arc::clone(&served);
    let service = service_fn(move |_: Request<()>| {
        serving.notify_one();
        ready(Ok::<_, Infallible>(Response::new(String::new())))
    });
    let request = Request::builder().body(()).unwrap();
    let mut call = Box::pin(layer.layer(service).oneshot(request));
    tokio::select! {
        biased;
        _ = &mut call => panic!("answered before it was charged"),
        () = served.notified() => {}
    }
    drop(call);
    until_async("the charge", async || match api.peek("all").await.unwrap().remaining() {
        Some(7) => Ok(()),
        left => Err(left),
    })
    .await;
}
