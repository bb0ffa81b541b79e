//! The future of an answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use sluicegate_core::{BoxFuture, Decision, Error};

pin_project! {
    /// A call to the store, which is sent immediately or after pending charges.
    #[project = Projected]
    pub(super) enum Asking<'a, F> {
        Plain { #[pin] plain: F },
        AfterCharging { boxed: BoxFuture<'a, Result<Decision, Error>> },
    }
}

impl<F: Future<Output = Result<Decision, Error>>> Future for Asking<'_, F> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            Projected::Plain { plain } => plain.poll(context),
            Projected::AfterCharging { boxed } => boxed.as_mut().poll(context),
        }
    }
}
