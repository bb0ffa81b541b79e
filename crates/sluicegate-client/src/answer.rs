//! Answers as a service writes them.

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Deserialize;

/// An answer as a service wrote it; [`RemoteStore::exchange`](crate::RemoteStore::exchange) returns it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The body: JSON, if a Sluicegate service answered. 4 MiB or less.
    pub body: Bytes,
}

impl Reply {
    /// Returns the error that the body states, if it states one.
    #[must_use]
    pub fn error(&self) -> Option<ServiceError> {
        let body: ErrorAnswer = serde_json::from_slice(&self.body).ok()?;
        Some(body.error)
    }
}

/// An error that a service states.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct ServiceError {
    /// The code, such as `unknown_limit`; the OpenAPI document lists them.
    pub code: String,
    /// The message, for people. It may have characters that a terminal shouldn't get.
    pub message: String,
}

/// A service that is ready.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) store: String,
    pub(crate) store_error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ErrorAnswer {
    error: ServiceError,
}
