//! Polling for the effect of another process, thread or task, for at most one minute.
//!
//! ```
//! use sluicegate_testkit::wait::until;
//!
//! let mut seen = 0;
//! let found = until("three", || {
//!     seen += 1;
//!     if seen == 3 { Ok("it is there") } else { Err(seen) }
//! });
//! assert_eq!(found, "it is there");
//! ```

use std::fmt::Debug;
use std::future::poll_fn;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any successful wait, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Calls `look` until it returns `Ok`. Its error is what it sees until then.
///
/// # Panics
/// Panics after a minute, with `what` and the last error.
#[track_caller]
pub fn until<T, S: Debug>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    let patience = Patience::begin();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => patience.check(what, &seen),
        }
        thread::yield_now();
    }
}

/// Polls like [`until`], with pauses between looks, because a look takes processor time that the
/// others need.
///
/// # Panics
/// Panics like [`until`].
#[track_caller]
pub fn until_seldom<T, S: Debug>(what: &str, mut look: impl FnMut() -> Result<T, S>) -> T {
    until(what, || look().inspect_err(|_| thread::park_timeout(PACE)))
}

/// Polls like [`until`] in a task, and lets other tasks run between looks.
///
/// # Panics
/// Panics like [`until`].
pub async fn until_async<T, S: Debug>(
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, S>,
) -> T {
    let patience = Patience::begin();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => patience.check(what, &seen),
        }
        let mut has_yielded = false;
        poll_fn(|context| {
            if has_yielded {
                return Poll::Ready(());
            }
            has_yielded = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

/// The pause between two expensive looks.
const PACE: Duration = Duration::from_millis(10);

struct Patience(Instant);

impl Patience {
    #[expect(
        clippy::disallowed_methods,
        reason = "the wait depends on real time, not on a driven clock"
    )]
    fn begin() -> Self {
        Self(Instant::now())
    }

    #[track_caller]
    fn check(&self, what: &str, seen: &impl Debug) {
        let waited = self.0.elapsed();
        assert!(waited < PATIENCE, "{what}: not within {PATIENCE:?}; seen last: {seen:?}");
    }
}
