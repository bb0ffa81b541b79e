//! Middleware for everything that is built of tower services: axum, hyper, tonic.

mod denied_response;
mod future;
mod layer;
mod service;
mod view;

pub use denied_response::{DeniedResponse, ProblemBody, WithoutBody};
pub use future::LimitFuture;
pub use layer::LimitLayer;
pub use service::LimitService;

pub use crate::middleware::{Charge, ResponseView};
