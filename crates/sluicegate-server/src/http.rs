//! The service: an HTTP API, metrics and a page.

mod body;
mod decide;
mod error;
mod guard;
mod metrics;
mod page;
mod recent;
mod router;
mod serve;
mod service;
mod status;
mod unreadable;

pub(crate) use serve::serve;
