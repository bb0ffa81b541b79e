//! The response future of a service behind limits.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use sluicegate::http::PreparedFields;
use sluicegate::middleware::{Admission, Pending, Scoped, Settling, Tail};
use tower_service::Service;

use crate::body::LimitBody;
use crate::denied_response::DeniedResponse;
use crate::view::View;

pin_project! {
    /// The response future of [`LimitService`](crate::LimitService).
    pub struct LimitFuture<S: Service<Request<B>>, B, D> {
        #[pin]
        state: State<S, B, D>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S: Service<Request<B>>, B, D> {
        /// Waits for the choice of the limits, for the store or for the request's turn.
        Pending { pending: Pending, waiter: Option<Box<Waiter<S, B, D>>> },
        /// Waits for the service.
        Serving { #[pin] served: Scoped<S::Future>, admission: Option<Admission> },
        /// Waits for the charge.
        Settling { settling: Settling, response: Option<(S::Response, Tail)> },
        /// Done.
        Done { response: Option<S::Response> },
    }
}

/// A request that waits, and the service that is ready for it. Boxed, so that requests that don't
/// wait don't carry space for it.
pub(super) struct Waiter<S, B, D> {
    pub(super) service: S,
    pub(super) denied: D,
    pub(super) request: Request<B>,
}

impl<S: Service<Request<B>>, B, D> LimitFuture<S, B, D> {
    pub(super) fn waiting(pending: Pending, waiter: Waiter<S, B, D>) -> Self {
        Self { state: State::Pending { pending, waiter: Some(Box::new(waiter)) } }
    }

    pub(super) fn serving(service: &mut S, request: Request<B>, admission: Admission) -> Self {
        Self { state: State::serving(service, request, admission) }
    }

    pub(super) const fn done(response: S::Response) -> Self {
        Self { state: State::Done { response: Some(response) } }
    }
}

impl<S: Service<Request<B>>, B, D> State<S, B, D> {
    fn serving(service: &mut S, mut request: Request<B>, admission: Admission) -> Self {
        if let Some(in_flight) = admission.in_flight() {
            request.extensions_mut().insert(in_flight.clone());
        }
        let served = admission.run(|| service.call(request));
        Self::Serving { served, admission: Some(admission) }
    }
}

impl<S, B, R, D> Future for LimitFuture<S, B, D>
where
    S: Service<Request<B>, Response = Response<R>>,
    D: DeniedResponse<R>,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let next = match state.as_mut().project() {
                StateProjection::Pending { pending, waiter } => {
                    let Some(waiting) = waiter else { return Poll::Pending };
                    let verdict = ready!(pending.poll(&View::of(&waiting.request), context));
                    let Some(waiter) = waiter.take() else { return Poll::Pending };
                    let mut waiter = *waiter;
                    match verdict {
                        Ok(admission) => {
                            State::serving(&mut waiter.service, waiter.request, admission)
                        }
                        Err(refusal) => {
                            let standard = refusal.response(&View::of(&waiter.request));
                            let response = waiter.denied.response(refusal.denied(), standard);
                            return Poll::Ready(Ok(response.map(LimitBody::of_nothing)));
                        }
                    }
                }
                StateProjection::Serving { served, admission } => {
                    let response = ready!(served.poll(context))?;
                    let Some(mut admission) = admission.take() else { return Poll::Pending };
                    let tail = admission.tail(&response);
                    let mut settling = admission.settle(&response);
                    // The common case: nothing to wait for, and nothing to move.
                    match Pin::new(&mut settling).poll(context) {
                        Poll::Ready(fields) => {
                            return Poll::Ready(Ok(with_fields(response, tail, fields)));
                        }
                        Poll::Pending => {
                            let response = Some((response, tail));
                            state.set(State::Settling { settling, response });
                            return Poll::Pending;
                        }
                    }
                }
                StateProjection::Settling { settling, response } => {
                    let fields = ready!(Pin::new(settling).poll(context));
                    let Some((response, tail)) = response.take() else { return Poll::Pending };
                    return Poll::Ready(Ok(with_fields(response, tail, fields)));
                }
                StateProjection::Done { response } => {
                    // A completed future must not be polled again.
                    return response.take().map_or(Poll::Pending, |response| {
                        Poll::Ready(Ok(response.map(LimitBody::of_nothing)))
                    });
                }
            };
            state.set(next);
        }
    }
}

fn with_fields<R>(
    mut response: Response<R>,
    tail: Tail,
    fields: PreparedFields,
) -> Response<LimitBody<R>> {
    fields.write(response.headers_mut());
    response.map(|body| LimitBody::new(body, tail))
}

impl<S: Service<Request<B>>, B, D> fmt::Debug for LimitFuture<S, B, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Pending { .. } => "waiting for the store",
            State::Serving { .. } => "waiting for the service",
            State::Settling { .. } => "waiting for the charge",
            State::Done { .. } => "done",
        };
        f.debug_struct("LimitFuture").field("state", &state).finish_non_exhaustive()
    }
}
