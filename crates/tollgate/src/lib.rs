//! Tollgate, a distributed rate limiter: every algorithm exact to the integer, the same answer in
//! every store, several policies decided all or nothing in one round trip.
//!
//! ```
//! use tollgate::{Limiter, MemoryStore};
//!
//! let limit = tollgate::limit("login", ["token_bucket 10/s burst 2", "fixed_window 100/d"])?;
//! let limiter = Limiter::new(MemoryStore::builder().build(), limit);
//! for expected in [true, true, false] {
//!     let decision = limiter.try_check("alice")?;
//!     assert_eq!(decision.is_allowed(), expected);
//! }
//! assert!(limiter.try_peek("alice")?.retry_after().duration().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Limiter`] is one limit in a store. Stores that wait for a network are asked with `await`
//!   ([`Limiter::check`]); the embedded store also at once ([`Limiter::try_check`]).
//! - [`Ask`] says what a request costs; any bytes alone are a key.
//! - [`limit()`] reads policies the way a config file has them; [`Policy`] has a constructor per
//!   algorithm.
//! - [`Registry`] has all limits of a [config file](config), in the store that the file names.
//!
//! # Features
//!
//! - `redis` (default): the Redis and Valkey store.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod any_store;
mod ask;
pub mod config;
mod denied;
mod limit;
mod limiter;
mod registry;
mod ruling;

pub use any_store::{AnyHandle, AnyReceipt, AnyStore, OpenError, StoreOptions};
pub use ask::Ask;
pub use config::{Config, OnStoreFailure, StoreUrl};
pub use denied::{Denied, DeniedReason};
pub use limit::{InvalidLimit, limit};
pub use limiter::{Limiter, LimiterBuilder, Reservation};
pub use registry::Registry;
pub use ruling::Ruling;
pub use tollgate_core::{
    Algorithm, CalendarUnit, CalendarWindow, Clock, Cost, Costs, Decision, DeniedCharge,
    EmbeddedStore, Enforcement, InvalidNumber, KeyPrefix, Limit, LimitError, LimitName,
    ManualClock, Member, NameError, Notes, Operation, Outcome, Policy, PolicyError, PolicyName,
    Rate, Request, RetryAfter, Source, Span, SpanError, SpecError, Start, Store, StoreError,
    StoreErrorKind, Strategy, TimeSource, Timestamp, Window,
};
pub use tollgate_memory::{MemoryStore, Stats as MemoryStats};
#[cfg(feature = "redis")]
pub use tollgate_redis::RedisStore;
