//! What is left to do when its caller is gone.

use std::task::{Context, Poll, Waker};

use sluicegate_core::BoxFuture;
use tokio::runtime::Handle;

/// Finishes what a value has left to do that is dropped: at once where that takes no waiting, else in the
/// background of a runtime, and without one not at all.
pub(crate) fn finish(mut work: BoxFuture<'static, ()>, runtime: Option<&Handle>) {
    // A store that answers immediately needs no runtime.
    let entered = runtime.map(Handle::enter);
    let done = work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(entered);
    if let (Poll::Pending, Some(runtime)) = (done, runtime) {
        runtime.spawn(work);
    }
}
