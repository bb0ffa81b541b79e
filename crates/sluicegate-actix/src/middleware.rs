//! The middleware for an application, a scope or a resource.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpResponse};
use sluicegate::http::RequestView;
use sluicegate::middleware::{Choice, Middleware, builder_methods};
use sluicegate::{Denied, Gate};

use crate::body::LimitBody;
use crate::denied_response::DeniedResponse;
use crate::service::LimitService;

/// A middleware that checks one or several limits before each request reaches the application.
///
/// Create it outside of the application's factory and clone it inside, because the factory runs
/// once per worker.
#[derive(Clone)]
#[must_use]
pub struct LimitMiddleware {
    middleware: Middleware,
    denied: Option<DeniedResponse>,
}

impl LimitMiddleware {
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
    /// use sluicegate_actix::LimitMiddleware;
    ///
    /// let config = "limits: {api: {key: \"header:x-tenant\", policies: [gcra 1/s]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let plans = registry.keyed("api", async |tenant: String| match tenant.as_str() {
    ///     "acme" => Ok(["gcra 500/s"]),
    ///     _ => Err("there is no such tenant"),
    /// });
    /// let tenant: KeyExpression = "header:x-tenant".parse()?;
    /// let middleware = LimitMiddleware::by(move |request| {
    ///     let (plans, tenant) = (plans.clone(), tenant.key(request));
    ///     async move { Ok::<_, Box<dyn Error + Send + Sync>>(plans.get(tenant?.as_bytes()).await?) }
    /// });
    /// # let _ = middleware;
    /// # use std::error::Error;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by<C: Choice>(choose: impl Fn(&dyn RequestView) -> C + Send + Sync + 'static) -> Self {
        Self::from(Middleware::by(choose))
    }

    builder_methods!(middleware);

    /// Sets the response to refused requests: a function of the denial and the standard response,
    /// whose status and fields it can keep.
    pub fn denied_response(
        self,
        response: impl Fn(&Denied, HttpResponse) -> HttpResponse + Send + Sync + 'static,
    ) -> Self {
        Self { denied: Some(Arc::new(response)), ..self }
    }
}

/// Uses a [`Middleware`] that is already configured.
impl From<Middleware> for LimitMiddleware {
    fn from(middleware: Middleware) -> Self {
        Self { middleware, denied: None }
    }
}

impl<S, B> Transform<S, ServiceRequest> for LimitMiddleware
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<LimitBody<B>>>;
    type Error = Error;
    type Transform = LimitService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, service: S) -> Self::Future {
        let (middleware, denied) = (self.middleware.clone(), self.denied.clone());
        ready(Ok(LimitService::new(Rc::new(service), middleware, denied)))
    }
}

impl fmt::Debug for LimitMiddleware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitMiddleware")
            .field("middleware", &self.middleware)
            .finish_non_exhaustive()
    }
}
