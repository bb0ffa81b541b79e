//! Limits in front of actix-web.
//!
//! [`LimitMiddleware`] checks every request before it reaches the application, and adds response
//! fields about the limits. The limits are those of a [`Registry`](sluicegate::Registry), or a
//! [`Limiter`](sluicegate::Limiter) of your own.
//!
//! ```
//! use actix_web::{App, web};
//! use sluicegate::{Config, Registry};
//! use sluicegate_actix::LimitMiddleware;
//!
//! let registry = Registry::open(&Config::default())?;
//! // Outside of the factory, which runs once per worker.
//! let limit = LimitMiddleware::new(registry.gate("demo"));
//! let application =
//!     move || App::new().wrap(limit.clone()).route("/", web::get().to(async || "hello"));
//! # let _ = application();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The guide, `docs/http.md` in the repository, explains all settings.
//!
//! # Features
//!
//! - `grpc` (default): the response to a denied gRPC call is a gRPC status. Without the feature, it
//!   is a problem body like any other.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod body;
mod denied;
mod denied_response;
mod middleware;
mod response;
mod service;
mod view;

pub use body::LimitBody;
pub use denied::Denied;
pub use middleware::LimitMiddleware;
pub use service::LimitService;

pub use sluicegate::middleware::{BodyEnd, Charge, InFlight, ResponseView, Served};
