//! A running Sluicegate service as a [`Store`](sluicegate_core::Store): limiters that ask it over HTTP.
//!
//! The service has the limits and their state. A program names them, with the same policies as the
//! service's configuration, and gets the decisions that the service makes.
//!
//! ```no_run
//! use sluicegate::{Ask, Limiter, Usage};
//! use sluicegate::store::Span;
//! use sluicegate_client::RemoteStore;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RemoteStore::connect("http://127.0.0.1:8080")?;
//! let limiter = Limiter::new(store, sluicegate::Limit::new("llm", ["token_bucket 90000/min as tokens"])?);
//! let grant = limiter.check(Ask::new("acme").cost(1_000)).hold(Span::MINUTE).await?;
//! if let Some(token) = grant.token() {
//!     limiter.settle(token, Usage::of("tokens", 412)).await?;
//! }
//! # Ok(()) }
//! ```
//!
//! # What goes through
//!
//! Checks, peeks, charges, refunds, resets, partial grants, reservations and their cancellation; what
//! requests hold, settling and renewing it; bans by hand and lifting them; and several limits in one
//! decision. A check `within` a time reserves, or asks again. Charges, refunds, resets and bans need the
//! [admin token](RemoteStoreBuilder::admin_token) of the service. A service without one accepts them from
//! programs on its own machine.
//!
//! Requests may have an id. The service knows a repeat for a minute, also if the id is to last less long.
//!
//! The rest is an error of the kind [`Unsupported`](sluicegate_core::RequestErrorKind::Unsupported), and nothing
//! is sent: ids that last longer than a minute, tickets of queues (the service waits with one, while it is asked to), injected time, the slices of a ring, giving back by the time of taking, keys that are not
//! UTF-8. Nobody leases units from a service.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod connections;
mod encode;
pub mod json;
mod limit;
mod listing;
mod reply;
mod service;
mod store;
#[cfg(feature = "tls")]
mod tls;
mod url;

pub use answer::{Reply, ServiceError};
pub use limit::RemoteLimit;
pub use store::{RemoteStore, RemoteStoreBuilder};
pub use url::{ServiceUrl, UrlError};
