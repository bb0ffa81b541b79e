//! What Sluicegate's tests and benches share, and no user ever depends on.
//!
//! A crate's tests take this one as a path-only development dependency. It is Unix only: server
//! processes are supervised by a shell and stopped with signals.
//!
//! - [`layers`]: stores around stores, and one that is down.
//! - [`lua`]: scripts in an embedded interpreter.
//! - [`processes`]: tests of several processes.
//! - [`proxy`]: faults of networks, switched on and off between a client and a server.
//! - [`queue_log`]: what is asked about queues of permits, and an auditor of that.
//! - [`servers`]: real Redis and Valkey servers as child processes, alone, as clusters or watched by
//!   sentinels, and a server that misbehaves.
//! - [`swap_store`]: a store over read, compare-and-swap and expiry alone.
//! - [`wait`]: looking for what others do until it is seen, and never for ever.

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
