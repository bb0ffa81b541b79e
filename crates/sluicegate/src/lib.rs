//! A distributed rate limiter with exact integer algorithms.
//!
//! Every store gives the same answer, and several policies are decided all or nothing in one round trip.
//!
//! A [`Limiter`] is one limit in a store: the embedded [`MemoryStore`], or the store of Redis and Valkey. Its methods
//! build a request, and an ending sends it: `.await`; `.now()`, which never waits; or `.blocking()`, which needs no
//! runtime.
//!
//! # The five most frequent tasks
//!
//! **Ask whether a request may proceed.** A denial is an answer, not an error.
//!
//! ```
//! use sluicegate::{Limit, Limiter, MemoryStore};
//!
//! let limit = Limit::new("login", ["token_bucket 10/s burst 2", "fixed_window 100/d"])?;
//! let limiter = Limiter::new(MemoryStore::new(), limit);
//! for expected in [true, true, false] {
//!     let decision = limiter.check("alice").now()?;
//!     assert_eq!(decision.is_allowed(), expected);
//! }
//! assert_eq!(limiter.check("alice").now()?.retry_after().to_string(), "in 100 ms");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Return a denial as an error.** `enforce` is `check` for functions that use `?`.
//!
//! ```
//! use sluicegate::{Denied, Limit, Limiter, MemoryStore};
//!
//! fn send_code(limiter: &Limiter<MemoryStore>, phone: &str) -> Result<(), Denied> {
//!     limiter.enforce(phone).now()?;
//!     Ok(())
//! }
//!
//! let limiter = Limiter::new(MemoryStore::new(), Limit::new("sms", ["fixed_window 1/min"])?);
//! assert!(send_code(&limiter, "555-0100").is_ok());
//! let denied = send_code(&limiter, "555-0100").unwrap_err();
//! assert_eq!(denied.to_string(), "limit `sms` is exhausted: retry in 1 min");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Wait for a turn** instead of being denied. `.await` waits in any executor, `.blocking()` in any thread.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::{Limit, Limiter, MemoryStore};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
//! let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", ["token_bucket 100/s burst 1"])?);
//! for _ in 0..3 {
//!     let decision = limiter.check("acme").within(Duration::from_secs(1)).await?;
//!     assert!(decision.is_allowed());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Take an estimate, and settle it** for the units that were really used.
//!
//! ```
//! use std::time::Duration;
//! use sluicegate::{Limit, Limiter, MemoryStore, Usage};
//!
//! let limit = Limit::new("llm", ["fixed_window 1000/h as tokens"])?;
//! let limiter = Limiter::new(MemoryStore::new(), limit);
//! let estimate = limiter.check("acme").cost(700).hold(Duration::from_secs(60)).now()?;
//! if let Some(token) = estimate.token() {
//!     let settled = limiter.settle(token, Usage::of("tokens", 100)).now()?;
//!     assert_eq!(settled.remaining(), Some(900));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Use the limits of a file**, by name. A [`Registry`] opens the store that the file names, and each
//! [`Gate`] finds its limit in the configuration in force.
//!
//! ```
//! use sluicegate::{Config, Registry};
//!
//! let text = "limits: {search: {policies: [token_bucket 5/s burst 5]}}";
//! let registry = Registry::open(&Config::parse(text, "limits.yaml")?)?;
//! let search = registry.gate("search");
//! assert!(search.check("alice").cost(3).now()?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Units that are taken for a time
//!
//! | value | made by | the units |
//! | --- | --- | --- |
//! | hold, in a [`Grant`] | `check(key).hold(duration)` | stay charged until `settle` says how many were used, or the hold expires |
//! | [`Permit`] | `permit(key)` | are in flight as long as the value lives; it renews itself |
//! | [`Reservation`] | `reserve(key, longest)` | are charged now; the caller acts after its wait, or cancels |
//! | grant of a number of units | `take(key).cost(n)` | are as many as all policies admit, up to `n` |
//!
//! # More
//!
//! - [`Ask`] is a key with costs, for several limits that are decided together. Text, bytes, integers, addresses and
//!   tuples of them convert to one.
//! - [`Keyed`] has numbers for each key, such as the plans of tenants in a database. [`with`](question::Question::with)
//!   takes numbers from the request.
//! - [`Limit::new`] takes policies, each as text in the syntax of a config file, or as a [`Policy`], which has a
//!   constructor for each algorithm.
//! - [`store`] is for authors of stores, [`admin`] for operators, [`error`] has the errors, [`testing`] a clock that
//!   tests set.
//!
//! # Features
//!
//! Without any feature, the crate is a [`Limiter`] over the embedded store: 27 crates, no HTTP, no YAML and no time zones.
//!
//! - `calendar` (default): windows of calendar days, weeks, months and years in a time zone.
//! - `config` (default): config files, the [`Registry`] of the limits in one, HTTP and [`middleware`].
//! - `layers` (default): the [`layers`] around a store of a network. `config` includes it.
//! - `redis` (default): the Redis and Valkey store.
//! - `tls` (default): TLS to its servers.
//! - `grpc`: gRPC statuses for denied calls. The crates with middleware switch it on by default.
//! - `macros`: the attribute [`#[limit(…)]`](macro@limit).
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
mod jitter;
mod keyed;
pub mod layers;
mod limiter;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "config")]
pub mod middleware;
mod numbers_cache;
mod observe;
mod on_store_failure;
#[cfg(feature = "config")]
mod open_store;
#[cfg(feature = "config")]
mod overrides;
#[cfg(feature = "config")]
mod pause_on;
mod permit;
pub mod policy;
pub mod question;
mod random_id;
#[cfg(feature = "config")]
mod registry;
mod ring_counter;
mod seldom;
#[cfg(feature = "config")]
mod shown_errors;
pub mod store;
mod store_health;
mod store_room;
pub mod testing;
mod timer;
mod trace;
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
pub use keyed::Keyed;
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
        pause_of, run, store_failure,
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
    #[doc = include_str!("../../../docs/metrics.md")]
    mod metrics {}
    #[doc = include_str!("../../../docs/waiting.md")]
    mod waiting {}
    #[cfg(all(feature = "calendar", feature = "macros"))]
    mod recipes {
        #[doc = include_str!("../../../docs/recipes/bans.md")]
        mod bans {}
        #[doc = include_str!("../../../docs/recipes/budget.md")]
        mod budget {}
        #[doc = include_str!("../../../docs/recipes/command-line-tool.md")]
        mod command_line_tool {}
        #[doc = include_str!("../../../docs/recipes/lockout.md")]
        mod lockout {}
        #[doc = include_str!("../../../docs/recipes/plans.md")]
        mod plans {}
        #[doc = include_str!("../../../docs/recipes/public-api.md")]
        mod public_api {}
        #[doc = include_str!("../../../docs/recipes/tiers.md")]
        mod tiers {}
        #[doc = include_str!("../../../docs/recipes/upstream.md")]
        mod upstream {}
        #[doc = include_str!("../../../docs/recipes/zones.md")]
        mod zones {}
    }
}
