//! The fallback for a store that fails.

use crate::layers::Processes;

/// The fallback for a store that fails, for limits whose `on_store_failure` is `local`.
///
/// ```
/// use std::num::NonZeroU16;
///
/// use sluicegate::config::FallbackConfig;
/// use sluicegate::layers::{FallsBack, Processes};
/// use sluicegate::config::StoreUrl;
/// use sluicegate::store::{OpenOptions, StoreOptions};
///
/// let four = Processes::Number(NonZeroU16::new(4).ok_or("none")?);
/// let mut options = StoreOptions::default();
/// options.fallback = Some(FallbackConfig::new(four));
/// # #[cfg(feature = "redis")] {
/// let store = "redis://127.0.0.1".parse::<StoreUrl>()?.open(&options)?;
/// # let _ = store; }
/// // And each limit that is to be decided so is opened with this.
/// let local = OpenOptions::default().layer(FallsBack(true));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FallbackConfig {
    /// The number of processes that share the limits.
    pub processes: Processes,
}

impl FallbackConfig {
    /// Makes a fallback in which each of `processes` processes decides by its share.
    #[must_use]
    pub const fn new(processes: Processes) -> Self {
        Self { processes }
    }
}
