//! The duration and the id of a request's hold.

use std::time::Duration;

use sluicegate_core::{Error, Hold, HoldId, Limit};

use crate::random_id::random_id;

/// Whether a request holds its units, for how long, and under which id. Callers of a service may leave each of these
/// open.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::decision::{HoldId, Holding};
///
/// let (id, minute) = (HoldId::from_bytes([7; 16]), Duration::from_secs(60));
/// assert_ne!(Holding::lasting(minute), Holding::as_needed());
/// assert_ne!(Holding::lasting(minute), Holding::lasting(minute).under(id));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Holding {
    lasts: Option<Duration>,
    id: Option<HoldId>,
}

impl Holding {
    /// Holds units only under a limit that counts requests in flight, for the duration that the limit sets.
    pub const fn as_needed() -> Self {
        Self { lasts: None, id: None }
    }

    /// Holds units under every limit for `lasts`: 1 ms to a day.
    pub const fn lasting(lasts: Duration) -> Self {
        Self { lasts: Some(lasts), id: None }
    }

    /// Sets the id of the hold: 128 bits that can't be guessed, as for
    /// [`Question::under`](crate::question::Question::under). By default a random id is made.
    pub const fn under(mut self, id: HoldId) -> Self {
        self.id = Some(id);
        self
    }

    /// Returns whether the request holds its units under any limit.
    pub(crate) const fn is_wanted(self) -> bool {
        self.lasts.is_some()
    }

    /// Returns the hold of a request to this limit.
    pub(crate) fn of(self, limit: &Limit) -> Result<Option<Hold>, Error> {
        let Some(lasts) = self.lasts.or_else(|| limit.longest_hold()) else { return Ok(None) };
        let id = self.id.map_or_else(random_id, Ok)?;
        Ok(Some(Hold { id, lasts }))
    }
}
