//! The Redis and Valkey store: one script call per decision, whatever the number of policies.
//!
//! The scripts keep the packed states of one subject in one key (`docs/stored-format.md`), judge
//! by the server's clock, write only on admission, and give every key a life in whole
//! milliseconds. A script says yes or no and hands back the states it saw; what is left, when to
//! retry and which policy binds is computed here by the same kernels as everywhere else.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use sluicegate_core::{Limit, Request, Store, TimeSource};
//! use sluicegate_redis::RedisStore;
//!
//! let store = RedisStore::builder("redis://127.0.0.1:6379")?.build();
//! let limit = Limit::new("login".parse()?, vec!["token_bucket 10/s".parse()?])?;
//! let handle = store.open(Arc::new(limit), TimeSource::Store);
//! let decision = store.decide(&handle, Request::check(b"alice")).await?;
//! assert!(decision.is_allowed());
//! # Ok(())
//! # }
//! ```

mod link;
mod program;
mod receipt;
mod reply;
mod script;
mod store;

pub use link::UrlError;
#[doc(hidden)]
pub use program::Program;
pub use receipt::Receipt;
#[doc(hidden)]
pub use reply::{Answer, read_answer};
#[doc(hidden)]
pub use script::Script;
pub use store::{RedisHandle, RedisStore, RedisStoreBuilder};
