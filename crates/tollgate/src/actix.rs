//! Middleware for actix-web.

mod middleware;
mod response;
mod service;
mod view;

pub use middleware::LimitMiddleware;
pub use service::LimitService;

pub use crate::middleware::{Charge, ResponseView};
