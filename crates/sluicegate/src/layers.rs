//! Layers: stores around stores. Each changes the answers of the inner store, and any stack of them is a store.

mod breaker;
mod clock;
mod deny_cache;
mod fallback;
mod fingerprint;
mod layer;
mod leases;
mod options;
mod parts;
mod retry;

pub use breaker::{Breaker, BreakerBuilder, BreakerChange, BreakerEvent, BreakerLimit};
pub use clock::SuspendAwareClock;
pub use deny_cache::{DenyCache, DenyCacheBuilder, DenyCacheLimit};
pub use fallback::{
    Fallback, FallbackBuilder, FallbackChange, FallbackEvent, FallbackLimit, Processes,
};
pub use leases::{LeaseStats, Leases, LeasesBuilder, LeasesLimit};
pub use options::{FallsBack, LeaseOptions, RemembersDenials, RetriesUnknown};
pub use retry::{Retry, RetryLimit};
