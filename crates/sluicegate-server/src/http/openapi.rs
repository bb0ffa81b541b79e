//! The description of the API for programs.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

/// The `OpenAPI` 3.1 document. Tests compare it with the running service and its routes.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    include_str!("openapi.json").replace("{{version}}", env!("CARGO_PKG_VERSION"))
});

/// `GET /v1/openapi.json`.
pub(super) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.as_str()).into_response()
}
