//! What a client is told when its response is there.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sluicegate_http::ReadyFields;

/// The response fields that tell a client of the limits, as soon as its response is charged. Where
/// there is nothing to wait for, it is ready when it is first polled.
#[must_use = "futures do nothing unless polled"]
pub struct Settling {
    fields: ReadyFields,
    charging: Option<Charging>,
}

/// What a client is told instead, if that is known.
type Charging = Pin<Box<dyn Future<Output = Option<ReadyFields>> + Send>>;

impl Settling {
    pub(super) const fn done(fields: ReadyFields) -> Self {
        Self { fields, charging: None }
    }

    pub(super) fn later(
        fields: ReadyFields,
        charging: impl Future<Output = Option<ReadyFields>> + Send + 'static,
    ) -> Self {
        Self { fields, charging: Some(Box::pin(charging)) }
    }
}

impl Future for Settling {
    type Output = ReadyFields;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReadyFields> {
        if let Some(charging) = &mut self.charging {
            let told = ready!(charging.as_mut().poll(context));
            self.charging = None;
            if let Some(told) = told {
                return Poll::Ready(told);
            }
        }
        Poll::Ready(mem::take(&mut self.fields))
    }
}

impl fmt::Debug for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settling").field("fields", &self.fields).finish_non_exhaustive()
    }
}
