//! Limits in front of everything built on tower: axum, hyper, tonic.
//!
//! [`LimitLayer`] checks every request before it reaches the service, and adds response fields about
//! the limits. The limits are those of a [`Registry`](sluicegate::Registry), or a
//! [`Limiter`](sluicegate::Limiter) of your own.
//!
//! ```
//! use http::{Request, Response};
//! use sluicegate::{Config, Registry, http::Peer};
//! use sluicegate_tower::LimitLayer;
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
//! let config = Config::parse("limits: {api: {policies: [gcra 1/min]}}", "limits.yaml")?;
//! let layer = LimitLayer::new(Registry::open(&config)?.gate("api"));
//! let service = layer.layer(service_fn(async |_: Request<()>| {
//!     Ok::<_, std::convert::Infallible>(Response::new(String::from("hello")))
//! }));
//! let peer = Peer(([192, 0, 2, 7], 4711).into());
//! let visit = || service.clone().oneshot(Request::builder().extension(peer).body(()).unwrap());
//! assert_eq!(visit().await?.status(), 200);
//! let denied = visit().await?;
//! assert_eq!((denied.status().as_u16(), &denied.headers()["retry-after"]), (429, &"60".parse()?));
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guide, `docs/http.md` in the repository, has an example for each framework.
//!
//! # Features
//!
//! - `axum`: takes the route and the peer of a request from axum, and adds `Denied`, the error of
//!   handlers.
//! - `grpc` (default, and with `tonic`): the response to a denied gRPC call is a gRPC status. Without
//!   the feature, it is a problem body like any other.
//! - `tonic`: takes the peer of a call from tonic.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
#[cfg(feature = "axum")]
mod denied;
mod denied_response;
mod future;
mod layer;
mod service;
mod view;

pub use body::LimitBody;
#[cfg(feature = "axum")]
pub use denied::Denied;
pub use denied_response::{DeniedResponse, ProblemBody, WithoutBody};
pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use service::LimitService;

pub use sluicegate::middleware::{BodyEnd, Charge, InFlight, ResponseView, Served};
