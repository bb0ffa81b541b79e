//! The middleware for an application, a scope or a resource.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpResponse};
use sluicegate::middleware::{Middleware, builder_methods};
use sluicegate::{Denied, Gate};

use crate::body::LimitBody;
use crate::denied_response::DeniedResponse;
use crate::service::LimitService;

/// Checks one or several limits for every request before it reaches the application.
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
