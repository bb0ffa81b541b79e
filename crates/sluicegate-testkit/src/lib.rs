//! Shared code of Sluicegate's tests and benchmarks. No user depends on it.
//!
//! A crate's tests use it as a path-only development dependency. It works on Unix only: a shell
//! supervises the server processes, and signals stop them.
//!
//! - [`ideal_bucket`]: what a limit admits at most, for auditors.
//! - [`layers`]: stores around stores, and a store that is down.
//! - [`lua`]: scripts in an embedded interpreter.
//! - [`processes`]: tests of several processes.
//! - [`proxy`]: network faults, switched on and off between a client and a server.
//! - [`queue_log`]: a log of calls about queues of permits, and an auditor of it.
//! - [`servers`]: real Redis and Valkey servers as child processes, alone, as clusters or with
//!   sentinels, a server that misbehaves, and the proxy Envoy.
//! - [`swap_store`]: a store on read, compare-and-swap and expiry alone.
//! - [`wait`]: polling until something happens, with a time limit.

pub mod ideal_bucket;
pub mod layers;
#[cfg(feature = "lua")]
pub mod lua;
pub mod processes;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod queue_log;
#[cfg(feature = "servers")]
pub mod servers;
pub mod swap_store;
pub mod wait;
