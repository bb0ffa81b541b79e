//! The embedded store of Sluicegate: one process, bounded memory, tens of nanoseconds a decision.
//!
//! A subject is kept as a keyed 128-bit fingerprint beside its state in a flat table, so a
//! decision touches one place in memory, whatever the length of the key. Every policy has a
//! table of its own, which grows from one small shard to many with a lock each; a decision over several policies
//! locks the shards it needs in one order, and charges all policies or none.
//!
//! ```
//! use sluicegate_core::{Limit, OpenOptions, Request, Store};
//! use sluicegate_memory::MemoryStore;
//!
//! let limit = Limit::new("login", vec!["token_bucket 1/min burst 2"])?;
//! let login = MemoryStore::new().open(limit, OpenOptions::default());
//! assert!(login.decide(Request::check(b"alice"))?.is_allowed());
//! assert!(login.decide(Request::check(b"alice"))?.is_allowed());
//! assert!(login.decide(Request::check(b"alice"))?.is_denied());
//! assert!(login.decide(Request::check(b"bob"))?.is_allowed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod books;
mod budget;
mod builder;
mod cell;
mod clock;
mod decide;
mod directory;
mod entry;
mod eviction_rules;
mod fast;
mod fingerprint;
mod general;
mod held_records;
mod kernels;
mod ledger;
mod lists;
mod lock;
mod occupied;
mod opened;
mod opened_policy;
mod permits;
mod ranking;
mod recent_keys;
mod registry;
mod scales;
mod shard;
mod shards;
mod share;
mod store;
mod table;

pub use builder::Builder;
pub use clock::SystemClock;
pub use opened::MemoryLimit;
pub use registry::Overflow;
pub use store::{MemoryStore, Smallest, Stats};
