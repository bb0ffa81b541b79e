//! The routes of a listener.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
#[cfg(feature = "otlp")]
use tracing::Instrument as _;

use crate::trace_context::TraceContext;
#[cfg(feature = "otlp")]
use crate::traces;

/// The routes of a listener. Clones share them.
///
/// Most requests are for one call. It is compared with the request first, because finding a call in a router takes
/// longer than deciding it.
#[derive(Clone)]
pub(crate) struct Routes(Arc<Inner>);

struct Inner {
    frequent: Option<Call>,
    router: Router,
}

/// A call that is found without the router.
struct Call {
    method: Method,
    path: String,
    answer: Box<dyn Fn(Request<Body>) -> Answer + Send + Sync>,
}

/// The future of an answer.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;

impl Routes {
    /// Makes the routes of a router, without frequent calls.
    pub(crate) fn new(router: Router) -> Self {
        Self(Arc::new(Inner { frequent: None, router }))
    }

    /// Makes these routes with one frequent call, which doesn't reach the router.
    pub(crate) fn with_frequent(
        router: Router,
        method: Method,
        path: impl Into<String>,
        answer: impl Fn(Request<Body>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let call = Call { method, path: path.into(), answer: Box::new(answer) };
        Self(Arc::new(Inner { frequent: Some(call), router }))
    }

    /// Answers a request. If its caller names a trace, that is the current one while it is answered.
    pub(super) fn answer(&self, request: Request<Body>) -> Answer {
        match TraceContext::of(request.headers()) {
            Some(context) => self.answer_in(context, request),
            None => self.route(request),
        }
    }

    /// Answers a request that belongs to a trace.
    #[cfg(feature = "otlp")]
    fn answer_in(&self, context: TraceContext, request: Request<Body>) -> Answer {
        let span = context.sync_scope(|| traces::of_request(&context, &request));
        let answer = self.route(request);
        let of_answer = span.clone();
        let answer = async move {
            let response = answer.await;
            traces::answered(&of_answer, &response);
            response
        };
        Box::pin(context.scope(answer.instrument(span)))
    }

    /// Answers a request that belongs to a trace.
    #[cfg(not(feature = "otlp"))]
    fn answer_in(&self, context: TraceContext, request: Request<Body>) -> Answer {
        Box::pin(context.scope(self.route(request)))
    }

    fn route(&self, request: Request<Body>) -> Answer {
        let Inner { frequent, router } = &*self.0;
        let is_for =
            |call: &&Call| call.path == request.uri().path() && call.method == *request.method();
        if let Some(call) = frequent.as_ref().filter(is_for) {
            return (call.answer)(request);
        }
        let answer = TowerToHyperService::new(router.clone()).call(request);
        Box::pin(async {
            let Ok(response) = answer.await;
            response
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::routing::get;

    use super::*;

    #[tokio::test]
    async fn a_frequent_call_has_its_path_and_method_and_others_reach_the_router() {
        let router = Router::new().route("/call", get(async || "router")).fallback(async || "none");
        let call = |_| Box::pin(async { Response::new(Body::from("call")) }) as Answer;
        let routes = Routes::with_frequent(router, Method::POST, "/call", call);
        for (method, target, expected) in [
            ("POST", "/call", "call"),
            ("POST", "http://host/call?a=b", "call"),
            ("GET", "/call", "router"),
            ("POST", "/call/", "none"),
            ("POST", "/CALL", "none"),
        ] {
            let request = Request::builder().method(method).uri(target);
            let answer = routes.answer(request.body(Body::empty()).unwrap()).await;
            let body = to_bytes(answer.into_body(), 16).await.unwrap();
            assert_eq!(body, expected, "{method} {target}");
        }
    }
}
