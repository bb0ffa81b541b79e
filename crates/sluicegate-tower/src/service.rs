//! A service behind limits.

use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use sluicegate::middleware::{Middleware, Pending, Refusal, Verdict};
use tower_service::Service;

use crate::body::LimitBody;
use crate::denied_response::DeniedResponse;
use crate::future::{LimitFuture, Waiter};
use crate::view::View;

/// A service behind limits, made by [`LimitLayer`](crate::LimitLayer).
///
/// It is ready when the inner service is. A refused request never reaches the inner service, which
/// gets back what it had reserved for it.
#[derive(Clone)]
pub struct LimitService<S, D> {
    inner: S,
    middleware: Middleware,
    denied: D,
}

impl<S, D> LimitService<S, D> {
    pub(super) const fn new(inner: S, middleware: Middleware, denied: D) -> Self {
        Self { inner, middleware, denied }
    }

    /// Returns the inner service.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service, for changes.
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Returns the inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, D, B, R> Service<Request<B>> for LimitService<S, D>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    D: DeniedResponse<R> + Clone,
{
    type Response = Response<LimitBody<R>>;
    type Error = S::Error;
    type Future = LimitFuture<S, B, D>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.middleware.decide(&View::of(&request)) {
            Verdict::Admit(admission) => LimitFuture::serving(&mut self.inner, request, admission),
            Verdict::Wait(pending) => self.wait(pending, request),
            Verdict::Refuse(refusal) => self.refuse(&refusal, &request),
        }
    }
}

impl<S: Clone, D: Clone> LimitService<S, D> {
    /// Takes the service that was polled ready, since a clone isn't.
    fn take_ready(&mut self) -> S {
        let clone = self.inner.clone();
        std::mem::replace(&mut self.inner, clone)
    }

    fn wait<B>(&mut self, pending: Pending, request: Request<B>) -> LimitFuture<S, B, D>
    where
        S: Service<Request<B>>,
    {
        let waiter = Waiter { service: self.take_ready(), denied: self.denied.clone(), request };
        LimitFuture::waiting(pending, waiter)
    }

    fn refuse<B, R>(&mut self, refusal: &Refusal, request: &Request<B>) -> LimitFuture<S, B, D>
    where
        S: Service<Request<B>, Response = Response<R>>,
        D: DeniedResponse<R>,
    {
        // Drop the service that was ready for this request.
        drop(self.take_ready());
        let standard = refusal.response(&View::of(request));
        LimitFuture::done(self.denied.response(refusal.denied(), standard))
    }
}

impl<S: fmt::Debug, D> fmt::Debug for LimitService<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService")
            .field("inner", &self.inner)
            .field("middleware", &self.middleware)
            .finish_non_exhaustive()
    }
}
