//! The calls that ask a limit: check, peek, refund, reset.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sluicegate::{Clock as _, Costs, Decision, Error, Gate, Source, SystemClock};

use super::body::AskBody;
use super::error::{ApiError, json};
use super::service::Service;
use crate::answer::Answer;

/// `POST /v1/check`: 200 or 429, or 403 for a key on the block list.
pub(super) async fn check(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = AskBody::read(body).await?;
    let _turn = service.turns.next().await?;
    let answer = find(&service, &body)?.check_with_fields(body.ask()).await;
    let (decision, fields) = answer.map_err(|error| ApiError::from(&error))?;
    let status = match (decision.is_allowed(), decision.source()) {
        (true, _) => StatusCode::OK,
        // No policy was asked, and waiting doesn't help.
        (false, Source::Bypass) => StatusCode::FORBIDDEN,
        (false, _) => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut response = json(status, &Answer::new(&body.limit, &decision));
    if let Some((fields, limit)) = fields.zip(decision.limit()) {
        let costs = body.costs(limit);
        let fields = fields.of(&decision).costs(Costs::Each(&costs));
        // Clients compare with this clock; the store's may differ.
        fields.at(SystemClock::new().now()).write(response.headers_mut());
    }
    Ok(response)
}

/// `POST /v1/peek`: 200, allowed or not.
pub(super) async fn peek(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = AskBody::read(body).await?;
    let _turn = service.turns.next().await?;
    let decision = answer(find(&service, &body)?.peek(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(&body.limit, &decision)))
}

/// `POST /v1/refund`: 200.
pub(super) async fn refund(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let body = AskBody::read(body).await?;
    let _turn = service.turns.next().await?;
    let decision = answer(find(&service, &body)?.refund(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(&body.limit, &decision)))
}

/// `POST /v1/reset`: 200.
pub(super) async fn reset(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let body = AskBody::read(body).await?;
    let _turn = service.turns.next().await?;
    let decision = answer(find(&service, &body)?.reset(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(&body.limit, &decision)))
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

fn answer(answer: Result<Decision, Error>) -> Result<Decision, ApiError> {
    answer.map_err(|error| ApiError::from(&error))
}
