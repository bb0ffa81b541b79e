//! The response fields after the response.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use sluicegate_http::PreparedFields;

/// A future for the response fields, which resolves once the response is charged: at the first poll if there is nothing
/// to wait for. [`Admission::settle`](super::Admission::settle) returns it.
#[must_use = "futures do nothing unless polled"]
pub struct Settling {
    fields: PreparedFields,
    charging: Option<Charging>,
}

/// A future of the fields that replace them, if known.
type Charging = Pin<Box<dyn Future<Output = Option<PreparedFields>> + Send>>;

impl Settling {
    pub(super) const fn done(fields: PreparedFields) -> Self {
        Self { fields, charging: None }
    }

    pub(super) fn later(
        fields: PreparedFields,
        charging: impl Future<Output = Option<PreparedFields>> + Send + 'static,
    ) -> Self {
        Self { fields, charging: Some(Box::pin(charging)) }
    }
}

impl Future for Settling {
    type Output = PreparedFields;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<PreparedFields> {
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
