//! The admission of calls.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::body::Body;
use tonic::codegen::Service;

/// The answer to a call. A refusal is an answer too.
pub type Answer = Result<Response<Body>, Infallible>;

/// Admits the calls of Envoy's services. Health checks and reflection are open to all.
pub trait Guard: Clone + Send + Sync + 'static {
    /// Answers a call by `decide`, or refuses it. May add the [`Rights`](super::Rights) of the client to its extensions.
    fn admit<B, D, F>(
        self,
        call: Request<B>,
        decide: D,
    ) -> impl Future<Output = Answer> + Send + 'static
    where
        B: Send + 'static,
        D: FnOnce(Request<B>) -> F + Send + 'static,
        F: Future<Output = Answer> + Send + 'static;
}

/// A guard that admits all calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unguarded;

impl Guard for Unguarded {
    fn admit<B, D, F>(
        self,
        call: Request<B>,
        decide: D,
    ) -> impl Future<Output = Answer> + Send + 'static
    where
        B: Send + 'static,
        D: FnOnce(Request<B>) -> F + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        decide(call)
    }
}

/// A service whose calls are admitted by a guard.
#[derive(Clone)]
pub(super) struct Guarded<S, G> {
    pub(super) service: S,
    pub(super) guard: G,
}

impl<S, G> Guarded<S, G> {
    /// Answers a call. The service must always be ready.
    pub(super) fn answer<B>(
        &self,
        call: Request<B>,
    ) -> impl Future<Output = Answer> + Send + 'static + use<S, G, B>
    where
        S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
        G: Guard,
        B: Send + 'static,
    {
        let mut service = self.service.clone();
        self.guard.clone().admit(call, move |call| service.call(call))
    }
}

impl<S, G, B> Service<Request<B>> for Guarded<S, G>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    G: Guard,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, call: Request<B>) -> Self::Future {
        Box::pin(self.answer(call))
    }
}
