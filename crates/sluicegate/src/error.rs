//! Errors. Each message says what to change.
//!
//! [`Error`](crate::Error) is the error of a request: a [`StoreError`] or a [`RequestError`].

pub use sluicegate_core::{
    CursorError, HoldIdError, HoldTokenError, InvalidNumber, LimitError, NameError, OnExpiryError,
    PolicyError, ReceiptError, RequestError, RequestErrorKind, RequestIdError, SpanError,
    SpecError, StoreError, StoreErrorKind,
};

#[cfg(feature = "macros")]
pub use crate::attribute::FromDenied;
pub use crate::denied::DeniedReason;
#[cfg(feature = "config")]
pub use crate::open_store::OpenError;
#[cfg(feature = "config")]
pub use crate::registry::{JoinError, MissingKey, ReloadError};
#[cfg(feature = "config")]
pub use crate::uses::MissingNames;
#[cfg(feature = "watch")]
pub use crate::watch::WatchError;
