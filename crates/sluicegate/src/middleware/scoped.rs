//! The future of a handler.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::task::futures::TaskLocalFuture;

use crate::caller::Caller;

pin_project! {
    /// The future of a handler, in the scope of its request's [`Caller`]. Returned by
    /// [`Admission::run`](super::Admission::run).
    #[must_use = "futures do nothing unless polled"]
    pub struct Scoped<F> {
        #[pin]
        inner: Inner<F>,
    }
}

pin_project! {
    #[project = InnerProjection]
    enum Inner<F> {
        Nobodys { #[pin] future: F },
        Of { #[pin] future: TaskLocalFuture<Caller, F> },
    }
}

impl<F: Future> Scoped<F> {
    pub(super) const fn nobodys(future: F) -> Self {
        Self { inner: Inner::Nobodys { future } }
    }

    pub(super) fn of(caller: Caller, future: F) -> Self {
        Self { inner: Inner::Of { future: caller.scoped(future) } }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.project().inner.project() {
            InnerProjection::Nobodys { future } => future.poll(context),
            InnerProjection::Of { future } => future.poll(context),
        }
    }
}

impl<F> fmt::Debug for Scoped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scoped").finish_non_exhaustive()
    }
}
