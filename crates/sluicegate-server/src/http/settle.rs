//! The calls that need only a token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate::decision::{HoldFound, HoldToken};
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate::{Decision, Error, Limit, Usage};

use super::body::{self, span_of};
use super::cost::UsedBody;
use super::error::{ApiError, json};
use super::seal::SealError;
use super::service::Service;

use crate::cost::UsedUnits;
use crate::token::Token;
use sluicegate_client::json::Answer;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldOnly {
    hold: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleFields {
    hold: String,
    used: UsedBody,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewFields {
    hold: String,
    #[serde(rename = "for")]
    lasts: String,
}

/// `POST /v1/settle`: 200 with the returned units; 404 if the hold doesn't exist.
pub(super) async fn settle(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let example = r#"{"hold":TOKEN,"used":{"tokens":412}}"#;
    let SettleFields { hold, used } = body::read(body, example).await?;
    let token = hold_of(&service, &hold, "settled")?;
    let used = UsedUnits::from(used);
    let _turn = service.turns.next().await?;
    found(&hold, service.registry.settle(&token, used.usage()).await)
}

/// `POST /v1/cancel`: 200; for a reservation, with whether its units were returned.
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let HoldOnly { hold } = body::read(body, r#"{"hold":TOKEN}"#).await?;
    let token = open(&service, &hold)?;
    let _turn = service.turns.next().await?;
    match &token {
        Token::Hold(token) => found(&hold, service.registry.settle(token, Usage::nothing()).await),
        Token::Reservation(receipt) => {
            let is_given_back = service.registry.cancel(receipt).await?;
            let name = token.limits();
            Ok(json(StatusCode::OK, &Answer::of_cancellation(&name, is_given_back)))
        }
    }
}

/// `POST /v1/release`: 200; permits are released, and other units count as used.
pub(super) async fn release(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let HoldOnly { hold } = body::read(body, r#"{"hold":TOKEN}"#).await?;
    let token = hold_of(&service, &hold, "released")?;
    let _turn = service.turns.next().await?;
    found(&hold, service.registry.settle(&token, Usage::as_charged()).await)
}

/// `POST /v1/renew`: 200 with the remaining lifetime.
pub(super) async fn renew(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let RenewFields { hold, lasts } = body::read(body, r#"{"hold":TOKEN,"for":"30s"}"#).await?;
    let lasts = span_of("for", &lasts)?;
    let token = hold_of(&service, &hold, "renewed")?;
    let _turn = service.turns.next().await?;
    found(&hold, service.registry.renew(&token, lasts.into()).await)
}

/// Opens a token.
fn open(service: &Service, text: &str) -> Result<Token, ApiError> {
    service.seal.open(text, SystemClock::new().now()).map_err(|error| match error {
        SealError::Malformed(why) => ApiError::malformed(format!("`hold`: {why}")),
        SealError::Foreign => expired(
            "this service didn't sign the token: another instance did, or this one before a \
             restart; start all instances with the same --token-key",
        ),
        SealError::Expired => expired("the reserved turn has passed: its units are used"),
    })
}

/// Opens a token of a hold, to settle, renew or release it.
fn hold_of(service: &Service, text: &str, done: &str) -> Result<HoldToken, ApiError> {
    match open(service, text)? {
        Token::Hold(token) => Ok(token),
        Token::Reservation(_) => Err(ApiError::malformed(format!(
            "`hold`: a reservation is not {done}: its units are used when its turn comes, unless \
             /v1/cancel gives them back before"
        ))),
    }
}

/// Returns the response to a request with a token.
fn found(text: &str, answer: Result<Decision, Error>) -> Result<Response, ApiError> {
    let decision = answer?;
    if decision.hold_found() == Some(HoldFound::Unknown) {
        return Err(expired(
            "this token's hold has ended: it expired, was released, or its key was reset; nothing \
             was changed",
        ));
    }
    let name = decision.limit().map_or("", |limit| limit.name().as_str());
    let answer = Answer::new(name, &decision);
    let is_list = decision.limit().map_or(&[][..], Limit::parts).len() > 1;
    let answer = if is_list { answer.naming_limits(&decision) } else { answer };
    let held = decision.hold().map(|hold| (text.to_owned(), hold.lasts));
    Ok(json(StatusCode::OK, &answer.holding(held)))
}

fn expired(message: &str) -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "hold_expired", message)
}
