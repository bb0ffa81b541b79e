//! A service's answers in its own format.

use hyper::StatusCode;
use hyper::body::Bytes;
use serde::Deserialize;

/// An unparsed answer of a service, returned by
/// [`RemoteStore::exchange`](crate::RemoteStore::exchange).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reply {
    /// HTTP status.
    pub status: StatusCode,
    /// Body of at most 4 MiB; JSON if a Sluicegate service answered.
    pub body: Bytes,
}

impl Reply {
    /// Returns the error in the body, if it contains one.
    #[must_use]
    pub fn error(&self) -> Option<ServiceError> {
        let body: ErrorAnswer = serde_json::from_slice(&self.body).ok()?;
        Some(body.error)
    }
}

/// An error reported by a service.
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct ServiceError {
    /// Error code, such as `unknown_limit`; the OpenAPI document lists the codes.
    pub code: String,
    /// Message for people. It may contain characters that are unsafe to print on a terminal.
    pub message: String,
}

/// The body of `/readyz`.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) store: String,
    pub(crate) store_error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ErrorAnswer {
    error: ServiceError,
}
