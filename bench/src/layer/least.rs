//! A minimal limiting layer: it takes the peer's address for a key and formats two fields. It limits
//! nothing.

use std::fmt::Write as _;
use std::hint::black_box;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

/// The layer.
#[derive(Clone)]
pub struct Least(Arc<Numbers>);

/// The values of the fields; one of them changes with every request.
struct Numbers {
    name: String,
    limit: u64,
    left: AtomicU64,
}

impl Least {
    pub fn new(name: &str) -> Self {
        let left = AtomicU64::new(1_000_000);
        Self(Arc::new(Numbers { name: name.to_owned(), limit: 1_000_000, left }))
    }
}

impl<S> Layer<S> for Least {
    type Service = LeastService<S>;

    fn layer(&self, service: S) -> LeastService<S> {
        LeastService(service, Arc::clone(&self.0))
    }
}

#[derive(Clone)]
pub struct LeastService<S>(S, Arc<Numbers>);

impl<S: Service<Request, Response = Response>> Service<Request> for LeastService<S> {
    type Response = Response;
    type Error = S::Error;
    type Future = LeastFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
        let key = peer.map(|ConnectInfo(peer)| peer.ip().to_string());
        black_box(&key);
        LeastFuture { response: self.0.call(request), numbers: Arc::clone(&self.1) }
    }
}

pin_project! {
    pub struct LeastFuture<F> {
        #[pin]
        response: F,
        numbers: Arc<Numbers>,
    }
}

impl<F: Future<Output = Result<Response, E>>, E> Future for LeastFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(context))?;
        let Numbers { name, limit, left } = &**this.numbers;
        let left = left.fetch_sub(1, Ordering::Relaxed) % limit;
        let mut text = String::with_capacity(64);
        let _ = write!(text, "\"{name}\";r={left};t=1");
        let fields = response.headers_mut();
        if let Ok(value) = HeaderValue::try_from(text) {
            fields.insert(HeaderName::from_static("ratelimit"), value);
        }
        let mut text = String::with_capacity(64);
        let _ = write!(text, "\"{name}\";q={limit};w=1");
        if let Ok(value) = HeaderValue::try_from(text) {
            fields.insert(HeaderName::from_static("ratelimit-policy"), value);
        }
        Poll::Ready(Ok(response))
    }
}
