//! A distributed rate limiter with exact integer algorithms.
//!
//! Every store gives the same answer, and several policies are decided all or nothing in one round trip.
//!
//! ```
//! use sluicegate::{Limiter, MemoryStore};
//!
//! let limit = sluicegate::Limit::new("login", ["token_bucket 10/s burst 2", "fixed_window 100/d"])?;
//! let limiter = Limiter::new(MemoryStore::new(), limit);
//! for expected in [true, true, false] {
//!     let decision = limiter.check("alice").now()?;
//!     assert_eq!(decision.is_allowed(), expected);
//! }
//! assert!(limiter.peek("alice").now()?.retry_after().duration().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Limiter`] is one limit in a store. Its methods build a [`Question`], which an ending sends: `.await`,
//!   [`now`](Question::now) or [`blocking`](Question::blocking).
//! - [`Store`] is the trait of stores. Implement it for your own store, or for a layer around another one.
//! - [`Ask`] is a key with its cost, for several limits that are decided together. Plain bytes are a key at the default
//!   cost.
//! - [`limit()`] parses policies in the syntax of a config file. [`Policy`] has a constructor per algorithm.
//! - [`Registry`] holds all limits of a [config file](config), in the store that the file names.
//!
//! # Features
//!
//! Without any feature, the crate is a [`Limiter`] over the embedded store: 26 crates, no HTTP, no YAML and no time zones.
//!
//! - `calendar` (default): windows of calendar days, weeks, months and years in a time zone.
//! - `config` (default): config files, the [`Registry`] of the limits in one, HTTP and [`middleware`].
//! - `layers` (default): the [`layers`] around a store of a network. `config` includes it.
//! - `macros` (default): the attribute [`#[limit(…)]`](macro@limit).
//! - `redis` (default): the Redis and Valkey store.
//! - `tls` (default): TLS to its servers.
//! - `grpc`: gRPC statuses for denied calls. The crates with middleware switch it on by default.
//! - `metrics`: counters of all decisions for Prometheus ([`metrics`]).
//! - `watch`: reloading a config file whenever it changes ([`Registry::watch`]).
//!
//! # Middleware
//!
//! Middleware for web frameworks is in separate crates, so a new version of a framework doesn't need a new version of
//! this crate. `sluicegate-tower` is for axum, hyper, tonic and everything else built on tower. `sluicegate-actix` is
//! for actix-web. Their shared code is in [`middleware`], for writing an adapter for another framework.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "config"),
    allow(dead_code, reason = "parts of a limiter that only a registry uses")
)]

// Resolves the links of `middleware::builder_methods!`, which also writes documentation in other crates.
#[cfg(doc)]
extern crate self as sluicegate;

pub mod admin;
mod allowed;
mod ask;
#[cfg(feature = "macros")]
mod attribute;
mod background;
mod blocking;
#[cfg(feature = "config")]
mod caller;
#[cfg(feature = "config")]
mod capacity;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "config")]
mod config_file;
pub mod counter;
pub mod decision;
mod denied;
pub mod error;
mod grant;
mod holding;
pub mod layers;
mod limiter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "config")]
pub mod middleware;
mod observe;
mod on_store_failure;
#[cfg(feature = "config")]
mod open_store;
mod permit;
pub mod policy;
pub mod question;
mod random_id;
#[cfg(feature = "config")]
mod registry;
mod ring_counter;
#[cfg(feature = "config")]
mod shown_errors;
pub mod store;
mod store_health;
mod store_room;
pub mod testing;
mod usage;
#[cfg(feature = "config")]
mod uses;
#[cfg(feature = "watch")]
mod watch;

pub use allowed::Allowed;
pub use ask::Ask;
#[cfg(feature = "macros")]
pub use attribute::{install, installed};
#[cfg(feature = "config")]
pub use caller::Caller;
#[cfg(feature = "config")]
pub use config_file::Config;
pub use denied::Denied;
pub use grant::Grant;
pub use limiter::{Limiter, LimiterBuilder, Reservation};
pub use on_store_failure::OnStoreFailure;
pub use permit::Permit;
#[cfg(feature = "config")]
pub use registry::{Gate, Registry};
pub use sluicegate_core::{Decision, Error, Limit, Outcome, Policy, Rate, RetryAfter};
#[cfg(feature = "config")]
/// The HTTP side: keys from requests, client addresses, response fields and problem bodies.
pub use sluicegate_http as http;
#[cfg(feature = "macros")]
pub use sluicegate_macros::limit;
pub use sluicegate_memory::MemoryStore;
#[cfg(feature = "redis")]
pub use sluicegate_redis::RedisStore;
pub use usage::Usage;

/// Called by generated code. Not part of the API: it may change at any time.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::attribute::{
        Answer, Answers, AnswersNow, AsRegistry, Call, Component, Copied, FromDenied, Held,
        IntoUnits, Key, KeyPart, KeyWriter, OnMissing, OtherUnits, Part, Peeked, PutCopied,
        PutDisplay, PutOption, Resolve, ResolveFuture, Said, Site, Taken, Units, answer, holds,
        run, store_failure,
    };
    pub use crate::denied::Denied;
}

/// The guides: their examples are compiled and run.
#[cfg(doctest)]
mod guides {
    #[cfg(feature = "macros")]
    #[doc = include_str!("../../../docs/attribute.md")]
    mod attribute {}
    #[cfg(feature = "redis")]
    #[doc = include_str!("../../../docs/library.md")]
    mod library {}
    #[doc = include_str!("../../../docs/configuration.md")]
    mod configuration {}
    #[cfg(all(feature = "macros", feature = "redis"))]
    #[doc = include_str!("../../../docs/recipes.md")]
    mod recipes {}
    #[doc = include_str!("../../../docs/operation.md")]
    mod operation {}
    #[doc = include_str!("../../../docs/waiting.md")]
    mod waiting {}
}
