//! The answer of a service behind limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderName, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use sluicegate_http::{LimitFields, ReadyFields};
use tokio::task::futures::TaskLocalFuture;
use tower_service::Service;

use super::denied_response::DeniedResponse;
use super::view::View;
use crate::caller::Caller;
use crate::middleware::{Admission, Charge, Due, Refusal, ResponseView, Settled};

/// What a store that has to be awaited says in the end.
pub(super) type Waiting = Pin<Box<dyn Future<Output = Result<Admission, Box<Refusal>>> + Send>>;
/// What a client is told when its response is charged.
type Charging = Pin<Box<dyn Future<Output = Option<ReadyFields>> + Send>>;

pin_project! {
    /// The answer of a service behind limits: what [`LimitService`](super::LimitService) returns.
    pub struct LimitFuture<S: Service<Request<B>>, B, D> {
        #[pin]
        state: State<S, B, D>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S: Service<Request<B>>, B, D> {
        /// For the store, or for the request's turn.
        Waiting { verdict: Waiting, waiter: Option<Box<Waiter<S, B, D>>> },
        /// For the service.
        Serving { #[pin] served: Served<S::Future>, fields: ReadyFields, charge: Option<Due> },
        /// For the charge.
        Charging { charging: Charging, fields: ReadyFields, response: Option<S::Response> },
        /// There is nothing to wait for.
        Done { response: Option<S::Response> },
    }
}

pin_project! {
    /// What the service does, with or without knowing whom it is for.
    #[project = ServedProjection]
    enum Served<F> {
        Plain { #[pin] future: F },
        For { #[pin] future: TaskLocalFuture<Caller, F> },
    }
}

/// A request that waits, and the service that was made ready for it. On the heap, so that a request
/// that doesn't wait needn't be moved about with room for it.
pub(super) struct Waiter<S, B, D> {
    pub(super) service: S,
    pub(super) denied: D,
    pub(super) request: Request<B>,
    pub(super) caller: Option<Caller>,
}

impl<S: Service<Request<B>>, B, D> LimitFuture<S, B, D> {
    pub(super) fn waiting(verdict: Waiting, waiter: Waiter<S, B, D>) -> Self {
        Self { state: State::Waiting { verdict, waiter: Some(Box::new(waiter)) } }
    }

    pub(super) fn serving(
        service: &mut S,
        request: Request<B>,
        admission: Admission,
        caller: Option<Caller>,
    ) -> Self {
        Self { state: State::serving(service, request, admission, caller) }
    }

    pub(super) const fn done(response: S::Response) -> Self {
        Self { state: State::Done { response: Some(response) } }
    }
}

impl<S: Service<Request<B>>, B, D> State<S, B, D> {
    fn serving(
        service: &mut S,
        request: Request<B>,
        admission: Admission,
        caller: Option<Caller>,
    ) -> Self {
        let Admission { fields, charge, .. } = admission;
        let served = match caller {
            None => Served::Plain { future: service.call(request) },
            Some(caller) => {
                // A service may do all its work before it returns a future.
                let future = caller.clone().scope_sync(|| service.call(request));
                Served::For { future: caller.scoped(future) }
            }
        };
        Self::Serving { served, fields, charge }
    }
}

impl<F: Future> Future for Served<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        match self.project() {
            ServedProjection::Plain { future } => future.poll(context),
            ServedProjection::For { future } => future.poll(context),
        }
    }
}

impl<S, B, R, D> Future for LimitFuture<S, B, D>
where
    S: Service<Request<B>, Response = Response<R>>,
    D: DeniedResponse<R>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Waiting { verdict, waiter } => {
                    let verdict = ready!(verdict.as_mut().poll(context));
                    let Some(waiter) = waiter.take() else { return Poll::Pending };
                    let mut waiter = *waiter;
                    match verdict {
                        Ok(admission) => State::serving(
                            &mut waiter.service,
                            waiter.request,
                            admission,
                            waiter.caller,
                        ),
                        Err(refusal) => {
                            let standard = refusal.response(&View::of(&waiter.request));
                            let response = waiter.denied.response(refusal.why(), standard);
                            return Poll::Ready(Ok(response));
                        }
                    }
                }
                StateProjection::Serving { served, fields, charge } => {
                    let response = ready!(served.poll(context))?;
                    let fields = std::mem::take(fields);
                    let settled = charge.take().map(|due| due.settle(&Answer(&response)));
                    let fields = match settled {
                        None | Some(Settled::Free | Settled::Charged(None)) => fields,
                        Some(Settled::Charged(Some(told))) => told,
                        Some(Settled::Later(charge)) => {
                            let charging: Charging = Box::pin(charge.done());
                            state.set(State::Charging {
                                charging,
                                fields,
                                response: Some(response),
                            });
                            continue;
                        }
                    };
                    return Poll::Ready(Ok(with_fields(response, fields)));
                }
                StateProjection::Charging { charging, fields, response } => {
                    let told = ready!(charging.as_mut().poll(context));
                    let Some(response) = response.take() else { return Poll::Pending };
                    let fields = told.unwrap_or_else(|| std::mem::take(fields));
                    return Poll::Ready(Ok(with_fields(response, fields)));
                }
                StateProjection::Done { response } => {
                    // Nobody polls a future that is done.
                    return response
                        .take()
                        .map_or(Poll::Pending, |response| Poll::Ready(Ok(response)));
                }
            };
            state.set(next);
        }
    }
}

fn with_fields<R>(mut response: Response<R>, fields: ReadyFields) -> Response<R> {
    if LimitFields::belong_on(response.status()) {
        fields.write(response.headers_mut());
    }
    response
}

/// A response of whatever body.
struct Answer<'r, R>(&'r Response<R>);

impl<R> ResponseView for Answer<'_, R> {
    fn status(&self) -> StatusCode {
        self.0.status()
    }

    fn field(&self, name: &HeaderName) -> Option<&[u8]> {
        self.0.headers().get(name).map(http::HeaderValue::as_bytes)
    }

    fn charge(&self) -> Option<u64> {
        self.0.extensions().get::<Charge>().map(|charge| charge.0)
    }
}

impl<S: Service<Request<B>>, B, D> fmt::Debug for LimitFuture<S, B, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting { .. } => "waiting for the store",
            State::Serving { .. } => "waiting for the service",
            State::Charging { .. } => "waiting for the charge",
            State::Done { .. } => "done",
        };
        f.debug_struct("LimitFuture").field("state", &state).finish_non_exhaustive()
    }
}
