//! Durations of zero, and of a thousand years.

use super::*;

const AGES: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);

#[tokio::test(start_paused = true)]
async fn a_wait_of_zero_does_not_wait_and_one_of_a_thousand_years_ends_with_its_turn() {
    for policy in ["token_bucket 1/s burst 1", "sliding_log 1/s"] {
        let limiter = limiter(&[policy]);
        for jitter in [NO_TIME, AGES] {
            let wait = |longest| limiter.check("k").within(longest).jitter(jitter);
            let _ = limiter.check("k").await.unwrap();
            assert!(wait(NO_TIME).await.unwrap().is_denied());
        }
        assert!(limiter.check("k").within(AGES).await.unwrap().is_allowed());
        assert!(limiter.enforce("k").within(AGES).await.is_ok());
    }
    let limiter = limiter(&["concurrency 1 hold 1min"]);
    let first = limiter.permit("k").within(AGES).jitter(AGES).max_life(NO_TIME).await.unwrap();
    assert!(first.is_allowed());
    assert!(limiter.permit("k").within(NO_TIME).jitter(AGES).await.unwrap().is_denied());
    first.lost().await;
    let next = limiter.permit("k").within(AGES).max_life(AGES).await.unwrap();
    assert!(next.is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_within_zero_or_a_thousand_years_is_decided() {
    let limiter = limiter(&["token_bucket 1/s burst 1"]);
    assert!(limiter.reserve("k", NO_TIME).await.unwrap().is_allowed());
    assert!(limiter.reserve("k", NO_TIME).await.unwrap().is_denied());
    assert!(limiter.reserve("k", AGES).await.unwrap().is_allowed());
}

#[tokio::test(start_paused = true)]
async fn a_time_to_keep_something_that_is_out_of_range_is_refused_with_the_range() {
    let limiter = limiter(&["token_bucket 1/s burst 9"]);
    let permits = super::limiter(&["concurrency 9 hold 30s"]);
    let banning = Limiter::new(
        MemoryStore::new(),
        Limit::new("l", ["gcra 1/s"]).unwrap().banning("5/min for 15min".parse::<Ban>().unwrap()),
    );
    for lasts in [NO_TIME, AGES] {
        let hold = limiter.check("k").hold(lasts).await.unwrap_err();
        let waiting = limiter.check("k").hold(lasts).within(AGES).await.unwrap_err();
        let permit = permits.permit("k").lasts(lasts).await;
        let known = limiter.check("k").id("order-17").known_for(lasts).await.unwrap_err();
        let ban = banning.ban("k", lasts).await.unwrap_err();
        for (error, range) in [
            (hold, "from 1ms to 1d"),
            (waiting, "from 1ms to 1d"),
            (known, "from 1s to 1d"),
            (ban, "from 1s to 30d"),
        ] {
            let text = error.to_string();
            assert!(text.contains(range), "{text}");
            assert_eq!(request_error(&error), RequestErrorKind::Invalid);
        }
        if lasts.is_zero() {
            assert!(permit.unwrap_err().to_string().contains("1ms"));
        }
    }
}
