//! A request that was let in.

use std::future::Future;

use sluicegate_core::Span;
use sluicegate_http::{LimitFields, ReadyFields};

use super::due::{Due, Settled};
use super::response_view::ResponseView;
use super::scoped::Scoped;
use super::settling::Settling;
use crate::caller::Caller;

/// A request that was let in: it is [run](Self::run), and [settled](Self::settle) when its
/// response is there.
///
/// Keep it as long as the request is served. Dropped before it is settled, it says that there was
/// no response, and where charging is for afterwards, the request is charged what
/// [`Middleware::charge_unanswered`](super::Middleware::charge_unanswered) says.
#[derive(Debug, Default)]
#[must_use = "without a response the request is charged all the same"]
pub struct Admission {
    /// Whom the handler runs for, if anybody wants to know.
    pub(super) caller: Option<Caller>,
    /// What the client is told, unless it is charged afterwards.
    pub(super) fields: ReadyFields,
    /// How long it waits before it is served.
    pub(super) wait: Span,
    /// What is to be charged when the response is there.
    pub(super) due: Option<Due>,
}

impl Admission {
    /// Whom the handler runs for; `None` where the middleware was told that nobody wants to know
    /// ([`Middleware::caller`](super::Middleware::caller)). For frameworks that have no handler to
    /// be [run](Self::run) but hooks before and after it.
    #[must_use]
    pub const fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Calls the handler, and runs what it returns, for the request's [`Caller`]. The call itself
    /// is made now.
    pub fn run<F: Future>(&self, handler: impl FnOnce() -> F) -> Scoped<F> {
        match &self.caller {
            None => Scoped::nobodys(handler()),
            Some(caller) => {
                // A handler may do all its work before it returns a future.
                let future = caller.clone().scope_sync(handler);
                Scoped::of(caller.clone(), future)
            }
        }
    }

    /// Charges what the response costs, if charging is for afterwards, and says which fields tell
    /// its client of the limits: those belong on the response before it goes out. There are none
    /// for a redirection.
    pub fn settle(self, response: &dyn ResponseView) -> Settling {
        let Self { mut fields, due, .. } = self;
        let settled = due.map_or(Settled::Free, |due| due.settle(response));
        let belong = LimitFields::belong_on(response.status());
        if !belong {
            fields = ReadyFields::default();
        }
        match settled {
            Settled::Free => Settling::done(fields),
            Settled::Charged(told) => Settling::done(told.filter(|_| belong).unwrap_or(fields)),
            Settled::Later(charging) => {
                Settling::later(fields, async move { charging.done().await.filter(|_| belong) })
            }
        }
    }

    /// The same when its turn has come.
    pub(super) async fn waited(self) -> Self {
        if !self.wait.is_zero() {
            tokio::time::sleep(self.wait.into()).await;
        }
        self
    }
}
