//! The embedded store of Sluicegate: one process, bounded memory, tens of nanoseconds a decision.
//!
//! A subject is kept as a keyed 128-bit fingerprint beside its state in a flat table, so a
//! decision touches one place in memory, whatever the length of the key. Every policy has a
//! table of its own, cut into shards with a small lock each; a decision over several policies
//! locks the shards it needs in one order, and charges all policies or none.
//!
//! ```
//! use std::sync::Arc;
//! use sluicegate_core::{EmbeddedStore, Limit, Request, Store, TimeSource};
//! use sluicegate_memory::MemoryStore;
//!
//! let limit = Limit::new("login".parse()?, vec!["token_bucket 1/min burst 2".parse()?])?;
//! let store = MemoryStore::new();
//! let login = store.open(Arc::new(limit), TimeSource::Store);
//! assert!(store.decide_now(&login, Request::check(b"alice"))?.is_allowed());
//! assert!(store.decide_now(&login, Request::check(b"alice"))?.is_allowed());
//! assert!(store.decide_now(&login, Request::check(b"alice"))?.is_denied());
//! assert!(store.decide_now(&login, Request::check(b"bob"))?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod budget;
mod builder;
mod cell;
mod clock;
mod fingerprint;
mod handle;
mod judges;
mod lock;
mod many;
mod one;
mod place;
mod receipt;
mod registry;
mod ring;
mod scales;
mod shard;
mod store;
mod table;

pub use builder::{Builder, Overflow};
pub use clock::SystemClock;
pub use handle::Handle;
pub use receipt::Receipt;
pub use store::{MemoryStore, Stats};
