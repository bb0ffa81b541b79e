//! Admitted requests.

use std::future::Future;
use std::time::Duration;

use sluicegate_http::{LimitFields, PreparedFields};

use super::after_response::{AfterResponse, Settled};
use super::authorize::wait_for_turn;
use super::in_flight::InFlight;
use super::response_view::ResponseView;
use super::scoped::Scoped;
use super::settling::Settling;
use super::tail::Tail;
use crate::caller::Caller;

/// An admitted request: [run](Self::run) its handler, and [settle](Self::settle) it with the response.
///
/// Keep it as long as the request is served. Dropping it without settling means that there was no response. Then the
/// request's units stay taken, and with charging [after the response](super::Middleware::charge_after) it costs
/// [`Middleware::charge_unanswered`](super::Middleware::charge_unanswered).
#[derive(Debug, Default)]
#[must_use = "without a response the request is charged all the same"]
pub struct Admission {
    /// The caller of the handler, unless switched off.
    pub(super) caller: Option<Caller>,
    /// The response fields, unless charging comes after the response.
    pub(super) fields: PreparedFields,
    /// The wait before the request is served.
    pub(super) wait: Duration,
    /// The work after the response.
    pub(super) due: Option<AfterResponse>,
    /// The work until the body has ended.
    pub(super) tail: Tail,
}

impl Admission {
    /// Returns the caller that the handler runs for; `None` if that is switched off
    /// ([`Middleware::caller`](super::Middleware::caller)). It is for frameworks with hooks before and after a handler,
    /// where [`run`](Self::run) doesn't apply.
    #[must_use]
    pub const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns the hold of the request while it is served, if any. Put a clone into the request's extensions before you
    /// [run](Self::run) the handler.
    #[must_use]
    pub fn in_flight(&self) -> Option<&InFlight> {
        self.tail.in_flight()
    }

    /// Returns the remaining work until the body of the response has ended. Take it before [`settle`](Self::settle),
    /// and keep it next to the body. An adapter that can't follow bodies may drop it when the response is sent.
    pub fn tail(&mut self, response: &dyn ResponseView) -> Tail {
        let mut tail = std::mem::take(&mut self.tail);
        tail.answered(response);
        tail
    }

    /// Calls the handler now, and returns its future; both run for the request's [`Caller`].
    pub fn run<F: Future>(&self, handler: impl FnOnce() -> F) -> Scoped<F> {
        match &self.caller {
            None => Scoped::nobodys(handler()),
            Some(caller) => {
                // A handler may do all of its work before it returns a future.
                let future = caller.clone().scope_sync(handler);
                Scoped::of(caller.clone(), future)
            }
        }
    }

    /// Charges for the response or gives back the request's units, if the middleware is configured to. Resolves to the
    /// response fields about the limits.
    ///
    /// Write them to the response before sending it. A redirection has none, but 304 (Not Modified) has.
    pub fn settle(self, response: &dyn ResponseView) -> Settling {
        let Self { mut fields, due, tail, .. } = self;
        // The adapter doesn't follow bodies.
        drop(tail);
        let settled = due.map_or(Settled::Done(None), |due| due.settle(response));
        let applies = LimitFields::apply_to(response.status());
        if !applies {
            fields = PreparedFields::default();
        }
        match settled {
            Settled::Done(told) => Settling::done(told.filter(|_| applies).unwrap_or(fields)),
            Settled::Later(later) => {
                Settling::later(fields, async move { later.done().await.filter(|_| applies) })
            }
        }
    }

    /// Waits for its turn, and returns the admission.
    pub(super) async fn waited(self) -> Self {
        wait_for_turn(self.wait).await;
        self
    }
}
