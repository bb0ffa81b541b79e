//! Sluicegate, a distributed rate limiter: every algorithm exact to the integer, the same answer in
//! every store, several policies decided all or nothing in one round trip.
//!
//! ```
//! use sluicegate::{Limiter, MemoryStore};
//!
//! let limit = sluicegate::limit("login", ["token_bucket 10/s burst 2", "fixed_window 100/d"])?;
//! let limiter = Limiter::new(MemoryStore::new(), limit);
//! for expected in [true, true, false] {
//!     let decision = limiter.check_now("alice")?;
//!     assert_eq!(decision.is_allowed(), expected);
//! }
//! assert!(limiter.peek_now("alice")?.retry_after().duration().is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Limiter`] is one limit in a store. Any store is asked with `await` ([`Limiter::check`]); one
//!   that waits for nothing, such as the embedded store, also at once ([`Limiter::check_now`]).
//! - [`Store`] is what a store is: yours, or a layer around another one, goes wherever ours go.
//! - [`Ask`] says what a request costs; any bytes alone are a key.
//! - [`limit()`] reads policies the way a config file has them; [`Policy`] has a constructor per
//!   algorithm.
//! - [`Registry`] has all limits of a [config file](config), in the store that the file names.
//!
//! # Features
//!
//! - `macros` (default): the attribute [`#[limit(…)]`](macro@limit).
//! - `redis` (default): the Redis and Valkey store.
//! - `metrics`: counters of all answers for Prometheus ([`metrics`]).
//! - `watch`: following a config file while the program runs ([`Registry::watch`]).
//!
//! # Middleware
//!
//! Limits in front of a web service are crates of their own, so that a new version of a framework is
//! no new version of this: `sluicegate-tower` for axum, hyper, tonic and whatever else is built of
//! tower services, `sluicegate-actix` for actix-web. What they are made of is in [`middleware`], for
//! whoever has another framework.

#![cfg_attr(docsrs, feature(doc_cfg))]

// For the links of `middleware::builder_methods!`, which writes documentation in other crates too.
#[cfg(doc)]
extern crate self as sluicegate;

mod ask;
#[cfg(feature = "macros")]
mod attribute;
mod caller;
pub mod config;
mod denied;
mod limit;
mod limiter;
#[cfg(feature = "metrics")]
pub mod metrics;
pub mod middleware;
mod observe;
mod open_store;
mod registry;
mod ring_counter;

pub use ask::Ask;
#[cfg(feature = "macros")]
pub use attribute::{FromDenied, install, installed};
pub use caller::Caller;
pub use config::{Config, OnStoreFailure, StoreUrl};
pub use denied::{Denied, DeniedReason};
pub use limit::{InvalidLimit, limit};
pub use limiter::{Limiter, LimiterBuilder, Reservation};
pub use observe::{Answered, Observer};
pub use open_store::{OpenError, StoreOptions};
pub use registry::{
    Changes, Gate, MissingKey, Registry, RegistryBuilder, ReloadError, RequestKeys, Switch,
    UnknownLimit,
};
#[cfg(feature = "watch")]
pub use registry::{Watch, WatchError, WatchOptions, WatchStatus};
pub use ring_counter::RingCounter;
pub use sluicegate_core::{
    Action, Algorithm, Answer, BoxFuture, CalendarUnit, CalendarWindow, Clock, Cost, Costs,
    Decision, DeniedCharge, Enforcement, Error, InvalidNumber, KeyPrefix, Limit, LimitError,
    LimitName, ManualClock, Member, NameError, NodeId, Notes, OpenOptions, OpenedLimit, Operation,
    Outcome, Policy, PolicyError, PolicyName, Rate, Receipt, ReceiptError, Request, RequestError,
    RequestErrorKind, RetryAfter, SharedLimit, SharedStore, SliceCounts, Source, Span, SpanError,
    SpecError, Start, Store, StoreError, StoreErrorKind, StoreId, StoreStats, Strategy, TimeSource,
    Timestamp, Window,
};
/// Keys from requests, client addresses, response fields, problem bodies: the words of HTTP.
pub use sluicegate_http as http;
#[cfg(feature = "macros")]
pub use sluicegate_macros::limit;
pub use sluicegate_memory::{MemoryLimit, MemoryStore, SystemClock};
#[cfg(feature = "redis")]
pub use sluicegate_redis::{RedisLimit, RedisStore};

/// What generated code calls: no API, and free to change.
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod __private {
    pub use crate::attribute::{
        Answer, Answers, AnswersNow, AsRegistry, Call, Component, Copied, FromDenied, IntoUnits,
        Key, KeyPart, KeyWriter, OnMissing, OtherUnits, Part, PutCopied, PutDisplay, PutOption,
        Resolve, ResolveFuture, Site, Units, answer, holds, run, store_failure,
    };
    pub use crate::denied::Denied;
}

/// The guides: their examples are compiled and run.
#[cfg(doctest)]
mod guides {
    #[cfg(feature = "macros")]
    #[doc = include_str!("../../../docs/attribute.md")]
    mod attribute {}
    #[doc = include_str!("../../../docs/operation.md")]
    mod operation {}
    #[doc = include_str!("../../../docs/waiting.md")]
    mod waiting {}
}
