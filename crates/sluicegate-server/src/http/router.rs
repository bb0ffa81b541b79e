//! Which call goes where.

use std::sync::Arc;

use axum::Router;
use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post};

use super::error::ApiError;
use super::service::Service;
use super::{decide, page, status};

pub(super) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/healthz", get(status::healthz))
        .route("/metrics", get(status::metrics))
        .route("/readyz", get(status::readyz))
        .route("/v1/check", post(decide::check))
        .route("/v1/limits", get(status::limits))
        .route("/v1/peek", post(decide::peek))
        .route("/v1/recent", get(status::recent))
        .route("/v1/refund", post(decide::refund))
        .route("/v1/reset", post(decide::reset))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(map_response(harden))
        .with_state(service)
}

async fn not_found() -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "there is nothing here: the API is /v1/check, /v1/peek, /v1/refund, /v1/reset and /v1/limits",
    )
}

async fn method_not_allowed() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "the path exists for another method: see the field Allow",
    )
}

async fn harden(mut response: Response) -> Response {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
