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

/// A decision. Fields that a later service adds are passed over.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) source: String,
    pub(crate) binding: Option<String>,
    pub(crate) binding_limit: Option<String>,
    /// `None` for never.
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) granted: Option<u64>,
    #[serde(default)]
    pub(crate) repeat: bool,
    pub(crate) forgotten: Option<bool>,
    pub(crate) found: Option<String>,
    pub(crate) cancelled: Option<bool>,
    pub(crate) hold: Option<HoldAnswer>,
    pub(crate) ban: Option<BanAnswer>,
    /// What ended a wait.
    pub(crate) code: Option<String>,
    pub(crate) ahead: Option<u64>,
    #[serde(default)]
    pub(crate) restamped: bool,
    pub(crate) policies: Vec<PolicyAnswer>,
}

/// What is held.
#[derive(Debug, Deserialize)]
pub(crate) struct HoldAnswer {
    pub(crate) token: String,
    pub(crate) expires_in_us: u64,
}

/// Whose ban it is, and when it ends.
#[derive(Debug, Deserialize)]
pub(crate) struct BanAnswer {
    pub(crate) limit: String,
    pub(crate) ends_in_us: u64,
    pub(crate) begins: bool,
}

/// What one policy says.
#[derive(Debug, Deserialize)]
pub(crate) struct PolicyAnswer {
    pub(crate) name: String,
    pub(crate) limit_name: Option<String>,
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) reset_after_us: Option<u64>,
    #[serde(default)]
    pub(crate) wait_us: u64,
    pub(crate) allowed: bool,
    pub(crate) given_back: Option<u64>,
    #[serde(default)]
    pub(crate) window_total: u64,
    #[serde(default)]
    pub(crate) current_slice: u64,
    #[serde(default)]
    pub(crate) violated: Vec<u32>,
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
