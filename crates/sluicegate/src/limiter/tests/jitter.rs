//! Waits that end a random time later.

use super::*;

const JITTER: Duration = Duration::from_millis(500);
const LONG: Duration = Duration::from_secs(9);

/// Returns how long each of some waits took, which began at the same time.
async fn waits<T, V>(wait: impl Fn(usize) -> Question<'static, T, V>) -> Vec<Duration>
where
    T: Send + Sync + 'static,
    V: Verb<T> + 'static,
    V::Error: fmt::Debug,
{
    fastrand::seed(7);
    let start = Instant::now();
    let wait = |number| {
        let waiting = wait(number).later();
        async move {
            waiting.await.unwrap();
            start.elapsed()
        }
    };
    let (mut tasks, mut took) = (tokio::task::JoinSet::new(), Vec::new());
    (0..50).for_each(|number| drop(tasks.spawn(wait(number))));
    while let Some(ended) = tasks.join_next().await {
        took.push(ended.unwrap());
    }
    took.sort_unstable();
    took
}

fn leaked(policies: &[&str]) -> &'static Limiter<MemoryStore> {
    Box::leak(Box::new(limiter(policies)))
}

/// Uses up each waiter's key. Each has its own, so that only the jitter separates them.
async fn exhaust(limiter: &Limiter<MemoryStore>) {
    for number in 0..50_usize {
        assert!(limiter.check(number).await.unwrap().is_allowed());
    }
}

fn assert_spread(took: &[Duration], least: Duration, most: Duration) {
    let (first, last) = (took[0], took[took.len() - 1]);
    assert!(first >= least && last <= most, "{first:?} to {last:?}");
    assert!(last - first > (most - least) * 3 / 4, "{first:?} to {last:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reservation_is_acted_on_up_to_the_jitter_after_its_instant_and_never_earlier() {
    let limiter = leaked(&["token_bucket 1/s burst 1"]);
    exhaust(limiter).await;
    let took = waits(|number| limiter.check(number).within(LONG).jitter(JITTER)).await;
    assert_spread(&took, Duration::from_secs(1), Duration::from_secs(1) + JITTER);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_delayed_by_up_to_the_jitter() {
    let limiter = leaked(&["sliding_log 1/s"]);
    exhaust(limiter).await;
    let took = waits(|number| limiter.check(number).within(LONG).jitter(JITTER)).await;
    assert_spread(&took, Duration::from_secs(1), Duration::from_secs(1) + JITTER);
}

#[tokio::test(start_paused = true)]
async fn jitter_never_delays_beyond_the_end_of_the_wait() {
    for policy in ["token_bucket 1/s burst 1", "sliding_log 1/s"] {
        let limiter = leaked(&[policy]);
        exhaust(limiter).await;
        let end = Duration::from_millis(1_200);
        let took = waits(|number| limiter.check(number).within(end).jitter(Duration::MAX)).await;
        assert_spread(&took, Duration::from_secs(1), end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_passes_immediately_is_not_delayed() {
    let limiter = limiter(&["token_bucket 1/s burst 1"]);
    let start = Instant::now();
    assert!(limiter.check("k").within(LONG).jitter(JITTER).await.unwrap().is_allowed());
    assert!(start.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_retried_up_to_the_jitter_later() {
    let limiter = limiter(&["concurrency 1 hold 1h"]);
    let running = limiter.permit("k").await.unwrap();
    fastrand::seed(7);
    let start = Instant::now();
    let denied = limiter.permit("k").within(LONG).jitter(Duration::MAX).await.unwrap();
    assert!(denied.is_denied());
    assert_eq!(start.elapsed(), LONG);
    drop(running);
}
