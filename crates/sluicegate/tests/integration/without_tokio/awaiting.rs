//! Awaiting in an executor that isn't a tokio runtime.

use std::time::Duration;

use pollster::block_on;
use sluicegate::error::RequestErrorKind;
use sluicegate::policy::Ban;
use sluicegate::store::Store as _;
use sluicegate::{Error, Limiter, RedisStore};
use tokio::time::Instant;

use super::{embedded, limit, on_server};
use sluicegate_testkit::servers::Server;

/// Polls a future on a thread that belongs to no runtime, as every executor but tokio's does.
#[test]
fn an_embedded_store_answers_and_waits_in_any_executor() {
    let limiter = embedded(&["gcra 100/s burst 1"]);
    let start = Instant::now();
    block_on(async {
        assert!(limiter.check("alice").await.unwrap().is_allowed());
        for _ in 0..3 {
            let waited = limiter.check("alice").within(Duration::from_secs(5)).await.unwrap();
            assert!(waited.is_allowed());
        }
    });
    assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
}

#[test]
fn an_embedded_store_retries_in_any_executor() {
    let limiter = embedded(&["sliding_log 1/20ms"]);
    block_on(async {
        for _ in 0..2 {
            let waited = limiter.check("alice").within(Duration::from_secs(5)).await.unwrap();
            assert!(waited.is_allowed());
        }
    });
}

#[test]
fn permits_of_an_embedded_store_wait_are_renewed_and_are_lost_in_any_executor() {
    let limiter = embedded(&["concurrency 1 hold 1s queue 10"]);
    block_on(async {
        let permit = limiter.permit("alice").await.unwrap();
        let denied = limiter.permit("alice").within(Duration::from_millis(1_200)).await.unwrap();
        assert!(denied.is_denied() && !permit.is_lost(), "it was renewed");
        let _ = limiter.reset("alice").await.unwrap();
        permit.lost().await;
        let free = limiter.permit("alice").within(Duration::from_secs(5)).await.unwrap();
        assert!(free.is_allowed());
    });
}

#[test]
fn a_turn_that_is_abandoned_in_any_executor_is_given_back() {
    let limiter = embedded(&["gcra 1/h"]);
    assert!(limiter.check("alice").now().unwrap().is_allowed());
    let mut waiting =
        Box::pin(limiter.check("alice").within(Duration::from_secs(7_200)).into_future());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    drop(waiting);
    let reserved = limiter.reserve("alice", Duration::from_secs(7_200)).now().unwrap();
    assert!(reserved.wait() <= Duration::from_secs(3_600));
}

#[test]
fn a_server_is_not_asked_outside_of_a_runtime_and_the_error_says_what_to_do() {
    let server = Server::start().unwrap();
    let limiter = on_server(&server, &["gcra 1/h"]);
    let second = Duration::from_secs(1);
    let errors = [
        block_on(limiter.check("alice")).unwrap_err(),
        block_on(limiter.peek("alice")).unwrap_err(),
        block_on(limiter.check("alice").within(second)).unwrap_err(),
        block_on(limiter.check("alice").hold(second).within(second)).unwrap_err(),
        block_on(limiter.permit("alice")).unwrap_err(),
        block_on(limiter.permit("alice").within(second)).unwrap_err(),
    ];
    for error in errors {
        assert_outside(&error);
    }
    assert!(limiter.check("alice").blocking().unwrap().is_allowed(), "no unit was taken");
}

#[test]
fn calls_that_belong_to_no_request_fail_outside_of_a_runtime_too() {
    let store = RedisStore::builder("redis://127.0.0.1:1").unwrap().build();
    let message = block_on(store.ping()).unwrap_err().to_string();
    assert!(message.contains("outside of a tokio runtime"), "{message}");
    let limit = limit(&["gcra 1/h"]);
    assert!(block_on(store.rehearse(vec![(limit.clone(), Default::default())])).is_err());
    assert!(block_on(store.delete_run(&limit, "run")).is_err());
    let counting = limit.banning("5/min for 15min".parse::<Ban>().unwrap());
    let limiter = Limiter::new(store, counting);
    assert_outside(&block_on(limiter.bans(sluicegate::admin::Page::first())).unwrap_err());
}

fn assert_outside(error: &Error) {
    assert_eq!(
        error.as_request().map(sluicegate_core::RequestError::kind),
        Some(RequestErrorKind::WouldBlock)
    );
    assert_eq!(
        error.to_string(),
        "the Redis store can't be awaited outside of a tokio runtime: await it in one, or end the request by `blocking()`; nothing was sent"
    );
}
