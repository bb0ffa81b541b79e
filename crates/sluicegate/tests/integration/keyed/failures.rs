use std::error::Error as _;

use sluicegate::error::{DeniedReason, RequestErrorKind, StoreErrorKind};

use super::{Down, Plans, keyed, left, limiter, settle_down};
use crate::log;

#[tokio::test]
async fn the_maker_s_error_is_the_cause_of_the_request_s_and_the_next_request_calls_it_again() {
    let plans = Plans::new("fixed_window 9/d");
    plans.fail("connection refused");
    let api = keyed(&plans);
    let error = api.check("acme").await.unwrap_err();
    assert_eq!(error.as_store().unwrap().kind(), StoreErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        "the numbers of limit `api` for the key can't be made, so nothing was charged: connection refused"
    );
    let cause = error.as_store().unwrap().cause().unwrap();
    assert_eq!(cause.downcast_ref::<Down>().unwrap().0, "connection refused");
    assert!(error.source().is_none(), "the message has its text already");
    let denied = api.enforce("acme").await.unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::StoreFailed);
    assert_eq!(denied.to_string().matches("connection refused").count(), 1);
    assert!(denied.source().is_none());
    assert_eq!(denied.problem().status(), 503);
    plans.fail(None);
    assert_eq!(left(&api, "acme").await, 8);
    assert_eq!(plans.queries(), 3);
}

#[tokio::test]
async fn all_requests_that_wait_for_a_run_get_its_error() {
    let plans = Plans::new("fixed_window 9/d");
    plans.fail("connection refused");
    plans.slow_down();
    let api = keyed(&plans);
    let requests = (0..100).map(|_| {
        let api = api.clone();
        tokio::spawn(async move { api.check("acme").await.is_err() })
    });
    let requests: Vec<_> = requests.collect();
    settle_down().await;
    plans.go_on();
    for request in requests {
        assert!(request.await.unwrap());
    }
    assert_eq!(plans.queries(), 1, "a database that is down isn't asked by each of them");
}

#[tokio::test]
async fn numbers_that_form_no_limit_are_an_error() {
    let plans = Plans::new("token_bucket 5/m");
    let api = keyed(&plans);
    let error = api.check("acme").await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
    assert!(error.to_string().starts_with("limit `api`: `m` is ambiguous: write `min`"), "{error}");
    let nothing = limiter().keyed(async |_: String| Ok::<_, Down>([""; 0]));
    let error = nothing.check("acme").await.unwrap_err();
    assert!(error.to_string().contains("at least one policy"), "{error}");
}

#[tokio::test]
async fn a_key_that_the_maker_can_t_take_is_an_error_that_says_what_it_takes() {
    let api = limiter().keyed(async |_: String| Ok::<_, Down>(["gcra 1/s"]));
    let error = api.check(&[0xff_u8][..]).await.unwrap_err();
    assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::UnfitKey);
    assert!(error.to_string().contains("doesn't convert to `alloc::string::String`"), "{error}");

    let ids = limiter().keyed(async |id: [u8; 4]| {
        Ok::<_, Down>([format!("gcra 1/s burst {}", u32::from_be_bytes(id))])
    });
    assert_eq!(ids.check(&7_u32.to_be_bytes()[..]).await.unwrap().remaining(), Some(6));
    assert!(ids.check("acme!").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_key_keeps_its_numbers_if_they_can_t_be_made_again_and_the_log_says_so_once() {
    let plans = Plans::new("fixed_window 99/d");
    let api = keyed(&plans).ttl(std::time::Duration::from_secs(60));
    for key in ["a", "b", "c"] {
        assert_eq!(left(&api, key).await, 98);
    }
    let told = log::warnings_on_this_thread(async {
        for (why, spec) in [("connection refused", "fixed_window 5/d"), ("", "no spec")] {
            plans.fail((!why.is_empty()).then_some(why));
            plans.change(spec);
            tokio::time::advance(std::time::Duration::from_secs(30)).await;
            for key in ["a", "b", "c"] {
                assert!(left(&api, key).await >= 90);
            }
            settle_down().await;
            tokio::time::advance(std::time::Duration::from_secs(30)).await;
            for key in ["a", "b", "c"] {
                assert!(left(&api, key).await >= 90);
            }
            settle_down().await;
        }
    });
    let told = told.await;
    let lines = |why: &str| told.iter().filter(|line| line.contains(why)).count();
    assert_eq!((told.len(), lines("connection refused")), (2, 1), "{told:?}");
    assert!(told[0].contains("a key keeps its old numbers"), "{told:?}");
    assert!(told[1].contains("; left out since the last such line: 5"), "{told:?}");

    plans.change("fixed_window 9/d");
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    assert!(left(&api, "a").await >= 90);
    settle_down().await;
    assert!(left(&api, "a").await <= 9, "the database has recovered");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_down_is_asked_once_a_second_for_a_known_key() {
    let plans = Plans::new("fixed_window 999/d");
    let api = keyed(&plans).ttl(std::time::Duration::from_secs(60));
    assert_eq!(left(&api, "a").await, 998);
    plans.fail("connection refused");
    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    for _ in 0..100 {
        left(&api, "a").await;
        settle_down().await;
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
    }
    assert_eq!(plans.queries(), 1 + 10);
}
