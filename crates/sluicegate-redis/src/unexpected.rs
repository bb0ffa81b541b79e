//! Errors for answers that make no sense.

use sluicegate_core::{Error, StoreError, StoreErrorKind};

/// The script answered something that it never answers.
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

/// A server answered a command with something that no server answers.
#[cold]
pub(crate) fn unexpected(command: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unexpected,
        format!("the store's answer to {command} makes no sense"),
    )
}
