//! What went wrong, as a status and a JSON body.

use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use sluicegate::{StoreError, StoreErrorKind};

/// An answer that is no decision: `{"error":{"code":"…","message":"…"}}`.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    /// The request makes no sense, whatever the limits are.
    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "malformed", message)
    }
}

impl From<&StoreError> for ApiError {
    fn from(error: &StoreError) -> Self {
        let (status, code) = match error.kind() {
            StoreErrorKind::InvalidRequest => (StatusCode::BAD_REQUEST, "malformed"),
            StoreErrorKind::Overflow => (StatusCode::BAD_REQUEST, "overflow"),
            StoreErrorKind::Unsupported => (StatusCode::BAD_REQUEST, "unsupported"),
            StoreErrorKind::Disconnected => (StatusCode::SERVICE_UNAVAILABLE, "store_disconnected"),
            StoreErrorKind::Timeout => (StatusCode::SERVICE_UNAVAILABLE, "store_timeout"),
            StoreErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
            _ => (StatusCode::SERVICE_UNAVAILABLE, "store_failure"),
        };
        Self::new(status, code, error.to_string())
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
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// A JSON answer that nobody may cache.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (
            status,
            [
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (CACHE_CONTROL, HeaderValue::from_static("no-store")),
            ],
            bytes,
        )
            .into_response(),
        // No body of ours has a map with keys that JSON doesn't know.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
