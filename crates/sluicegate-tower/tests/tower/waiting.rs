//! Requests that wait for their turn.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use sluicegate::http::Peer;
use sluicegate_tower::LimitLayer;
use tokio::time::Instant;
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::web::Limits;

fn request() -> Request<()> {
    Request::builder().extension(Peer(([192, 0, 2, 1], 80).into())).body(()).unwrap()
}

/// Sends that many requests concurrently. Returns the time and the status of each answer.
async fn ask(layer: LimitLayer, requests: usize) -> Vec<(u64, u16)> {
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, std::convert::Infallible>(Response::new("hello".to_owned()))
    }));
    let start = Instant::now();
    let answers = (0..requests).map(|_| {
        let answer = service.clone().oneshot(request());
        async move { (answer.await.unwrap().status().as_u16(), start.elapsed().as_secs()) }
    });
    let mut tasks = tokio::task::JoinSet::new();
    let mut answered = Vec::new();
    for answer in answers {
        tasks.spawn(answer);
        tokio::task::yield_now().await;
    }
    while let Some(answer) = tasks.join_next().await {
        let (status, seconds) = answer.unwrap();
        answered.push((seconds, status));
    }
    answered.sort_unstable();
    answered
}

#[tokio::test(start_paused = true)]
async fn a_shaper_lets_requests_in_one_after_another() {
    let limits = Limits::with("shaper 1/s queue 2");
    let answers = ask(LimitLayer::new(limits.api()), 4).await;
    assert_eq!(answers, [(0, 200), (0, 429), (1, 200), (2, 200)]);
}

#[tokio::test(start_paused = true)]
async fn a_shaper_that_is_charged_afterwards_shapes_whether_or_not_others_may_wait() {
    for patience in [0, 30] {
        let limits = Limits::with("shaper 1/s queue 9");
        let layer = LimitLayer::new(limits.api())
            .charge_after(|_| Some(4))
            .wait_up_to(Duration::from_secs(patience));
        assert_eq!(ask(layer.clone(), 1).await, [(0, 200)]);
        // The four charged requests come first.
        assert_eq!(ask(layer, 1).await, [(4, 200)], "{patience} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bucket_makes_a_queue_of_those_who_may_wait() {
    let limits = Limits::with("token_bucket 1/s burst 1");
    let layer = LimitLayer::new(limits.api()).wait_up_to(Duration::from_secs(2));
    assert_eq!(ask(layer, 4).await, [(0, 200), (0, 429), (1, 200), (2, 200)]);
}

#[tokio::test(start_paused = true)]
async fn of_a_crowd_that_may_wait_a_bounded_number_does() {
    let limits = Limits::with("token_bucket 1/s burst 1");
    let layer = LimitLayer::new(limits.api()).wait_up_to(Duration::from_secs(60)).wait_at_most(2);
    let refused = (0, 429);
    let crowd = [(0, 200), refused, refused, refused, (1, 200), (2, 200)];
    assert_eq!(ask(layer.clone(), 6).await, crowd);
    // Their slots are free again, for clones of the layer too. For the store no time has passed.
    assert_eq!(ask(layer, 6).await, [refused, refused, refused, refused, (3, 200), (4, 200)]);
    let nobody = LimitLayer::new(limits.api()).wait_up_to(Duration::from_secs(60)).wait_at_most(0);
    assert_eq!(ask(nobody, 2).await, [refused, refused]);
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_gives_its_turn_back() {
    let limits = Limits::with("token_bucket 1/s burst 1");
    let layer = LimitLayer::new(limits.api()).wait_up_to(Duration::from_secs(1));
    let service = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), 200);
    for _ in 0..3 {
        let waiting = service.clone().oneshot(request());
        assert!(tokio::time::timeout(Duration::from_millis(500), waiting).await.is_err());
    }
    // Its turn was the first one.
    let start = Instant::now();
    assert_eq!(service.clone().oneshot(request()).await.unwrap().status(), 200);
    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

/// Uses tickets: callers that retried in a loop would be served in any order.
#[tokio::test(start_paused = true)]
async fn permits_are_waited_for_in_their_queue_and_by_a_bounded_number() {
    for (most, served) in [(10_000, vec![0, 1, 2, 3]), (2, vec![0, 1, 2])] {
        let limits = Limits::with("concurrency 1 hold 1h queue 3");
        let patience = Duration::from_secs(60);
        let layer = LimitLayer::new(limits.api()).wait_up_to(patience).wait_at_most(most);
        let order = Arc::new(Mutex::new(Vec::new()));
        let handler = {
            let order = Arc::clone(&order);
            service_fn(move |request: Request<()>| {
                order.lock().unwrap().push(*request.extensions().get::<usize>().unwrap());
                async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok::<_, std::convert::Infallible>(Response::new(String::new()))
                }
            })
        };
        let service = layer.layer(handler);
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..5_usize {
            let mut request = request();
            request.extensions_mut().insert(number);
            let answer = service.clone().oneshot(request);
            tasks.spawn(async move { answer.await.unwrap().status().as_u16() });
            tokio::task::yield_now().await;
        }
        let statuses = tasks.join_all().await;
        let refused = statuses.iter().filter(|status| **status == 429).count();
        assert_eq!((order.lock().unwrap().clone(), refused), (served.clone(), 5 - served.len()));
        assert_eq!(start.elapsed(), Duration::from_secs(served.len() as u64), "none is idle");
    }
}
