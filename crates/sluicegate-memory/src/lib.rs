//! The embedded store of Sluicegate: one process, bounded memory, tens of nanoseconds a decision.
//!
//! The main type is [`MemoryStore`]. It keeps a subject as a keyed 128-bit fingerprint next to its
//! state in a flat table. So a decision touches one place in memory, regardless of the key's
//! length. Every policy has its own table, which grows from one small shard to many shards with a
//! lock each. A decision over several policies locks the shards it needs in a fixed order, and
//! charges all policies or none.
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
mod boards;
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
mod latest_pause;
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
mod settings;
mod settings_table;
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
