//! What the middleware of every framework has in common, to write an adapter for another one with.
//!
//! The adapters `sluicegate-tower` (axum, hyper, tonic) and `sluicegate-actix` are made of this:
//! they translate requests and responses, and nothing else. Whoever uses one of those needs this
//! module only for [`ResponseView`] and [`Charge`], which they pass on.
//!
//! # What an adapter does
//!
//! 1. It shows the request as a [`RequestView`] to [`Middleware::decide`], which answers with a
//!    [`Verdict`]: serve it, turn it away, or wait until that is known.
//!    [`Verdict::admission`] waits.
//! 2. A request that is turned away is answered with [`Refusal::response`].
//! 3. For a request that is let in it calls the handler in [`Admission::run`], so that limited
//!    functions beneath know whose request it is.
//! 4. It shows the response as a [`ResponseView`] to [`Admission::settle`], waits for the
//!    [response fields](ReadyFields), and writes them.
//! 5. It passes on what the middleware can be told, with [`builder_methods!`] or as a
//!    [`Middleware`] that the application has made.
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
//! use sluicegate::middleware::{Middleware, ResponseView, builder_methods};
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
//!     fn charge(&self) -> Option<u64> { None }
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
//!         let admission = match self.middleware.decide(&call).admission().await {
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
mod builder;
mod due;
mod question;
mod refusal;
mod response_view;
mod rules;
mod scoped;
mod settling;
mod verdict;

use std::sync::Arc;

use sluicegate_http::RequestView;

use crate::registry::Gate;
use rules::Rules;

#[doc(inline)]
pub use crate::__middleware_builder_methods as builder_methods;
pub use admission::Admission;
pub use refusal::Refusal;
pub use response_view::{Charge, ResponseView};
pub use scoped::Scoped;
pub use settling::Settling;
pub use verdict::{Pending, Verdict};

// The links of this page.
#[cfg(doc)]
use sluicegate_http::ReadyFields;

/// What stands around the handlers of an application: which limits are asked about a request, and
/// what a client is told.
///
/// Cloning is cheap, and clones ask the same gate. What one of them is told later, the others
/// aren't.
#[derive(Clone, Debug)]
#[must_use]
pub struct Middleware {
    rules: Arc<Rules>,
}

impl Middleware {
    /// Asks `gate` about every request: a [`Gate`], or a [`Limiter`](crate::Limiter) that is no
    /// registry's. The key is made as the configuration says, from the client's address unless
    /// told.
    pub fn new(gate: impl Into<Gate>) -> Self {
        Self { rules: Arc::new(Rules::new(gate.into())) }
    }

    builder_methods!(rules);

    /// Asks the limits about a request: what happens to it, as far as that can be told without
    /// waiting. A store in this process answers at once.
    pub fn decide(&self, request: &dyn RequestView) -> Verdict {
        self.rules.decide(request)
    }
}
