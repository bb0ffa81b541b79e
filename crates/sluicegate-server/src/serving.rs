//! Listeners, their connections, and their common stop: everything that protocols share.
//!
//! A protocol gives a [`Listener`] its routes. The listener accepts connections, bounds their number and serves the
//! routes on them, until [`stop`] ends it without losing a request.

mod client;
mod connection;
mod connections;
mod file_limit;
mod listener;
mod stage;
pub(crate) mod stop;

pub(crate) use client::Client;
pub(crate) use connections::{Connections, PerAddress};
pub(crate) use file_limit::most_connections;
pub(crate) use listener::Listener;
pub(crate) use stage::Stages;
