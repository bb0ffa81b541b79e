//! The calls that ask a limit: check, peek, refund, reset.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use tokio::time::Instant;
use tollgate::{AnyStore, Decision, Limiter, Source, StoreError};

use super::body::AskBody;
use super::error::{ApiError, json};
use super::service::Service;
use crate::answer::Answer;
use crate::fields::{LimitFields, retry_after};

const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// `POST /v1/check`: 200 or 429.
pub(super) async fn check(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = AskBody::read(body).await?;
    let (limiter, fields) = find(&service, &body)?;
    let start = Instant::now();
    let decision = settle(&service, limiter.check(body.ask()).await)?;
    service.metrics.decided(limiter.limit(), &decision, start.elapsed());
    service.recent.add(limiter.limit(), &body.key, &decision);
    let status = if decision.is_allowed() { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
    let mut response = json(status, &Answer::new(limiter.limit(), &decision));
    add_fields(response.headers_mut(), fields, &decision);
    Ok(response)
}

/// `POST /v1/peek`: 200, allowed or not.
pub(super) async fn peek(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let body = AskBody::read(body).await?;
    let (limiter, _) = find(&service, &body)?;
    let decision = settle(&service, limiter.peek(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(limiter.limit(), &decision)))
}

/// `POST /v1/refund`: 200.
pub(super) async fn refund(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let body = AskBody::read(body).await?;
    let (limiter, _) = find(&service, &body)?;
    let decision = settle(&service, limiter.refund(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(limiter.limit(), &decision)))
}

/// `POST /v1/reset`: 200.
pub(super) async fn reset(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let body = AskBody::read(body).await?;
    let (limiter, _) = find(&service, &body)?;
    let decision = settle(&service, limiter.reset(body.ask()).await)?;
    Ok(json(StatusCode::OK, &Answer::new(limiter.limit(), &decision)))
}

fn find<'s>(
    service: &'s Service,
    body: &AskBody,
) -> Result<(&'s Limiter<AnyStore>, &'s LimitFields), ApiError> {
    service
        .registry
        .position(&body.limit)
        .and_then(|index| Some((service.registry.get(&body.limit)?, service.fields.get(index)?)))
        .ok_or_else(|| {
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

/// Keeps the books about the store, whatever it answered.
fn settle(service: &Service, answer: Result<Decision, StoreError>) -> Result<Decision, ApiError> {
    match answer {
        Ok(decision) => {
            if decision.source() == Source::Store {
                service.store_answered();
            }
            Ok(decision)
        }
        Err(error) => {
            if error.is_store_failure() {
                service.store_failed(&error);
            }
            Err(ApiError::from(&error))
        }
    }
}

fn add_fields(headers: &mut HeaderMap, fields: &LimitFields, decision: &Decision) {
    let mut add = |name: HeaderName, value: &str| {
        // Policy names and digits always are a lawful value.
        if let Some(value) = HeaderValue::from_str(value).ok().filter(|value| !value.is_empty()) {
            headers.insert(name, value);
        }
    };
    add(RATE_LIMIT_POLICY, fields.policy());
    add(RATE_LIMIT, &fields.rate_limit(decision));
    if let Some(seconds) = retry_after(decision) {
        add(RETRY_AFTER, &seconds.to_string());
    }
}
