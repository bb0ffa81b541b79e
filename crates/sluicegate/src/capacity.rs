//! Whether the embedded store can hold one key of each limit.

use std::sync::Arc;

use sluicegate_core::{Limit, StoreStats};
use sluicegate_memory::MemoryStore;

use crate::config_file::{LimitConfig, Override};

/// A cap of the embedded store that can't hold one key of each limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TooSmall {
    /// The field of a file, below `memory`.
    pub(crate) field: &'static str,
    cap: u64,
    needed: u64,
    unit: &'static str,
}

impl TooSmall {
    /// Returns the caps of a store with this size that can't hold one key of each limit.
    pub(crate) fn of<'l>(
        stats: &StoreStats,
        limits: impl IntoIterator<Item = &'l Arc<LimitConfig>>,
    ) -> Vec<Self> {
        let (Some(max_keys), Some(max_bytes)) = (stats.max_keys, stats.max_bytes) else {
            return Vec::new();
        };
        let smallest = MemoryStore::smallest_for(limits.into_iter().flat_map(all_numbers));
        let caps = [
            ("max_keys", "keys", max_keys, smallest.max_keys as u64),
            ("max_bytes", "bytes", max_bytes, smallest.max_bytes as u64),
        ];
        let too_small = caps.into_iter().filter(|(_, _, cap, needed)| cap < needed);
        too_small.map(|(field, unit, cap, needed)| Self { field, cap, needed, unit }).collect()
    }

    /// Returns the problem and the values to write.
    pub(crate) fn message(self) -> String {
        let Self { field, cap, needed, unit } = self;
        format!(
            "memory.{field}: is {cap}, but one key of each limit takes {needed} {unit}: write at least {needed}, or remove limits"
        )
    }
}

/// Returns a limit with its own numbers, and with those of its overrides.
fn all_numbers(config: &Arc<LimitConfig>) -> impl Iterator<Item = &Limit> {
    std::iter::once(&config.limit).chain(config.overrides.iter().map(Override::limit))
}
