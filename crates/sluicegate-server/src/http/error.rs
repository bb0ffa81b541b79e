//! Errors, as an HTTP status and a JSON body.

use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sluicegate::Error;
use sluicegate::error::{RequestErrorKind, StoreError, StoreErrorKind};

/// An error response: `{"error":{"code":"…","message":"…"}}`.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

/// The kinds of errors that other protocols distinguish.
#[cfg(feature = "resp")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ApiErrorKind {
    /// The caller lacks the right.
    Forbidden,
    /// Another instance, or a later request, may have a decision.
    Unavailable,
    /// There is no such limit.
    UnknownLimit,
    /// Any other error of the request.
    Wrong,
}

impl ApiError {
    /// The code of a request for a limit that doesn't exist.
    pub(super) const UNKNOWN_LIMIT: &'static str = "unknown_limit";

    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// Returns the kind of the error.
    #[cfg(feature = "resp")]
    pub(crate) fn kind(&self) -> ApiErrorKind {
        match self.status {
            StatusCode::FORBIDDEN => ApiErrorKind::Forbidden,
            StatusCode::SERVICE_UNAVAILABLE => ApiErrorKind::Unavailable,
            StatusCode::NOT_FOUND if self.code == Self::UNKNOWN_LIMIT => ApiErrorKind::UnknownLimit,
            _ => ApiErrorKind::Wrong,
        }
    }

    /// Returns the message for people.
    #[cfg(any(feature = "envoy", feature = "resp"))]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the error for a request that is malformed, regardless of the limits.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }

    /// Returns the error for a service that is about to stop.
    pub(super) fn draining() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "draining",
            "the service is about to stop: ask another instance",
        )
    }

    /// Returns the error for a limit that denies requests because the store failed.
    pub(crate) fn failed_closed(limit: &str) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_failed_closed",
            format!(
                "the store failed, and limit `{limit}` denies requests then (`on_store_failure: deny`): \
                 try again later; the service's log says why the store failed"
            ),
        )
    }
}

impl From<&Error> for ApiError {
    fn from(error: &Error) -> Self {
        let request = error.as_request().map(|error| match error.kind() {
            RequestErrorKind::Overflow => (StatusCode::BAD_REQUEST, "overflow"),
            RequestErrorKind::Unsupported => (StatusCode::BAD_REQUEST, "unsupported"),
            RequestErrorKind::Conflict => (StatusCode::CONFLICT, "conflict"),
            RequestErrorKind::Full => (StatusCode::CONFLICT, "full"),
            RequestErrorKind::StoreTooSmall => (StatusCode::SERVICE_UNAVAILABLE, "store_too_small"),
            RequestErrorKind::UnfitKey => (StatusCode::BAD_REQUEST, "unfit_key"),
            // The limit existed when it was looked up, or when the token was issued.
            RequestErrorKind::UnknownLimit => (StatusCode::NOT_FOUND, Self::UNKNOWN_LIMIT),
            _ => (StatusCode::BAD_REQUEST, "malformed"),
        });
        let store = || match error.as_store().map(StoreError::kind) {
            Some(StoreErrorKind::Disconnected) => "store_disconnected",
            Some(StoreErrorKind::Timeout) => "store_timeout",
            Some(StoreErrorKind::Unavailable) => "store_unavailable",
            Some(StoreErrorKind::Overloaded) => "store_overloaded",
            Some(StoreErrorKind::Unacknowledged) => "store_unacknowledged",
            _ => "store_failure",
        };
        let (status, code) = request.unwrap_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, store()));
        Self::new(status, code, error.to_string())
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    error: Inner<'a>,
}

#[derive(Serialize)]
struct Inner<'a> {
    code: &'a str,
    message: &'a str,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = Body { error: Inner { code: self.code, message: &self.message } };
        let mut response = json(self.status, &body);
        let field = match self.status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Some((ACCEPT_ENCODING, "identity")),
            _ => None,
        };
        if let Some((name, value)) = field {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// Returns a JSON response that must not be cached.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    /// Enough for a decision about one policy.
    const BYTES: usize = 512;
    let mut bytes = Vec::with_capacity(BYTES);
    if serde_json::to_writer(&mut bytes, body).is_err() {
        // Unreachable: no body has a map with keys that JSON can't represent.
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
