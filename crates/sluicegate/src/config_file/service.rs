//! Limits on the load of the service.

use std::num::NonZeroUsize;

/// Limits on the concurrent load of the service.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ServiceConfig {
    /// Maximum number of open connections. If the system allows the process fewer files, it is that number less some
    /// for its own use. Default: 10,000.
    pub max_connections: NonZeroUsize,
    /// Maximum number of open connections per address; IPv6 addresses count by their network. Trusted proxies have no
    /// maximum. Default: `None`, for no maximum.
    pub max_connections_per_address: Option<NonZeroUsize>,
    /// Maximum number of requests that are decided at the same time; others wait for their turn. Default: 256.
    pub max_requests: NonZeroUsize,
    /// Maximum number of waiting requests of `/v1/acquire`, at most half of the connections. Others pass or are denied
    /// immediately. Default: 1,000.
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
