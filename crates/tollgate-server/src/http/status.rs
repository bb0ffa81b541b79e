//! What the service says about itself.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tollgate::config::LimitConfig;
use tollgate::{Enforcement, OnStoreFailure};

use super::error::{ApiError, json};
use super::metrics::Metrics;
use super::service::Service;

#[derive(Serialize)]
struct Limits<'a> {
    limits: Vec<LimitEntry<'a>>,
}

#[derive(Serialize)]
struct LimitEntry<'a> {
    name: &'a str,
    key: &'a str,
    on_store_failure: &'static str,
    deadline_ms: u64,
    policies: Vec<PolicyEntry<'a>>,
}

#[derive(Serialize)]
struct PolicyEntry<'a> {
    name: &'a str,
    spec: String,
    shadow: bool,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

/// `GET /v1/limits`.
pub(super) async fn limits(State(service): State<Arc<Service>>) -> Response {
    let limits = service.registry.iter().map(|(config, _)| limit_entry(config)).collect();
    json(StatusCode::OK, &Limits { limits })
}

/// `GET /v1/recent`: the newest checks, keys and all.
pub(super) async fn recent(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    Ok(json(StatusCode::OK, &service.recent.answer()))
}

/// `GET /healthz`: the process is up.
pub(super) async fn healthz() -> Response {
    json(StatusCode::OK, &Status { status: "up" })
}

/// `GET /readyz`: the store answers.
pub(super) async fn readyz(State(service): State<Arc<Service>>) -> Result<Response, ApiError> {
    /// A probe gives up after a second anyway.
    const PATIENCE: Duration = Duration::from_secs(1);
    let Some((_, limiter)) = service.registry.iter().next() else {
        return Ok(json(StatusCode::OK, &Status { status: "ready" }));
    };
    match tokio::time::timeout(PATIENCE, limiter.store().ping()).await {
        Ok(Ok(())) => {
            service.store_answered();
            Ok(json(StatusCode::OK, &Status { status: "ready" }))
        }
        Ok(Err(error)) => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_unavailable",
            error.to_string(),
        )),
        Err(_) => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "store_timeout",
            "the store did not answer within a second",
        )),
    }
}

/// `GET /metrics`.
pub(super) async fn metrics(State(service): State<Arc<Service>>) -> Response {
    match service.metrics.render() {
        Ok(text) => ([(CONTENT_TYPE, Metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn limit_entry(config: &LimitConfig) -> LimitEntry<'_> {
    let policies = config
        .limit
        .members()
        .iter()
        .map(|member| PolicyEntry {
            name: member.name().as_str(),
            spec: member.policy().to_string(),
            shadow: member.policy().enforcement() == Enforcement::Shadow,
        })
        .collect();
    LimitEntry {
        name: config.limit.name().as_str(),
        key: &config.key,
        on_store_failure: match config.on_store_failure {
            OnStoreFailure::Allow => "allow",
            OnStoreFailure::Deny => "deny",
            _ => "error",
        },
        deadline_ms: config.deadline.as_millis_ceil(),
        policies,
    }
}
