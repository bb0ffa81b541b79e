//! The integration tests of the crate, in one program.
//!
//! The modules share a process, so none of them installs a registry: that would replace the limits of the others during
//! their tests. A test that needs its own process is a file next to this folder.

mod allocations;
#[cfg(feature = "macros")]
mod attribute;
#[cfg(feature = "macros")]
mod attribute_compile;
#[cfg(feature = "redis")]
mod breaker;
#[cfg(feature = "redis")]
mod chaos;
#[cfg(feature = "redis")]
mod deny_cache;
mod fallback;
#[cfg(feature = "redis")]
mod fallback_on_servers;
#[cfg(feature = "redis")]
mod first_calls;
mod gate_allocations;
mod holds;
mod ids;
mod keyed;
mod layers;
#[cfg(feature = "redis")]
mod lease_simulation;
#[cfg(feature = "redis")]
mod leases;
#[cfg(feature = "redis")]
mod limiter;
mod lists;
mod log;
mod middleware;
mod namesakes;
#[cfg(feature = "redis")]
#[cfg(feature = "redis")]
mod overrides;
mod permit_queue;
mod permits;
#[cfg(feature = "redis")]
mod queue_fleet;
#[cfg(feature = "redis")]
mod queue_push;
#[cfg(feature = "redis")]
mod queueing;
mod registry;
#[cfg(feature = "redis")]
mod ring_counter;
#[cfg(all(feature = "redis", feature = "tls"))]
mod store_access;
#[cfg(feature = "redis")]
mod store_health;
#[cfg(feature = "redis")]
mod trace;
#[cfg(feature = "watch")]
mod watch;
#[cfg(all(feature = "config", feature = "redis"))]
mod without_tokio;
#[cfg(feature = "calendar")]
mod zones;
