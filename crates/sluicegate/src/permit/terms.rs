//! For how long a permit holds, and how often it may be renewed.

use sluicegate_core::{Error, Hold, Limit, Span};

use crate::random_id::random_id;

/// For how long a permit holds, and how often it may be renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// `None` for as long as the limit allows.
    pub(crate) lasts: Option<Span>,
    pub(crate) max_life: Span,
}

impl Terms {
    /// How long a hold lasts where neither a caller nor a limit says so.
    const LASTS: u64 = 30_000;

    /// A new hold under a limit.
    pub(crate) fn hold(self, limit: &Limit) -> Result<Hold, Error> {
        let longest = limit.longest_hold();
        let lasts = self.lasts.or(longest);
        let lasts = lasts.unwrap_or(Span::from_millis(Self::LASTS).unwrap_or(Span::MINUTE));
        // No shorter than a hold may be.
        let most = self.max_life.max(Hold::MIN_LASTS);
        Ok(Hold { id: random_id()?, lasts: lasts.min(most) })
    }
}

impl Default for Terms {
    fn default() -> Self {
        Self { lasts: None, max_life: Span::HOUR }
    }
}
