//! Requests that hold what they took until the body of their response has ended.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, MessageBody};
use actix_web::web::{self, Bytes, ReqData};
use sluicegate::{Permit, Usage};
use sluicegate_actix::{InFlight, LimitMiddleware};
use tokio::sync::mpsc;

use super::serve;
use super::web::{Client, Limits};

/// A body that sends the pieces that the test gives it.
struct Pieces {
    pieces: mpsc::UnboundedReceiver<&'static str>,
    in_flight: InFlight,
    sent: u64,
}

impl MessageBody for Pieces {
    type Error = std::convert::Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        let piece = std::task::ready!(self.pieces.poll_recv(context));
        self.sent += u64::from(piece.is_some());
        self.in_flight.used("units", self.sent);
        Poll::Ready(piece.map(|piece| Ok(Bytes::from_static(piece.as_bytes()))))
    }
}

#[derive(Default)]
struct Site {
    streams: Mutex<Vec<mpsc::UnboundedSender<&'static str>>>,
    taken: Mutex<Option<Permit>>,
}

async fn stream(site: web::Data<Site>, in_flight: ReqData<InFlight>) -> HttpResponse {
    let (sender, pieces) = mpsc::unbounded_channel();
    site.streams.lock().unwrap().push(sender);
    HttpResponse::Ok().body(Pieces { pieces, in_flight: in_flight.into_inner(), sent: 0 })
}

async fn upgrade(site: web::Data<Site>, in_flight: ReqData<InFlight>) -> &'static str {
    *site.taken.lock().unwrap() = in_flight.take_permit();
    "hello"
}

async fn page() -> &'static str {
    "12345"
}

struct World {
    limits: Limits,
    site: Arc<Site>,
    client: Client,
}

impl World {
    fn new() -> Self {
        let config = "limits: {api: {policies: [concurrency 1 hold 30s as open, fixed_window 100/h as units]}}";
        let (limits, site) = (Limits::of(config), Arc::new(Site::default()));
        let limit = LimitMiddleware::new(limits.api())
            .cost(|_| [("open", 1), ("units", 10)])
            .settle_at_end(|served| Some([("units", served.bytes())]));
        let data = web::Data::from(Arc::clone(&site));
        let client = serve(limit, move |config| {
            config
                .app_data(data.clone())
                .route("/stream", web::get().to(stream))
                .route("/upgrade", web::get().to(upgrade))
                .route("/page", web::get().to(page));
        });
        Self { limits, site, client }
    }

    fn left(&self) -> [u64; 2] {
        let decision = self.limits.api().peek("127.0.0.1").now().unwrap();
        [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
    }

    async fn until_left(&self, expected: [u64; 2]) {
        sluicegate_testkit::wait::until_async("units to be given back", async || {
            let seen = self.left();
            if seen == expected { Ok(()) } else { Err(seen) }
        })
        .await;
    }
}

#[tokio::test]
async fn a_streamed_body_is_in_flight_until_its_last_byte() {
    let world = World::new();
    let mut connection = world.client.open("/stream").await;
    connection.read_until("\r\n\r\n").await;
    assert_eq!(world.left(), [0, 90]);
    assert_eq!(world.client.get("/page").await.status, 429);
    let sender = world.site.streams.lock().unwrap().pop().unwrap();
    sender.send("piece").unwrap();
    connection.read_until("piece").await;
    assert_eq!(world.left(), [0, 90], "there may be more");
    drop(sender);
    connection.read_until("0\r\n\r\n").await;
    world.until_left([1, 99]).await;
}

#[tokio::test]
async fn a_client_that_goes_away_releases_and_pays_for_what_the_handler_said() {
    let world = World::new();
    let mut connection = world.client.open("/stream").await;
    connection.read_until("\r\n\r\n").await;
    let sender = world.site.streams.lock().unwrap().pop().unwrap();
    sender.send("one ").unwrap();
    sender.send("two ").unwrap();
    connection.read_until("two ").await;
    drop(connection);
    // The closed connection is noticed at the next write.
    while sender.send("more ").is_ok() {
        tokio::task::yield_now().await;
    }
    let _ = world.limits.registry.gate("api");
    sluicegate_testkit::wait::until_async("it to be released", async || {
        let seen = world.left();
        if seen[0] == 1 { Ok(()) } else { Err(seen) }
    })
    .await;
}

#[tokio::test]
async fn a_whole_body_keeps_its_size_and_is_settled_by_it() {
    let world = World::new();
    let reply = world.client.get("/page").await;
    assert_eq!((&*reply.body, reply.field("content-length").as_deref()), ("12345", Some("5")));
    world.until_left([1, 95]).await;
}

#[tokio::test]
async fn a_permit_that_the_handler_takes_out_outlives_the_response() {
    let world = World::new();
    assert_eq!(world.client.get("/upgrade").await.status, 200);
    assert_eq!(world.client.get("/page").await.status, 429);
    let permit = world.site.taken.lock().unwrap().take().unwrap();
    let _ = permit.settle(Usage::of("units", 4)).await.unwrap().unwrap();
    assert_eq!(world.left(), [1, 96]);
}
