//! Middleware for actix-web.
//!
//! ```
//! use actix_web::{App, web};
//! use sluicegate::{Config, Registry, actix::LimitMiddleware};
//!
//! let registry = Registry::open(&Config::default())?;
//! // Outside of the factory, which runs once for each worker.
//! let limit = LimitMiddleware::new(registry.gate("demo"));
//! let application =
//!     move || App::new().wrap(limit.clone()).route("/", web::get().to(async || "hello"));
//! # let _ = application();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod middleware;
mod response;
mod service;
mod view;

pub use middleware::LimitMiddleware;
pub use service::LimitService;

pub use crate::middleware::{Charge, ResponseView};
