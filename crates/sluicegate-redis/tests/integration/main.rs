//! The integration tests of the Redis store, in one program.
//!
//! The modules share a process and its shared servers.

mod accounts;
mod answers;
mod batches;
mod boards;
mod cluster;
mod connections;
mod contact;
mod deadlines;
mod detours;
mod failures;
mod joint;
mod replicas;
mod rights;
mod sentinels;
mod servers;
mod splits;
#[cfg(feature = "tls")]
mod tls;
mod topologies;
mod waiting_calls;
