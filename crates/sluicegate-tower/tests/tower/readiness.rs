//! The service that was made ready is the one that is called. No service stays reserved for a request
//! that never comes.

use std::convert::Infallible;
use std::future::{Ready, poll_fn, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use sluicegate::http::Peer;
use sluicegate_tower::{LimitLayer, LimitService, ProblemBody};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer as _, Service, ServiceExt as _};

use super::web::{Limits, now};

/// A service with one slot. A caller holds it from when it is ready until it was called or is
/// dropped. A clone holds none.
struct OnePlace {
    places: Arc<Semaphore>,
    held: Option<OwnedSemaphorePermit>,
}

impl Clone for OnePlace {
    fn clone(&self) -> Self {
        Self { places: Arc::clone(&self.places), held: None }
    }
}

impl Service<Request<()>> for OnePlace {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.held.is_none() {
            self.held = Arc::clone(&self.places).try_acquire_owned().ok();
        }
        if self.held.is_some() { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        assert!(self.held.take().is_some(), "it was called without being ready");
        ready(Ok(Response::new("hello".to_owned())))
    }
}

fn behind(layer: &LimitLayer) -> (LimitService<OnePlace, ProblemBody>, Arc<Semaphore>) {
    let places = Arc::new(Semaphore::new(1));
    (layer.layer(OnePlace { places: Arc::clone(&places), held: None }), places)
}

fn request() -> Request<()> {
    Request::builder().extension(Peer(([192, 0, 2, 1], 80).into())).body(()).unwrap()
}

async fn make_ready(service: &mut LimitService<OnePlace, ProblemBody>) {
    poll_fn(|context| service.poll_ready(context)).await.unwrap();
}

#[test]
fn an_admitted_request_goes_to_the_service_that_is_ready() {
    let limits = Limits::with("fixed_window 9/h");
    let (mut service, places) = behind(&LimitLayer::new(limits.api()));
    for _ in 0..3 {
        now(make_ready(&mut service));
        assert_eq!(places.available_permits(), 0);
        let response = now(service.call(request())).unwrap();
        assert_eq!((response.status().as_u16(), places.available_permits()), (200, 1));
    }
}

#[test]
fn a_denied_request_gives_the_place_back_at_once() {
    let limits = Limits::with("fixed_window 0/h");
    let (mut service, places) = behind(&LimitLayer::new(limits.api()));
    for _ in 0..3 {
        now(make_ready(&mut service));
        let answer = service.call(request());
        assert_eq!(places.available_permits(), 1);
        assert_eq!(now(answer).unwrap().status(), 429);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_takes_the_place_along() {
    let limits = Limits::with("fixed_window 9/h");
    let layer = LimitLayer::new(limits.api()).wait_up_to(Duration::from_secs(1));
    let (mut service, places) = behind(&layer);
    make_ready(&mut service).await;
    let first = service.call(request());
    // The call takes the slot along, so the next caller has to wait for it.
    let next = poll_fn(|context| Poll::Ready(service.poll_ready(context))).await;
    assert!(next.is_pending());
    assert_eq!(first.await.unwrap().status(), 200);
    make_ready(&mut service).await;
    // A dropped call releases the slot.
    drop(service.call(request()));
    assert_eq!(places.available_permits(), 1);
}

#[test]
fn clones_are_ready_for_themselves_alone() {
    let limits = Limits::with("fixed_window 9/h");
    let (service, _) = behind(&LimitLayer::new(limits.api()));
    for _ in 0..3 {
        assert_eq!(now(service.clone().oneshot(request())).unwrap().status(), 200);
    }
    assert_eq!(limits.left("api", "192.0.2.1"), 6);
}
