//! For how long a request is to hold what it takes, and under which id.

use sluicegate_core::{Error, Hold, HoldId, Limit, Span};

use crate::random_id::random_id;

/// Whether a request holds what it takes, for how long, and under which id: what callers of a service
/// may leave open.
///
/// ```
/// use sluicegate::decision::{HoldId, Holding};
/// use sluicegate::store::Span;
///
/// let (id, minute) = (HoldId::from_bytes([7; 16]), Span::MINUTE);
/// assert_ne!(Holding::lasting(minute), Holding::as_needed());
/// assert_ne!(Holding::lasting(minute), Holding::lasting(minute).under(id));
/// ```
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[must_use]
pub struct Holding {
    lasts: Option<Span>,
    id: Option<HoldId>,
}

impl Holding {
    /// A request holds what it takes only under a limit that counts what is in flight, and there for as
    /// long as that says.
    pub const fn as_needed() -> Self {
        Self { lasts: None, id: None }
    }

    /// A request holds what it takes for so long: 1 ms to a day.
    pub fn lasting(lasts: impl Into<Span>) -> Self {
        Self { lasts: Some(lasts.into()), id: None }
    }

    /// Sets the id of the hold, 128 bits that nobody guesses, as for
    /// [`Question::under`](crate::question::Question::under). Without one it is made.
    pub const fn under(mut self, id: HoldId) -> Self {
        self.id = Some(id);
        self
    }

    /// Whether the request holds what it takes under any limit.
    pub(crate) const fn is_wanted(self) -> bool {
        self.lasts.is_some()
    }

    /// What a request to this limit is to hold.
    pub(crate) fn of(self, limit: &Limit) -> Result<Option<Hold>, Error> {
        let Some(lasts) = self.lasts.or_else(|| limit.longest_hold()) else { return Ok(None) };
        let id = self.id.map_or_else(random_id, Ok)?;
        Ok(Some(Hold { id, lasts }))
    }
}
