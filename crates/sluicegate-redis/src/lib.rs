//! The Redis and Valkey store: one script call per decision, regardless of the number of policies.
//!
//! The main type is [`RedisStore`]. The scripts keep the packed states of one subject under one key
//! (`docs/stored-format.md`). They evaluate by the server's clock, write only on admission, and set an expiry
//! on every key. A script decides, and returns the states it saw. From these, the kernels that all stores
//! share compute the remaining units, the retry time and the binding policy.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use sluicegate_core::{Limit, OpenOptions, OpenedLimit, Request, Store};
//! use sluicegate_redis::RedisStore;
//!
//! let store = RedisStore::builder("redis://127.0.0.1:6379")?.build();
//! let limit = Limit::new("login", vec!["token_bucket 10/s"])?;
//! let login = store.open(limit, OpenOptions::default());
//! let decision = login.ask(Request::check(b"alice")).wait().await?;
//! assert!(decision.is_allowed());
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod access;
mod ban;
mod bans;
mod board;
mod call;
mod cluster;
mod constant;
mod format;
mod hold;
mod holders;
mod inline;
mod joint;
mod line;
mod link;
mod listener;
mod once;
mod opened;
mod program;
mod program_frame;
mod redis_url;
mod refusal;
mod reply;
mod reply_frame;
mod resp;
mod scan;
mod script;
mod script_limit;
mod settings;
mod slot;
mod store;
mod topology;
mod twin;
mod unexpected;

pub use access::{Credentials, CredentialsError, TlsOptions};
#[doc(hidden)]
pub use hold::with_record;
pub use opened::RedisLimit;
#[doc(hidden)]
pub use program::{Program, cancellation};
#[doc(hidden)]
pub use program_frame::without_lane;
pub use redis_url::{RedisUrl, UrlError};
#[doc(hidden)]
pub use reply::{Reply, read_reply};
#[doc(hidden)]
pub use reply_frame::{ReplyFrame, Said};
#[doc(hidden)]
pub use resp::Value;
#[doc(hidden)]
pub use script::Script;
pub use store::{RedisStore, RedisStoreBuilder};
