//! Errors for invalid answers.

use sluicegate_core::{Error, StoreError, StoreErrorKind};

/// Returns the error for an answer that the script never gives.
#[cold]
pub(crate) fn nonsense(what: &str) -> Error {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!(
            "the store answered {what}: is it a Redis or Valkey server, used by this program alone under its key prefix?"
        ),
    )
    .into()
}

/// Returns the error for an answer to a command that no server gives.
#[cold]
pub(crate) fn unexpected(command: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!("the store's answer to {command} makes no sense"),
    )
}
