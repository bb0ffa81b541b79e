//! A running Sluicegate service as a [`Store`](sluicegate_core::Store), called over HTTP.
//!
//! The service keeps the limits and their state. A program names a limit, with the same policies as
//! the service's configuration, and gets the service's decisions.
//!
//! ```no_run
//! use std::time::Duration;
//! use sluicegate::{Ask, Limiter, Usage};
//! use sluicegate_client::RemoteStore;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let store = RemoteStore::connect("http://127.0.0.1:8080")?;
//! let limiter = Limiter::new(store, sluicegate::Limit::new("llm", ["token_bucket 90000/min as tokens"])?);
//! let grant = limiter.check(Ask::new("acme").cost(1_000)).hold(Duration::from_secs(60)).await?;
//! if let Some(token) = grant.token() {
//!     limiter.settle(token, Usage::of("tokens", 412)).await?;
//! }
//! # Ok(()) }
//! ```
//!
//! A program can send its own policies instead
//! ([`limits_in_requests`](RemoteStoreBuilder::limits_in_requests)), if the service takes them.
//!
//! # What the service supports
//!
//! - Checks, peeks, charges, refunds, resets, takes, and reservations and their
//!   cancellation.
//! - Holds, and settling and renewing them.
//! - Manual bans, and lifting them. Pauses, and ending them.
//! - Several limits in one decision.
//!
//! A check `within` a time reserves, or retries. A service with clients needs the
//! [token](RemoteStoreBuilder::token) of one for all requests. Otherwise charges, refunds, resets, bans
//! and pauses need the service's admin token. A service without one accepts them from programs on its
//! own machine.
//!
//! Requests may have an id. The service recognizes a repeat for one minute, even if the id's own
//! lifetime is shorter.
//!
//! Other requests return an error of the kind
//! [`Unsupported`](sluicegate_core::RequestErrorKind::Unsupported), and nothing is sent:
//!
//! - ids that last longer than a minute
//! - tickets of queues (the service waits with its own while the request is open)
//! - injected time
//! - the slices of a ring
//! - giving units back by the time at which they were taken
//! - keys that aren't UTF-8
//!
//! A service doesn't grant leases.

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
pub use hyper::Method;
pub use limit::RemoteLimit;
pub use store::{RemoteStore, RemoteStoreBuilder};
pub use url::{ServiceUrl, UrlError};
