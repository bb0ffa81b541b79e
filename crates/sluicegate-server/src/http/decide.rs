//! The calls that ask a limit: check, peek, refund, reset.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sluicegate::{Gate, Ruling, StoreError};

use super::body::AskBody;
use super::error::{ApiError, json};
use super::service::Service;
use crate::answer::Answer;

/// `POST /v1/check`: 200 or 429.
pub(super) async fn check(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = AskBody::read(body).await?;
    let ruling = answer(find(&service, &body)?.check(body.ask()).await)?;
    let status = if ruling.is_allowed() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut response = json(status, &Answer::new(&body.limit, &ruling));
    if let Some(limit) = ruling.limit() {
        let format = service.registry.http().fields;
        let costs = || Some(body.costs(limit));
        let fields = service.fields.ready(limit, ruling.decision(), format, Vec::new, costs);
        fields.write(response.headers_mut());
    }
    Ok(response)
}

/// `POST /v1/peek`: 200, allowed or not.
pub(super) async fn peek(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = AskBody::read(body).await?;
    let ruling = answer(find(&service, &body)?.peek(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(&body.limit, &ruling)))
}

/// `POST /v1/refund`: 200.
pub(super) async fn refund(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let body = AskBody::read(body).await?;
    let ruling = answer(find(&service, &body)?.refund(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(&body.limit, &ruling)))
}

/// `POST /v1/reset`: 200.
pub(super) async fn reset(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let body = AskBody::read(body).await?;
    let ruling = answer(find(&service, &body)?.reset(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(&body.limit, &ruling)))
}

fn find(service: &Service, body: &AskBody) -> Result<Gate, ApiError> {
    service.registry.find(&body.limit).ok_or_else(|| {
        let name: String = body.limit.chars().take(64).collect();
        ApiError::new(
            StatusCode::NOT_FOUND,
            "unknown_limit",
            format!(
                "there is no limit called `{}`: GET /v1/limits lists them",
                name.escape_debug()
            ),
        )
    })
}

fn answer(answer: Result<Ruling, StoreError>) -> Result<Ruling, ApiError> {
    answer.map_err(|error| ApiError::from(&error))
}
