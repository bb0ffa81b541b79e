//! What is put around a service.

use std::fmt;
use std::sync::Arc;

use http::Response;
use tower_layer::Layer;

use super::denied_response::{ProblemBody, WithoutBody};
use super::service::LimitService;
use crate::denied::Denied;
use crate::middleware::{Rules, builder_methods};
use crate::registry::Gate;

/// Asks one or several limits about every request before it reaches the service.
///
/// The layer and its services are clones of each other in all that matters: they ask the same
/// gate, so it makes no difference how often a server clones them.
#[derive(Clone)]
#[must_use]
pub struct LimitLayer<D = ProblemBody> {
    rules: Arc<Rules>,
    denied: D,
}

impl LimitLayer {
    /// Asks `gate` about every request: a [`Gate`], or a [`Limiter`](crate::Limiter) that is no
    /// registry's. The key is made as the configuration says, from the client's address unless
    /// told.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self { rules: Arc::new(Rules::new(gate.into())), denied: ProblemBody }
    }
}

impl<D> LimitLayer<D> {
    builder_methods!();

    /// What is sent to those that are turned away: a function of the denial and the standard
    /// response, whose status and fields can be kept. Fits any body.
    ///
    /// ```
    /// use sluicegate::{Config, Registry, tower::LimitLayer};
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
        LimitLayer { rules: self.rules, denied: response }
    }

    /// Denials without bodies, for services whose bodies can't be made from text: for tonic,
    /// whose denials are statuses of gRPC.
    pub fn without_bodies(self) -> LimitLayer<WithoutBody> {
        LimitLayer { rules: self.rules, denied: WithoutBody }
    }
}

impl<S, D: Clone> Layer<S> for LimitLayer<D> {
    type Service = LimitService<S, D>;

    fn layer(&self, inner: S) -> Self::Service {
        LimitService::new(inner, Arc::clone(&self.rules), self.denied.clone())
    }
}

impl<D> fmt::Debug for LimitLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitLayer").field("rules", &self.rules).finish_non_exhaustive()
    }
}
