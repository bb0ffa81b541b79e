//! How much the service takes on.

use std::num::NonZeroUsize;

/// How much the service takes on at once.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ServiceConfig {
    /// How many connections are open at most. Where the system allows the process fewer files, it is
    /// that many less some for its own use. Default: 10,000.
    pub max_connections: NonZeroUsize,
    /// How many connections an address has open at most, IPv6 addresses by their network; trusted
    /// proxies have as many as they like. Default: `None`, which is no bound.
    pub max_connections_per_address: Option<NonZeroUsize>,
    /// How many requests are decided at once; others wait for their turn. Default: 256.
    pub max_requests: NonZeroUsize,
    /// How many requests of `/v1/acquire` wait at once, though never more than half of the connections
    /// do; others pass or are denied immediately. Default: 1,000.
    pub max_waiting: NonZeroUsize,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        const fn number(number: usize) -> NonZeroUsize {
            match NonZeroUsize::new(number) {
                Some(number) => number,
                None => NonZeroUsize::MIN,
            }
        }
        Self {
            max_connections: number(10_000),
            max_connections_per_address: None,
            max_requests: number(256),
            max_waiting: number(1_000),
        }
    }
}
