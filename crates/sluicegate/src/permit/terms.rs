//! The duration of a permit's hold, and the time for which it is renewed.

use std::time::Duration;

use sluicegate_core::{Error, Hold, Limit};

use crate::random_id::random_id;

/// The duration of a permit's hold, and the time for which it is renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// `None` for as long as the limit allows.
    pub(crate) lasts: Option<Duration>,
    pub(crate) max_life: Duration,
}

impl Terms {
    /// Default duration of a hold, if neither the caller nor the limit sets one.
    const LASTS: Duration = Duration::from_secs(30);

    /// Makes a new hold under a limit.
    pub(crate) fn hold(self, limit: &Limit) -> Result<Hold, Error> {
        let lasts = self.lasts.or_else(|| limit.longest_hold()).unwrap_or(Self::LASTS);
        // At least the minimum duration of a hold.
        let most = self.max_life.max(Hold::MIN_LASTS);
        Ok(Hold { id: random_id()?, lasts: lasts.min(most) })
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self { lasts: None, max_life: Duration::from_secs(3_600) }
    }
}
