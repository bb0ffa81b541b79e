//! An application behind limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::Error;
use actix_web::body::{EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, forward_ready};

use super::middleware::DeniedResponse;
use super::response::{response_of, write};
use super::view::{Answer, View};
use crate::caller::Caller;
use crate::middleware::{Admission, Refusal, Rules, Settled, Verdict};

/// An application behind limits: what [`LimitMiddleware`](super::LimitMiddleware) makes.
pub struct LimitService<S> {
    inner: Rc<S>,
    rules: Arc<Rules>,
    denied: Option<DeniedResponse>,
}

impl<S> LimitService<S> {
    pub(super) const fn new(
        inner: Rc<S>,
        rules: Arc<Rules>,
        denied: Option<DeniedResponse>,
    ) -> Self {
        Self { inner, rules, denied }
    }
}

impl<S, B> Service<ServiceRequest> for LimitService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    type Response = ServiceResponse<EitherBody<B>>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    forward_ready!(inner);

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let (inner, rules) = (Rc::clone(&self.inner), Arc::clone(&self.rules));
        let denied = self.denied.clone();
        Box::pin(async move {
            match admitted(&rules, &request).await {
                Ok((admission, caller)) => served(&*inner, caller, request, admission).await,
                Err(refusal) => Ok(refused(&refusal, request, denied.as_ref())),
            }
        })
    }
}

async fn admitted(
    rules: &Arc<Rules>,
    request: &ServiceRequest,
) -> Result<(Admission, Option<Caller>), Box<Refusal>> {
    let (verdict, caller) = {
        let view = View::new(request.request());
        rules.decide(&view, view.user_name())
    };
    let admission = match verdict {
        Verdict::Admit(admission) => admission.waited().await,
        Verdict::Wait(question) => Rules::wait_for(Arc::clone(rules), *question).await?,
        Verdict::Refuse(refusal) => return Err(refusal),
    };
    Ok((admission, caller))
}

async fn served<S, B>(
    inner: &S,
    caller: Option<Caller>,
    request: ServiceRequest,
    admission: Admission,
) -> Result<ServiceResponse<EitherBody<B>>, Error>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
{
    let answer = match caller {
        None => inner.call(request).await,
        Some(caller) => {
            // A service may do all its work before it returns a future.
            let future = caller.clone().scope_sync(|| inner.call(request));
            caller.scoped(future).await
        }
    };
    let Admission { mut fields, charge, .. } = admission;
    if let Some(due) = charge {
        let told = match due.settle(&Answer(&answer)) {
            Settled::Free => None,
            Settled::Charged(told) => told,
            Settled::Later(charge) => charge.done().await,
        };
        fields = told.unwrap_or(fields);
    }
    let mut response = answer?;
    let status = response.status();
    write(fields, status, response.headers_mut());
    Ok(response.map_into_left_body())
}

fn refused<B>(
    refusal: &Refusal,
    request: ServiceRequest,
    denied: Option<&DeniedResponse>,
) -> ServiceResponse<EitherBody<B>> {
    let standard = response_of(refusal.response(&View::new(request.request())));
    let response = match denied {
        Some(denied) => denied(refusal.why(), standard),
        None => standard,
    };
    request.into_response(response).map_into_right_body()
}

impl<S> fmt::Debug for LimitService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitService").field("rules", &self.rules).finish_non_exhaustive()
    }
}
