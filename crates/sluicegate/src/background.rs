//! Work that remains when a value is dropped.

use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};

use sluicegate_core::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// The number of tasks that are still giving something back.
static PENDING: LazyLock<watch::Sender<usize>> = LazyLock::new(|| watch::Sender::new(0));

/// Waits until dropped values have given back their units: turns of callers that stopped waiting, queue positions, and
/// permits.
///
/// A runtime that ends earlier stops this work. Then the units return when their holds expire, or not at all. So await
/// this function before a program ends, with a timeout, because the release to a store that is down is repeated.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Limiter, MemoryStore};
///
/// let jobs = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("jobs", ["concurrency 1 hold 30s"])?);
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// drop(jobs.permit("acme").await?);
/// tokio::time::timeout(Duration::from_secs(1), sluicegate::testing::given_back()).await?;
/// assert!(jobs.permit("acme").await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn given_back() {
    // The sender is never dropped.
    let _ = PENDING.subscribe().wait_for(|pending| *pending == 0).await;
}

/// Finishes the remaining work of a dropped value: immediately if it doesn't have to wait, otherwise in the background
/// of a runtime. Without a runtime, work that has to wait is not done.
pub(crate) fn finish(mut work: BoxFuture<'static, ()>, runtime: Option<&Handle>) {
    // A store that answers immediately needs no runtime.
    let entered = runtime.map(Handle::enter);
    let done = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(entered);
    if let (Poll::Pending, Some(runtime)) = (done, runtime) {
        spawn(runtime, work);
    }
}

/// Runs work in the background that [`given_back`] waits for.
pub(crate) fn spawn(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    PENDING.send_modify(|pending| *pending += 1);
    let counted = Counted;
    drop(runtime.spawn(async move {
        work.await;
        drop(counted);
    }));
}

/// One of the [`PENDING`] tasks. A runtime that ends drops it too.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        PENDING.send_modify(|pending| *pending = pending.saturating_sub(1));
    }
}
