//! Layers: stores around stores. Each changes the answers of the inner store, and any stack of them is a store.

#[cfg(feature = "layers")]
mod breaker;
mod clock;
#[cfg(feature = "layers")]
mod deny_cache;
#[cfg(feature = "layers")]
mod fallback;
#[cfg(feature = "layers")]
mod fingerprint;
#[cfg(feature = "layers")]
mod layer;
#[cfg(feature = "layers")]
mod leases;
mod options;
#[cfg(feature = "layers")]
mod parts;
#[cfg(feature = "layers")]
mod retry;

#[cfg(feature = "layers")]
pub use breaker::{Breaker, BreakerBuilder, BreakerChange, BreakerEvent, BreakerLimit};
pub use clock::SuspendAwareClock;
#[cfg(feature = "layers")]
pub use deny_cache::{DenyCache, DenyCacheBuilder, DenyCacheLimit};
#[cfg(feature = "layers")]
pub use fallback::{
    Fallback, FallbackBuilder, FallbackChange, FallbackEvent, FallbackLimit, Processes,
};
#[cfg(feature = "layers")]
pub use leases::{LeaseStats, Leases, LeasesBuilder, LeasesLimit};
#[cfg(feature = "config")]
pub(crate) use options::DEADLINE;
pub use options::{FallsBack, LeaseOptions, RemembersDenials, RetriesUnknown};
#[cfg(feature = "layers")]
pub use retry::{Retry, RetryLimit};
