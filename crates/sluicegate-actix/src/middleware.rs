//! What is put around an application, a scope or a resource.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;
use std::sync::Arc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::{Error, HttpResponse};
use sluicegate::middleware::{Middleware, builder_methods};
use sluicegate::{Denied, Gate};

use crate::service::LimitService;

pub(super) type DeniedResponse = Arc<dyn Fn(&Denied, HttpResponse) -> HttpResponse + Send + Sync>;

/// Asks one or several limits about every request before it reaches the application.
///
/// Make it outside of the application's factory and clone it inside: the factory runs once for
/// each worker.
#[derive(Clone)]
#[must_use]
pub struct LimitMiddleware {
    middleware: Middleware,
    denied: Option<DeniedResponse>,
}

impl LimitMiddleware {
    /// Asks `gate` about every request: a [`Gate`], or a [`Limiter`](sluicegate::Limiter) that is no
    /// registry's. The key is made as the configuration says, from the client's address unless
    /// told.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self::from(Middleware::new(gate))
    }

    builder_methods!(middleware);

    /// What is sent to those that are turned away: a function of the denial and the standard
    /// response, whose status and fields can be kept.
    pub fn denied_response(
        self,
        response: impl Fn(&Denied, HttpResponse) -> HttpResponse + Send + Sync + 'static,
    ) -> Self {
        Self { denied: Some(Arc::new(response)), ..self }
    }
}

/// A middleware that was told elsewhere what to do.
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
    type Response = ServiceResponse<EitherBody<B>>;
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
