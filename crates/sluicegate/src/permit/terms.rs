//! The duration of a permit's hold, and the time for which it is renewed.

use sluicegate_core::{Error, Hold, Limit, Span};

use crate::random_id::random_id;

/// The duration of a permit's hold, and the time for which it is renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// `None` for as long as the limit allows.
    pub(crate) lasts: Option<Span>,
    pub(crate) max_life: Span,
}

impl Terms {
    /// Default duration of a hold in milliseconds, if neither the caller nor the limit sets one.
    const LASTS: u64 = 30_000;

    /// Makes a new hold under a limit.
    pub(crate) fn hold(self, limit: &Limit) -> Result<Hold, Error> {
        let longest = limit.longest_hold();
        let lasts = self.lasts.or(longest);
        let lasts = lasts.unwrap_or(Span::from_millis(Self::LASTS).unwrap_or(Span::MINUTE));
        // At least the minimum duration of a hold.
        let most = self.max_life.max(Hold::MIN_LASTS);
        Ok(Hold { id: random_id()?, lasts: lasts.min(most) })
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self { lasts: None, max_life: Span::HOUR }
    }
}
