//! Listeners, their connections, and their common stop: everything that protocols share.
//!
//! A protocol gives a [`Listener`] its routes. The listener accepts connections, bounds their number and serves the
//! routes on them over HTTP/1.1 and HTTP/2, with or without TLS. A protocol other than HTTP answers on the stream itself,
//! as a [`conversation::Conversation`]. [`stop::run`] ends all [`Listeners`] together, without losing a request.

mod bound;
mod client;
mod client_certificate;
mod collector;
mod connection;
mod connection_age;
mod connections;
mod conversation;
mod file_limit;
mod kind;
mod listener;
mod listeners;
mod passed;
mod peer;
mod protocol;
mod reserved;
mod routes;
mod socket;
mod socket_file;
mod stage;
pub(crate) mod stop;
mod stream;
mod tls;
mod tls_names;

pub(crate) use client::Client;
pub(crate) use client_certificate::ClientCertificate;
pub(crate) use collector::{ListenerState, ListenersCollector};
pub(crate) use connection::{Answering, Served};
pub(crate) use connection_age::ConnectionAge;
#[cfg(feature = "resp")]
pub(crate) use connections::Seat;
pub(crate) use connections::{Connections, PerAddress};
#[cfg(feature = "resp")]
pub(crate) use conversation::{Connected, Conversation};
pub(crate) use file_limit::{FEW_CONNECTIONS, most_connections};
pub(crate) use kind::Kind;
pub(crate) use listener::Listener;
pub(crate) use listeners::Listeners;
pub(crate) use passed::PassedSockets;
pub(crate) use reserved::Reserved;
pub(crate) use routes::Routes;
pub(crate) use socket_file::SocketFile;
pub(crate) use stage::{Stage, Stages};
#[cfg(feature = "resp")]
pub(crate) use stream::UntilEnding;
pub(crate) use tls::Tls;
pub(crate) use tls_names::TlsNames;
