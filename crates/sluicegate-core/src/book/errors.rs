//! Errors of requests that can't leave a record.

use super::Book;
use crate::failure::{RequestError, RequestErrorKind};
use crate::hold::HoldId;
use crate::limit::Limit;

impl RequestError {
    /// Returns the error for a hold whose id belongs to another hold. For stores.
    #[cold]
    #[must_use]
    pub fn id_in_use(limit: &Limit, id: HoldId) -> Self {
        Self::new(
            RequestErrorKind::Conflict,
            format!(
                "limit `{}` already has a hold {id} of this subject: take a new id for each request; nothing was charged",
                limit.name()
            ),
        )
    }

    /// Returns the error for a subject that has the maximum number of holds. For stores.
    #[cold]
    #[must_use]
    pub fn too_many_holds(limit: &Limit) -> Self {
        Self::new(
            RequestErrorKind::Full,
            format!(
                "limit `{}` has {} holds of one subject, the maximum: settle them, or hold for a shorter time; nothing was charged",
                limit.name(),
                Book::MOST
            ),
        )
    }
}
