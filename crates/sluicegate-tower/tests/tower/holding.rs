//! Requests that hold what they took until the body of their response has ended.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, Path};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Router, extract::State};
use hyper::body::{Bytes, Frame};
use sluicegate::{Permit, Usage};
use sluicegate_tower::{BodyEnd, Charge, InFlight, LimitLayer};
use tokio::sync::mpsc;

use super::serve;
use super::web::Limits;

/// A body that sends the pieces that the test gives it.
struct Pieces {
    pieces: mpsc::UnboundedReceiver<&'static str>,
    in_flight: InFlight,
    sent: u64,
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        self.sent += u64::from(piece.is_some());
        if piece == Some("told ") {
            self.in_flight.used("units", self.sent);
        }
        Poll::Ready(piece.map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))))
    }
}

type Streams = Arc<Mutex<Vec<mpsc::UnboundedSender<&'static str>>>>;

async fn stream(State(streams): State<Streams>, Extension(in_flight): Extension<InFlight>) -> Body {
    let (sender, pieces) = mpsc::unbounded_channel();
    streams.lock().unwrap().push(sender);
    Body::new(Pieces { pieces, in_flight, sent: 0 })
}

const TWO: &str =
    "limits: {api: {policies: [concurrency 1 hold 30s as open, fixed_window 100/h as units]}}";

fn left(limits: &Limits) -> [u64; 2] {
    let decision = limits.api().peek("127.0.0.1").now().unwrap();
    [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
}

async fn until_left(limits: &Limits, expected: [u64; 2]) {
    sluicegate_testkit::wait::until_async("units to be given back", async || {
        let seen = left(limits);
        if seen == expected { Ok(()) } else { Err(seen) }
    })
    .await;
}

fn layer(limits: &Limits) -> LimitLayer {
    LimitLayer::new(limits.api()).cost(|_| [("open", 1), ("units", 10)])
}

#[tokio::test]
async fn a_streamed_body_is_in_flight_until_its_last_byte() {
    let limits = Limits::of(TWO);
    let streams = Streams::default();
    let router = Router::new().route("/", get(stream)).with_state(streams.clone());
    let client = serve(router.layer(layer(&limits))).await;
    let mut connection = client.open("/").await;
    connection.read_until("\r\n\r\n").await;
    assert_eq!(left(&limits), [0, 90]);
    assert_eq!(client.get("/").await.status, 429);
    let sender = streams.lock().unwrap().pop().unwrap();
    sender.send("piece").unwrap();
    connection.read_until("piece").await;
    assert_eq!(left(&limits), [0, 90], "there may be more");
    drop(sender);
    connection.read_until("0\r\n\r\n").await;
    until_left(&limits, [1, 90]).await;
}

#[tokio::test]
async fn a_client_that_goes_away_releases_and_pays_for_what_the_handler_said() {
    let limits = Limits::of(TWO);
    let streams = Streams::default();
    let router = Router::new().route("/", get(stream)).with_state(streams.clone());
    let client = serve(router.layer(layer(&limits))).await;
    let mut connection = client.open("/").await;
    connection.read_until("\r\n\r\n").await;
    let sender = streams.lock().unwrap().pop().unwrap();
    for piece in ["some ", "told "] {
        sender.send(piece).unwrap();
    }
    connection.read_until("told ").await;
    drop(connection);
    until_left(&limits, [1, 98]).await;
    assert!(sender.is_closed());
}

#[tokio::test]
async fn what_was_used_is_said_by_the_handler_or_the_response_or_the_end_of_its_body() {
    async fn page(Extension(in_flight): Extension<InFlight>, Path(how): Path<String>) -> Response {
        let mut response = "12345".into_response();
        if how.contains("handler") {
            in_flight.used("units", 7);
            in_flight.used("units", 1);
        }
        if how.contains("nothing") {
            in_flight.used_nothing();
        }
        if how.contains("field") {
            response.headers_mut().insert("x-used", "3".parse().unwrap());
        }
        if how.contains("extension") {
            response.extensions_mut().insert(Charge::from([("units", 4)]));
        }
        assert!(how != "panic", "on purpose");
        if how.contains("silent") {
            *response.status_mut() = http::StatusCode::ACCEPTED;
        }
        response
    }
    let limits = Limits::of(TWO);
    let name = http::HeaderName::from_static("x-used");
    let layer = layer(&limits)
        .settle(move |response| {
            let used = response.field(&name).and_then(|used| std::str::from_utf8(used).ok());
            let used = used.and_then(|used| used.parse().ok());
            used.map(|used| Charge::from([("units", used)])).or_else(|| response.charge())
        })
        .settle_at_end(|served| match (served.end(), served.status()) {
            (BodyEnd::NoResponse, None) => Some([("units", 2)]),
            (BodyEnd::Complete, Some(http::StatusCode::OK)) => Some([("units", served.bytes())]),
            _ => None,
        });
    let client = serve(Router::new().route("/{how}", get(page)).layer(layer)).await;
    for (path, used) in [
        ("/end", 5),
        ("/field", 3),
        ("/extension", 4),
        ("/handler", 1),
        ("/nothing", 0),
        ("/handler+field", 1),
        ("/silent", 10),
        ("/panic", 2),
    ] {
        let reply = client.try_send("GET", path, &[]).await;
        assert_eq!(reply.is_err(), path == "/panic");
        if let Ok(reply) = reply {
            assert_eq!(reply.field("content-length").as_deref(), Some("5"), "its size is kept");
        }
        until_left(&limits, [1, 100 - used]).await;
        assert!(limits.api().reset("127.0.0.1").await.unwrap().is_allowed());
    }
}

/// A WebSocket handler does this: its connection continues after the response was sent.
#[tokio::test]
async fn a_permit_that_the_handler_takes_out_outlives_the_response() {
    type Taken = Arc<Mutex<Option<Permit>>>;
    async fn upgrade(State(taken): State<Taken>, Extension(in_flight): Extension<InFlight>) {
        *taken.lock().unwrap() = in_flight.take_permit();
        assert!(in_flight.take_permit().is_none() && !in_flight.is_lost());
    }
    let limits = Limits::of(TWO);
    let taken = Taken::default();
    let router = Router::new().route("/", get(upgrade)).with_state(taken.clone());
    let layer = layer(&limits).settle_at_end(|_| Some([("units", 0)]));
    let client = serve(router.layer(layer)).await;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(client.get("/").await.status, 429);
    assert_eq!(left(&limits), [0, 90]);
    let permit = taken.lock().unwrap().take().unwrap();
    let _ = permit.settle(Usage::of("units", 4)).await.unwrap().unwrap();
    assert_eq!(left(&limits), [1, 96]);
}

#[tokio::test]
async fn requests_wait_for_a_permit_that_comes_free() {
    let limits = Limits::with("concurrency 1 hold 1h");
    let streams = Streams::default();
    let router = Router::new().route("/", get(stream)).with_state(streams.clone());
    let layer = LimitLayer::new(limits.api()).wait_up_to(Duration::from_secs(60));
    let client = serve(router.layer(layer)).await;
    let mut first = client.open("/").await;
    first.read_until("\r\n\r\n").await;
    let mut second = client.open("/").await;
    streams.lock().unwrap().clear();
    second.read_until("\r\n\r\n").await;
    assert_eq!(limits.left("api", "127.0.0.1"), 0);
    streams.lock().unwrap().clear();
    limits.until_left("api", "127.0.0.1", 1).await;
}

#[tokio::test]
async fn requests_wait_for_a_permit_in_the_order_of_their_priority() {
    let limits = Limits::with("concurrency 1 hold 1h queue 9 priorities 2");
    let streams = Streams::default();
    let router = Router::new().route("/{who}", get(stream)).with_state(streams.clone());
    let layer = LimitLayer::new(limits.api())
        .wait_up_to(Duration::from_secs(60))
        .priority(|request| if request.path() == "/batch" { 7 } else { 0 });
    let client = serve(router.layer(layer)).await;
    let next = || streams.lock().unwrap().pop();
    let mut first = client.open("/first").await;
    first.read_until("\r\n\r\n").await;
    drop(next());
    let mut waiting = Vec::new();
    let permit = limits.api().permit("127.0.0.1").within(Duration::from_secs(60)).await.unwrap();
    for (path, ahead) in [("/batch", 1), ("/urgent", 2)] {
        waiting.push(client.open(path).await);
        sluicegate_testkit::wait::until_async("a place in the queue", async || {
            let api = limits.api();
            let holders = api.holders("127.0.0.1", sluicegate::admin::Page::first()).await.unwrap();
            if holders.waiting() == ahead { Ok(()) } else { Err(holders.waiting()) }
        })
        .await;
    }
    drop(permit);
    let (mut urgent, mut batch) = (waiting.pop().unwrap(), waiting.pop().unwrap());
    // The last request is served first.
    let head = urgent.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(streams.lock().unwrap().len(), 1, "nobody else was let in");
    drop(next());
    let head = batch.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[tokio::test]
async fn what_is_in_flight_is_not_settled_in_two_ways() {
    let limits = Limits::of(TWO);
    let router = || Router::new().route("/", get(async || "hello"));
    for layer in [layer(&limits).refund_if(|_| true), layer(&limits).charge_after(|_| 1)] {
        let client = serve(router().layer(layer)).await;
        assert_eq!(client.get("/").await.status, 500);
        assert_eq!(left(&limits), [1, 100]);
    }
}
