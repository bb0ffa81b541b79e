use std::time::Duration;

use sluicegate::decision::HoldFound;
use sluicegate::error::RequestErrorKind;
use sluicegate::{Ask, Usage};

use super::{Plans, keyed, left, limiter};

#[test]
fn now_is_an_error_until_the_numbers_are_known_and_calls_neither_the_maker_nor_the_store() {
    let plans = Plans::new("fixed_window 9/d");
    let api = keyed(&plans);
    for error in [api.check("acme").now().unwrap_err(), api.get("acme").now().unwrap_err()] {
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::WouldBlock);
        assert!(
            error.to_string().contains("end the request by `.await` or `blocking()`"),
            "{error}"
        );
    }
    assert_eq!((plans.queries(), api.len()), (0, 0));
    assert_eq!(api.check("acme").blocking().unwrap().remaining(), Some(8));
    assert_eq!(api.check("acme").now().unwrap().remaining(), Some(7));
}

#[tokio::test]
async fn blocking_waits_for_the_maker_in_a_runtime_of_one_thread() {
    let plans = Plans::new("fixed_window 9/d");
    let api = keyed(&plans);
    assert_eq!(api.check("acme").blocking().unwrap().remaining(), Some(8));
    // An awaited request has called the maker, and can't continue while the thread is blocked.
    plans.slow_down();
    let awaited = {
        let api = api.clone();
        tokio::spawn(async move { left(&api, "other").await })
    };
    super::settle_down().await;
    plans.go_on();
    // So the blocked one calls the maker itself.
    assert_eq!(api.check("other").blocking().unwrap().remaining(), Some(8));
    assert_eq!(awaited.await.unwrap(), 7);
    assert_eq!(plans.queries(), 3);
}

#[tokio::test(start_paused = true)]
async fn each_verb_has_the_numbers_of_its_key() {
    let plans = Plans::new("token_bucket 1/s burst 100");
    let api = keyed(&plans);
    let minute = Duration::from_secs(60);
    assert_eq!(api.peek("a").await.unwrap().remaining(), Some(100));
    assert_eq!(api.take("b").cost(120).await.unwrap().granted(), 100);
    assert_eq!(api.charge("c").cost(7).await.unwrap().remaining(), Some(93));
    assert_eq!(api.refund("c").cost(3).await.unwrap().remaining(), Some(96));
    assert_eq!(api.reset("c").await.unwrap().remaining(), Some(100));
    assert_eq!(api.enforce("d").await.unwrap().remaining(), Some(99));
    assert_eq!(api.check("e").within(minute).await.unwrap().remaining(), Some(99));
    let taken = api.check("f").await.unwrap();
    assert_eq!(api.refund("f").taken_by(&taken).await.unwrap().remaining(), Some(100));
    let reservation = api.reserve(Ask::new("g").cost(5), minute).await.unwrap();
    let receipt = reservation.receipt().unwrap();
    api.forget("g");
    assert!(api.cancel(receipt).await.unwrap());
    let permit = api.permit("h").await.unwrap();
    assert_eq!(permit.remaining(), Some(99));

    let token = api.check("i").cost(50).hold(minute).await.unwrap().into_token().unwrap();
    api.forget("i");
    assert!(api.renew(&token, minute).await.unwrap().is_allowed());
    let settled = api.settle(&token, Usage::of("token_bucket", 20)).await.unwrap();
    assert_eq!((settled.hold_found(), settled.remaining()), (Some(HoldFound::Live), Some(80)));
    assert_eq!(api.get("i").await.unwrap().peek("j").await.unwrap().remaining(), Some(100));
}

#[tokio::test]
async fn a_permit_is_released_with_the_numbers_that_it_was_given_by() {
    let plans = Plans::new("concurrency 2 hold 30s");
    let api = keyed(&plans);
    let permit = api.permit("acme").await.unwrap();
    assert_eq!(permit.remaining(), Some(1));
    plans.fail("connection refused");
    api.forget("acme");
    drop(permit);
    plans.fail(None);
    assert_eq!(api.peek("acme").await.unwrap().remaining(), Some(2));
}

#[tokio::test]
async fn bans_are_those_of_the_limit() {
    let limit = limiter().limit().banning("2/1min for 15min".parse().ok());
    let api = sluicegate::Limiter::new(sluicegate::MemoryStore::new(), limit);
    let api = api.keyed(Plans::new("fixed_window 1/d").maker());
    for _ in 0..3 {
        let _ = api.check("acme").await.unwrap();
    }
    assert!(api.check("acme").await.unwrap().ban().is_some());
    let banned = api.bans(sluicegate::admin::Page::first()).await.unwrap();
    assert_eq!(banned.entries().len(), 1);
}
