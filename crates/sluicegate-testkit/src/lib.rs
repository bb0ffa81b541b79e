//! What Sluicegate's tests and benches share, and no user ever depends on.
//!
//! A crate's tests take this one as a path-only development dependency. It is Unix only: server
//! processes are supervised by a shell and stopped with signals.
//!
//! - [`mod@reference`]: a slow and obvious model of every policy, which the stores are compared with.
//! - [`conformance`]: case files, and a runner that holds any store against them: a crate of its
//!   own, because the binary needs it too.
//! - [`schedules`]: seeded random policies and requests, with the answers the model gives.
//! - [`kernels`]: the Rust kernels over a plain map, [`lua`]: scripts in an embedded interpreter.
//! - [`servers`]: real Redis and Valkey servers as child processes, and a server that misbehaves.

pub use sluicegate_conformance as conformance;

#[cfg(feature = "reference")]
pub mod kernels;
#[cfg(feature = "lua")]
pub mod lua;
#[cfg(feature = "reference")]
pub mod reference;
#[cfg(feature = "reference")]
pub mod schedules;
#[cfg(feature = "servers")]
pub mod servers;
