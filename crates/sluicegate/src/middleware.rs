//! The framework-independent part of middleware, and the toolkit for writing an adapter for another framework.
//!
//! The adapters `sluicegate-tower` (axum, hyper, tonic) and `sluicegate-actix` are built on it: they only translate
//! requests and responses. Users of an adapter need this module only for [`ResponseView`] and [`Charge`].
//!
//! # What an adapter does
//!
//! 1. It passes the request as a [`RequestView`] to [`Middleware::decide`], which returns a [`Verdict`]: admitted,
//!    refused, or pending. [`Verdict::admission`] awaits a pending one.
//! 2. It answers a refused request with [`Refusal::response`].
//! 3. For an admitted request, it puts [`Admission::in_flight`] into the request's extensions. It calls the handler in
//!    [`Admission::run`], so that limited functions inside know the caller.
//! 4. It passes the response as a [`ResponseView`] to [`Admission::tail`]. It reports to the tail how the body
//!    continues and ends.
//! 5. It passes the response to [`Admission::settle`], awaits the [response fields](PreparedFields), and writes them.
//! 6. It exposes the settings of the middleware, with [`builder_methods!`] or by taking a configured [`Middleware`].
//! 7. It declares the error of handlers with [`denied_type!`], and how the framework makes a response of it.
//!
//! # An example
//!
//! A framework has these requests and responses:
//!
//! ```
//! # use std::net::IpAddr;
//! struct Call {
//!     peer: IpAddr,
//!     path: String,
//! }
//!
//! struct Reply {
//!     status: http::StatusCode,
//!     headers: http::HeaderMap,
//!     text: String,
//! }
//! ```
//!
//! Its adapter:
//!
//! ```
//! # use std::net::IpAddr;
//! # struct Call { peer: IpAddr, path: String }
//! # struct Reply { status: http::StatusCode, headers: http::HeaderMap, text: String }
//! use http::{HeaderName, StatusCode};
//! use sluicegate::Gate;
//! use sluicegate::http::{RequestView, User};
//! use sluicegate::middleware::{Charge, Middleware, ResponseView, builder_methods};
//!
//! impl RequestView for Call {
//!     fn method(&self) -> &str { "GET" }
//!     fn path(&self) -> &str { &self.path }
//!     fn query(&self) -> Option<&str> { None }
//!     fn authority(&self) -> Option<&str> { None }
//!     fn each_field<'r>(&'r self, _: &HeaderName, _: &mut dyn FnMut(&'r [u8])) {}
//!     fn peer(&self) -> Option<IpAddr> { Some(self.peer) }
//!     fn user(&self) -> Option<&User> { None }
//!     fn route(&self) -> Option<&str> { None }
//! }
//!
//! impl ResponseView for Reply {
//!     fn status(&self) -> StatusCode { self.status }
//!     fn field(&self, name: &HeaderName) -> Option<&[u8]> {
//!         self.headers.get(name).map(|value| value.as_bytes())
//!     }
//!     fn charge(&self) -> Option<Charge> { None }
//! }
//!
//! struct Limited {
//!     middleware: Middleware,
//! }
//!
//! impl Limited {
//!     fn by(gate: impl Into<Gate>) -> Self {
//!         Self { middleware: Middleware::new(gate) }
//!     }
//!
//!     builder_methods!(middleware);
//!
//!     async fn serve(&self, call: Call, handler: impl AsyncFnOnce(Call) -> Reply) -> Reply {
//!         let admission = match self.middleware.decide(&call).admission(&call).await {
//!             Ok(admission) => admission,
//!             Err(refusal) => {
//!                 let (parts, text) = refusal.response(&call).into_parts();
//!                 return Reply { status: parts.status, headers: parts.headers, text };
//!             }
//!         };
//!         let mut reply = admission.run(|| handler(call)).await;
//!         admission.settle(&reply).await.write(&mut reply.headers);
//!         reply
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let config = "limits: {api: {policies: [gcra 1/min]}}";
//! let registry = sluicegate::Registry::open(&sluicegate::Config::parse(config, "limits.yaml")?)?;
//! let site = Limited::by(registry.gate("api")).skip_if(|request| request.path() == "/health");
//!
//! let visit = async |path: &str| {
//!     let call = Call { peer: [192, 0, 2, 7].into(), path: path.to_owned() };
//!     let hello = async |_| Reply {
//!         status: StatusCode::OK,
//!         headers: http::HeaderMap::new(),
//!         text: String::from("hello"),
//!     };
//!     site.serve(call, hello).await
//! };
//! let first = visit("/").await;
//! assert_eq!((first.status.as_u16(), first.text.as_str()), (200, "hello"));
//! assert_eq!(first.headers["ratelimit"], "\"gcra\";r=0;t=60");
//! let second = visit("/").await;
//! assert_eq!(second.status.as_u16(), 429);
//! assert_eq!(second.headers["retry-after"], "60");
//! assert_eq!(visit("/health").await.status.as_u16(), 200);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admission;
mod after_response;
mod asks;
mod authorize;
mod builder;
mod charge;
mod choice;
mod decide;
mod denied_type;
mod in_flight;
mod refusal;
mod response_view;
mod rules;
mod scoped;
mod served;
mod settling;
mod tail;
mod verdict;

use std::sync::Arc;

use sluicegate_http::RequestView;

use crate::registry::Gate;
use rules::Rules;

#[doc(inline)]
pub use crate::__middleware_builder_methods as builder_methods;
#[doc(inline)]
pub use crate::__middleware_denied_type as denied_type;
pub use admission::Admission;
pub use authorize::{Authorized, authorize};
pub use charge::Charge;
pub use choice::{Choice, Chosen, GateOrError};
pub use in_flight::InFlight;
pub use refusal::Refusal;
pub use response_view::ResponseView;
pub use scoped::Scoped;
pub use served::{BodyEnd, Served};
pub use settling::Settling;
pub use tail::Tail;
pub use verdict::{Pending, Verdict};

// The links of this page.
#[cfg(doc)]
use sluicegate_http::PreparedFields;

/// The framework-independent part of a middleware: the limits of a request, and the response fields to send.
///
/// Cloning is cheap, and clones use the same gate. Settings changed later on one clone don't affect the others.
#[derive(Clone, Debug)]
#[must_use]
pub struct Middleware {
    rules: Arc<Rules>,
}

impl Middleware {
    /// Makes a middleware that asks `gate` about every request: a [`Gate`], or a [`Limiter`](crate::Limiter) without a
    /// registry. The configuration determines the key; the default is the client's address.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self { rules: Arc::new(Rules::new(gate.into())) }
    }

    /// Makes a middleware that asks the gate that `choose` returns for a request: by method, route or plan, for
    /// example.
    ///
    /// `choose` returns a [`Gate`], a future of one, or a future of a `Result` with one. Clones of a gate are cheap:
    /// make the gates once, also those of a [`Limiter`](crate::Limiter) and those that are
    /// [joined](Gate::and). A request whose limits can't be chosen is refused with status 503, and the log has the
    /// error. Settings such as [`key`](Self::key) and [`cost`](Self::cost) apply to each gate.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    /// use sluicegate::middleware::Middleware;
    ///
    /// let config = "limits: {reads: {policies: [gcra 100/s]}, writes: {policies: [gcra 5/s]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let (reads, writes) = (registry.gate("reads"), registry.gate("writes"));
    /// let by_method = Middleware::by(move |request| match request.method() {
    ///     "GET" | "HEAD" => reads.clone(),
    ///     _ => writes.clone(),
    /// });
    /// # let _ = by_method;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by<C: Choice>(choose: impl Fn(&dyn RequestView) -> C + Send + Sync + 'static) -> Self {
        Self { rules: Arc::new(Rules::by(choose)) }
    }

    builder_methods!(rules);

    /// Asks the limits about a request. The verdict is pending if the store or the choice of the limits has to be
    /// awaited; the embedded store answers immediately.
    pub fn decide(&self, request: &dyn RequestView) -> Verdict {
        self.rules.decide(request)
    }
}
