//! An application behind limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, forward_ready};
use actix_web::{Error, HttpMessage as _};
use sluicegate::middleware::{Admission, Middleware, Refusal};

use crate::body::LimitBody;
use crate::denied_response::DeniedResponse;
use crate::response::{response_of, write};
use crate::view::{Answer, View};

/// An application behind limits, made by [`LimitMiddleware`](crate::LimitMiddleware).
pub struct LimitService<S> {
    inner: Rc<S>,
    middleware: Middleware,
    denied: Option<DeniedResponse>,
}

impl<S> LimitService<S> {
    pub(super) const fn new(
        inner: Rc<S>,
        middleware: Middleware,
        denied: Option<DeniedResponse>,
    ) -> Self {
        Self { inner, middleware, denied }
    }
}

impl<S, B> Service<ServiceRequest> for LimitService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<LimitBody<B>>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let (inner, denied) = (Rc::clone(&self.inner), self.denied.clone());
        let verdict = self.middleware.decide(&View::new(request.request()));
        Box::pin(async move {
            let admission = {
                let view = View::new(request.request());
                verdict.admission(&view).await
            };
            match admission {
                Ok(admission) => served(&*inner, request, admission).await,
                Err(refusal) => Ok(refused(&refusal, request, denied.as_ref())),
            }
        })
    }
}

async fn served<S, B>(
    inner: &S,
    request: ServiceRequest,
    mut admission: Admission,
) -> Result<ServiceResponse<EitherBody<LimitBody<B>>>, Error>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
{
    if let Some(in_flight) = admission.in_flight() {
        request.extensions_mut().insert(in_flight.clone());
    }
    let answer = admission.run(|| inner.call(request)).await;
    let mut tail = admission.tail(&Answer(&answer));
    if answer.is_err() {
        // The application makes the error's response outside of this middleware.
        tail.failed();
    }
    let fields = admission.settle(&Answer(&answer)).await;
    let mut response = answer?;
    write(fields, response.headers_mut());
    Ok(response.map_body(|_, body| LimitBody::new(body, tail)).map_into_left_body())
}

fn refused<B>(
    refusal: &Refusal,
    request: ServiceRequest,
    denied: Option<&DeniedResponse>,
) -> ServiceResponse<EitherBody<LimitBody<B>>> {
    let standard = response_of(refusal.response(&View::new(request.request())));
    let response = match denied {
        Some(denied) => denied(refusal.denied(), standard),
        None => standard,
    };
    request.into_response(response).map_into_right_body()
}

impl<S> fmt::Debug for LimitService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService").field("middleware", &self.middleware).finish_non_exhaustive()
    }
}
