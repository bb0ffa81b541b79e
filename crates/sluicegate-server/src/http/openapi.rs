//! The description of the API for programs.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

/// An `OpenAPI` 3.1 document. Tests hold the running service to it, and it to the routes.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    include_str!("openapi.json").replace("{{version}}", env!("CARGO_PKG_VERSION"))
});

/// `GET /v1/openapi.json`.
pub(super) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}
