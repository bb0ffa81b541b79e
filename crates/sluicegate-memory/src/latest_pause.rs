//! The end of a limit's latest pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The end of the latest pause of any subject of a limit, in µs since the epoch; 0 if there was
/// none.
///
/// Before that time, a request reads its subject's book. The limit's handles share the value, and it
/// never decreases: a later value only makes requests slower. A thread that sees the answer to a
/// pause also sees its end, so relaxed accesses suffice.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatestPause(Arc<AtomicU64>);

impl LatestPause {
    /// Records a pause that lasts until `until`.
    pub(crate) fn extend(&self, until: u64) {
        self.0.fetch_max(until, Relaxed);
    }

    /// Returns whether any subject may be paused at `now`.
    #[inline]
    pub(crate) fn may_last(&self, now: u64) -> bool {
        self.0.load(Relaxed) > now
    }
}
