//! The tower layer.

use std::fmt;

use http::Response;
use sluicegate::http::RequestView;
use sluicegate::middleware::{Choice, Middleware, builder_methods};
use sluicegate::{Denied, Gate};
use tower_layer::Layer;

use crate::denied_response::{ProblemBody, WithoutBody};
use crate::service::LimitService;

/// A layer that checks one or several limits before each request reaches the service.
///
/// The layer and all of its services share one gate, so the number of clones that a server makes
/// doesn't matter.
#[derive(Clone)]
#[must_use]
pub struct LimitLayer<D = ProblemBody> {
    middleware: Middleware,
    denied: D,
}

impl LimitLayer {
    /// Checks `gate` for every request: a [`Gate`], or a [`Limiter`](sluicegate::Limiter) without a
    /// registry. The configuration defines the key; the default is the client's address.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self::from(Middleware::new(gate))
    }

    /// Asks the gate that `choose` returns for a request, or a future of it. See
    /// [`Middleware::by`](sluicegate::middleware::Middleware::by).
    ///
    /// ```
    /// use sluicegate::http::{KeyExpression, KeyExtractor as _};
    /// use sluicegate::{Config, Registry};
    /// use sluicegate_tower::LimitLayer;
    ///
    /// let config = "limits: {api: {key: \"header:x-tenant\", policies: [gcra 1/s]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let plans = registry.keyed("api", async |tenant: String| match tenant.as_str() {
    ///     "acme" => Ok(["gcra 500/s"]),
    ///     _ => Err("there is no such tenant"),
    /// });
    /// let tenant: KeyExpression = "header:x-tenant".parse()?;
    /// let layer = LimitLayer::by(move |request| {
    ///     let (plans, tenant) = (plans.clone(), tenant.key(request));
    ///     async move { Ok::<_, Box<dyn Error + Send + Sync>>(plans.get(tenant?.as_bytes()).await?) }
    /// });
    /// # let _ = layer;
    /// # use std::error::Error;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by<C: Choice>(choose: impl Fn(&dyn RequestView) -> C + Send + Sync + 'static) -> Self {
        Self::from(Middleware::by(choose))
    }
}

impl<D> LimitLayer<D> {
    builder_methods!(middleware);

    /// Sets the response to refused requests: a function of the denial and the standard response,
    /// whose status and fields it can keep. Works with any body.
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

    /// Refuses requests without a body, for services whose bodies can't be made from text. Such a
    /// service is tonic's, where a gRPC status needs no body.
    pub fn without_bodies(self) -> LimitLayer<WithoutBody> {
        LimitLayer { middleware: self.middleware, denied: WithoutBody }
    }
}

/// Uses a [`Middleware`] that is already configured.
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
