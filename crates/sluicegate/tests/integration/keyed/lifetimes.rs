use std::num::NonZeroUsize;
use std::time::Duration;

use tokio::time::advance;

use super::{Plans, keyed, left, settle_down};

#[tokio::test(start_paused = true)]
async fn numbers_are_made_again_after_their_time_and_old_ones_count_until_then() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans).ttl(Duration::from_secs(60));
    assert_eq!(left(&api, "acme").await, 9);
    plans.change("fixed_window 20/d");
    advance(Duration::from_secs(53)).await;
    assert_eq!(left(&api, "acme").await, 8);
    settle_down().await;
    assert_eq!(plans.queries(), 1, "a tenth early at most");

    advance(Duration::from_secs(7)).await;
    plans.slow_down();
    for left_now in (3..8).rev() {
        assert_eq!(left(&api, "acme").await, left_now, "a slow database delays no request");
        settle_down().await;
        advance(Duration::from_secs(5)).await;
    }
    assert_eq!(plans.queries(), 2, "one query at a time");
    let tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks, 1, "and one task, however long the query takes");
    plans.go_on();
    settle_down().await;
    assert_eq!(left(&api, "acme").await, 12, "20, and 8 are used");
    assert_eq!(plans.queries(), 2);
}

#[tokio::test(start_paused = true)]
async fn numbers_stay_for_five_minutes_unless_the_program_says_otherwise() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans);
    assert_eq!(left(&api, "acme").await, 9);
    for (pause, queries) in [(269, 1), (31, 2)] {
        advance(Duration::from_secs(pause)).await;
        left(&api, "acme").await;
        settle_down().await;
        assert_eq!(plans.queries(), queries);
    }
}

#[tokio::test(start_paused = true)]
async fn a_time_of_zero_or_of_a_thousand_years_saturates() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans).ttl(Duration::ZERO);
    assert_eq!(left(&api, "acme").await, 9);
    assert_eq!(left(&api, "acme").await, 8, "1 ms hasn't passed");
    assert_eq!(plans.queries(), 1);
    let api = keyed(&plans).ttl(Duration::from_secs(1_000 * 366 * 86_400));
    assert_eq!(left(&api, "acme").await, 9);
    advance(Duration::from_secs(365 * 86_400)).await;
    assert_eq!(left(&api, "acme").await, 8);
    let forever = keyed(&plans).ttl(Duration::MAX);
    assert_eq!(left(&forever, "acme").await, 9);
}

#[tokio::test]
async fn forgetting_a_key_lets_the_next_request_wait_for_new_numbers_and_keeps_its_units() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans);
    assert!(!api.forget("acme"), "it isn't known");
    assert_eq!((left(&api, "acme").await, left(&api, "other").await), (9, 9));
    plans.change("fixed_window 100/d");
    assert_eq!(left(&api, "acme").await, 8);
    assert!(api.forget("acme"));
    assert_eq!((left(&api, "acme").await, left(&api, "other").await), (97, 8));
    plans.change("fixed_window 5/d");
    api.forget_all();
    assert!(api.is_empty());
    assert_eq!((left(&api, "acme").await, left(&api, "other").await), (1, 2));
    assert_eq!((plans.queries(), api.len()), (5, 2));
}

#[tokio::test]
async fn forgetting_the_numbers_of_a_deleted_key_forgets_them_even_if_the_maker_fails() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans);
    assert_eq!(left(&api, "acme").await, 9);
    assert!(api.forget("acme"));
    plans.fail("there is no such tenant");
    assert!(api.check("acme").await.is_err());
}

#[tokio::test]
async fn numbers_that_were_being_made_when_their_key_was_forgotten_are_not_kept() {
    let plans = Plans::new("fixed_window 10/d");
    plans.slow_down();
    let api = keyed(&plans);
    let early = {
        let api = api.clone();
        tokio::spawn(async move { left(&api, "acme").await })
    };
    settle_down().await;
    assert!(api.forget("acme"));
    plans.change("fixed_window 100/d");
    plans.answer_new_queries();
    assert_eq!(left(&api, "acme").await, 99, "the late request has a query of its own");
    plans.go_on();
    assert_eq!(early.await.unwrap(), 8, "the numbers of its query");
    assert_eq!(left(&api, "acme").await, 97);
    assert_eq!(plans.queries(), 2);
}

#[tokio::test]
async fn a_key_that_leaves_at_the_bound_keeps_its_units() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans).capacity(NonZeroUsize::new(10).unwrap());
    assert_eq!(left(&api, "acme").await, 9);
    for number in 0..1_000 {
        left(&api, &number.to_string()).await;
        assert!(api.len() <= 10);
    }
    assert_eq!(plans.queries(), 1_001);
    assert_eq!(left(&api, "acme").await, 8);
    assert_eq!(plans.queries(), 1_002, "its numbers were made again");
}

#[tokio::test]
async fn the_key_that_was_used_the_longest_time_ago_leaves() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans).capacity(NonZeroUsize::new(2).unwrap());
    for key in ["a", "b", "a", "c", "a", "d", "a"] {
        left(&api, key).await;
    }
    assert_eq!(plans.queries(), 4, "each once");
}

/// Clients choose keys.
#[tokio::test]
async fn keys_without_numbers_evict_none_with_numbers() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans).capacity(NonZeroUsize::new(1).unwrap());
    assert_eq!(left(&api, "acme").await, 9);
    assert!(api.check("nobody").await.is_err());
    assert_eq!(left(&api, "acme").await, 8);
    assert_eq!(plans.queries(), 2);
}

#[tokio::test]
async fn the_numbers_of_ten_thousand_keys_stay_and_very_long_keys_have_them_made_each_time() {
    let plans = Plans::new("fixed_window 10/d");
    let api = keyed(&plans);
    for number in 0..10_100 {
        left(&api, &number.to_string()).await;
    }
    assert_eq!((plans.queries(), api.len()), (10_100, 10_000));
    let long = "x".repeat(100_000);
    assert_eq!((left(&api, &long).await, left(&api, &long).await), (9, 8));
    assert_eq!((plans.queries(), api.len()), (10_102, 10_000));
}
