use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use super::{Plans, keyed, left, limiter, settle_down};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_first_requests_of_one_key_call_the_maker_once() {
    let plans = Plans::new("fixed_window 1000/d");
    plans.slow_down();
    let api = keyed(&plans);
    let requests = (0..1_000).map(|_| {
        let api = api.clone();
        tokio::spawn(async move { api.check("acme").await.unwrap().is_allowed() })
    });
    let requests: Vec<_> = requests.collect();
    settle_down().await;
    plans.go_on();
    for request in requests {
        assert!(request.await.unwrap());
    }
    assert_eq!(plans.queries(), 1);
    assert!(api.check("acme").await.unwrap().is_denied(), "each took a unit");
}

#[tokio::test]
async fn keys_do_not_wait_for_each_other() {
    let plans = Plans::new("fixed_window 9/d");
    plans.slow_down();
    let api = keyed(&plans);
    let mut slow = Box::pin(left(&api, "slow"));
    assert!(poll(&mut slow).is_pending());
    plans.answer_new_queries();
    assert_eq!(left(&api, "quick").await, 8);
    plans.go_on();
    assert_eq!(slow.await, 8);
}

#[tokio::test]
async fn another_request_continues_the_run_of_one_that_is_dropped() {
    let plans = Plans::new("fixed_window 9/d");
    plans.slow_down();
    let api = keyed(&plans);
    let mut first = Box::pin(left(&api, "acme"));
    let mut second = Box::pin(left(&api, "acme"));
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    drop(first);
    plans.go_on();
    assert_eq!(second.await, 8);
    assert_eq!((plans.queries(), plans.answered()), (1, 1));
}

#[tokio::test]
async fn a_run_that_no_request_waits_for_is_dropped() {
    let plans = Plans::new("fixed_window 9/d");
    plans.slow_down();
    let api = keyed(&plans);
    let mut first = Box::pin(left(&api, "acme"));
    assert!(poll(&mut first).is_pending());
    assert_eq!(Arc::strong_count(&plans), 3, "the test's, the maker's and the query's");
    drop(first);
    assert_eq!(Arc::strong_count(&plans), 2);
    plans.go_on();
    assert_eq!(left(&api, "acme").await, 8);
    assert_eq!((plans.queries(), plans.answered()), (2, 1));
}

/// Polls a request once, like a `select!` that then waits in another branch.
#[tokio::test]
async fn a_request_that_is_no_longer_polled_holds_up_no_other() {
    let plans = Plans::new("fixed_window 9/d");
    plans.slow_down();
    let api = keyed(&plans);
    let mut first = Box::pin(left(&api, "acme"));
    assert!(poll(&mut first).is_pending());
    let mut second = Box::pin(left(&api, "acme"));
    assert!(poll(&mut second).is_pending());
    plans.go_on();
    assert_eq!(second.await, 8);
    assert_eq!(first.await, 7);
    assert_eq!(plans.queries(), 1);
}

#[tokio::test]
async fn a_maker_that_panics_fails_one_request_and_the_next_one_calls_it_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let api = limiter().keyed(move |_: String| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            tokio::task::yield_now().await;
            assert!(call > 0, "on purpose");
            Ok::<_, std::io::Error>(["fixed_window 9/d"])
        }
    });
    let requests = (0..10).map(|_| {
        let api = api.clone();
        tokio::spawn(async move { left(&api, "acme").await })
    });
    let requests: Vec<_> = requests.collect();
    let mut panics = 0;
    for request in requests {
        panics += usize::from(request.await.is_err());
    }
    assert_eq!((panics, calls.load(Ordering::SeqCst)), (1, 2));
    assert_eq!(left(&api, "acme").await, 0);
}

#[tokio::test]
async fn a_maker_that_panics_before_it_returns_a_future_fails_one_request() {
    let calls = AtomicUsize::new(0);
    let api = limiter().keyed(move |_: String| {
        assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "on purpose");
        std::future::ready(Ok::<_, std::io::Error>(["fixed_window 9/d"]))
    });
    let first = api.clone();
    assert!(tokio::spawn(async move { left(&first, "acme").await }).await.is_err());
    assert_eq!(left(&api, "acme").await, 8);
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}
