//! Waiting for an instant, inside and outside of a tokio runtime.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
#[cfg(feature = "config")]
use std::time::Duration;

use sluicegate_core::for_stores::Driver;
use tokio::time::{Instant, Sleep};

/// Waits until `then`: by the clock of the caller's runtime, or outside of any, by the driver.
pub(crate) async fn sleep_until(then: Instant) {
    match timer(then) {
        Some(timer) => timer.await,
        // No thread could be started for the driver, so this one waits.
        None => std::thread::park_timeout(then.saturating_duration_since(Instant::now())),
    }
}

/// Waits as long as `pause`.
#[cfg(feature = "config")]
pub(crate) async fn sleep(pause: Duration) {
    sleep_until(Instant::now() + pause).await;
}

/// Waits for the future, at most until `then`. Returns its output, or `None` if the time is up.
pub(crate) async fn timeout_at<F: Future>(then: Instant, future: F) -> Option<F::Output> {
    let (mut future, mut time) = (pin!(future), pin!(sleep_until(then)));
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => time.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// Returns a timer. It keeps the runtime that it is made in, so any executor can await it.
fn timer(then: Instant) -> Option<Sleep> {
    let _entered = Driver::enter_outside().ok()?;
    Some(tokio::time::sleep_until(then))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(2);

    #[test]
    fn outside_of_a_runtime_the_driver_waits() {
        let start = Instant::now();
        pollster::block_on(sleep_until(start + SOON));
        assert!(start.elapsed() >= SOON);
        let never = std::future::pending::<()>();
        assert_eq!(pollster::block_on(timeout_at(Instant::now() + SOON, never)), None);
        let far = Instant::now() + Duration::from_secs(3_600);
        assert_eq!(pollster::block_on(timeout_at(far, async { 7 })), Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn inside_of_a_runtime_its_clock_counts() {
        let start = Instant::now();
        sleep_until(start + Duration::from_secs(3_600)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(3_600));
    }
}
