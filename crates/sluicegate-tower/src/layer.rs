//! What is put around a service.

use std::fmt;

use http::Response;
use sluicegate::middleware::{Middleware, builder_methods};
use sluicegate::{Denied, Gate};
use tower_layer::Layer;

use crate::denied_response::{ProblemBody, WithoutBody};
use crate::service::LimitService;

/// Asks one or several limits about every request before it reaches the service.
///
/// The layer and its services are clones of each other in all that matters: they ask the same
/// gate, so it makes no difference how often a server clones them.
#[derive(Clone)]
#[must_use]
pub struct LimitLayer<D = ProblemBody> {
    middleware: Middleware,
    denied: D,
}

impl LimitLayer {
    /// Asks `gate` about every request: a [`Gate`], or a [`Limiter`](sluicegate::Limiter) that is no
    /// registry's. The key is made as the configuration says, from the client's address unless
    /// told.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self::from(Middleware::new(gate))
    }
}

impl<D> LimitLayer<D> {
    builder_methods!(middleware);

    /// What is sent to those that are turned away: a function of the denial and the standard
    /// response, whose status and fields can be kept. Fits any body.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    /// use sluicegate_tower::LimitLayer;
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// let layer = LimitLayer::new(registry.gate("demo"))
    ///     .denied_response(|denied, standard| standard.map(|_| format!("Slow down: {denied}\n")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn denied_response<F, R>(self, response: F) -> LimitLayer<F>
    where
        F: Fn(&Denied, Response<String>) -> Response<R> + Clone,
    {
        LimitLayer { middleware: self.middleware, denied: response }
    }

    /// Denials without bodies, for services whose bodies can't be made from text: for tonic,
    /// whose denials are statuses of gRPC.
    pub fn without_bodies(self) -> LimitLayer<WithoutBody> {
        LimitLayer { middleware: self.middleware, denied: WithoutBody }
    }
}

/// A middleware that was told elsewhere what to do.
impl From<Middleware> for LimitLayer {
    fn from(middleware: Middleware) -> Self {
        Self { middleware, denied: ProblemBody }
    }
}

impl<S, D: Clone> Layer<S> for LimitLayer<D> {
    type Service = LimitService<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitService::new(inner, self.middleware.clone(), self.denied.clone())
    }
}

impl<D> fmt::Debug for LimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").field("middleware", &self.middleware).finish_non_exhaustive()
    }
}
