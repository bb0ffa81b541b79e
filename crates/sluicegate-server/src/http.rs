//! The service: an HTTP API, metrics and a page.

mod body;
mod connection;
mod connections;
mod decide;
mod error;
mod file_limit;
mod guard;
mod listener;
mod metrics;
mod page;
mod recent;
mod router;
mod serve;
mod service;
mod stage;
mod status;
mod stop;
mod turns;
mod unreadable;

pub(crate) use serve::serve;
