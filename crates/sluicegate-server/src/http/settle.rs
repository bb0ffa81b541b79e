//! The calls that need only a token.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate::decision::{HoldFound, HoldToken};
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate::{Decision, Error, Limit, Usage};

use super::body::{self, span_of};
use super::cost::UsedBody;
use super::error::{ApiError, json};
use super::guard;
use super::seal::SealError;
use super::service::Service;

use crate::access::{Call, Caller};
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
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, body) = admit(&service, request)?;
    let example = r#"{"hold":TOKEN,"used":{"tokens":412}}"#;
    let SettleFields { hold, used } = body::read(body, example).await?;
    let token = hold_of(&service, &caller, &hold, "settled")?;
    let used = UsedUnits::from(used);
    let _turn = service.turns.next().await?;
    let settling = service.registry.settle(&token, used.usage());
    found(&hold, caller.deciding(settling).await)
}

/// `POST /v1/cancel`: 200; for a reservation, with whether its units were returned.
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, body) = admit(&service, request)?;
    let HoldOnly { hold } = body::read(body, r#"{"hold":TOKEN}"#).await?;
    let token = open(&service, &caller, &hold)?;
    let _turn = service.turns.next().await?;
    match &token {
        Token::Hold(token) => {
            let settling = service.registry.settle(token, Usage::nothing());
            found(&hold, caller.deciding(settling).await)
        }
        Token::Reservation(receipt) => {
            let cancelling = service.registry.cancel(receipt);
            let is_given_back = caller.deciding(cancelling).await?;
            let name = token.name();
            Ok(json(StatusCode::OK, &Answer::of_cancellation(&name, is_given_back)))
        }
    }
}

/// `POST /v1/release`: 200; permits are released, and other units count as used.
pub(super) async fn release(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, body) = admit(&service, request)?;
    let HoldOnly { hold } = body::read(body, r#"{"hold":TOKEN}"#).await?;
    let token = hold_of(&service, &caller, &hold, "released")?;
    let _turn = service.turns.next().await?;
    let settling = service.registry.settle(&token, Usage::as_charged());
    found(&hold, caller.deciding(settling).await)
}

/// `POST /v1/renew`: 200 with the remaining lifetime.
pub(super) async fn renew(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, body) = admit(&service, request)?;
    let RenewFields { hold, lasts } = body::read(body, r#"{"hold":TOKEN,"for":"30s"}"#).await?;
    let lasts = span_of("for", &lasts)?;
    let token = hold_of(&service, &caller, &hold, "renewed")?;
    let _turn = service.turns.next().await?;
    let renewing = service.registry.renew(&token, lasts.into());
    found(&hold, caller.deciding(renewing).await)
}

/// Returns the caller of a request with a token, and its body.
fn admit(service: &Service, request: Request) -> Result<(Caller, Body), ApiError> {
    let (head, body) = request.into_parts();
    Ok((guard::admit(&service.access, &head, Call::Hold)?, body))
}

/// Opens a token, whose limits the caller must be allowed to use.
fn open(service: &Service, caller: &Caller, text: &str) -> Result<Token, ApiError> {
    let opened = service.seal.open(text, SystemClock::new().now());
    let token = opened.map_err(|error| match error {
        SealError::Malformed(why) => ApiError::malformed(format!("`hold`: {why}")),
        SealError::Foreign => expired(
            "this service didn't sign the token: another instance did, or this one before a \
             restart; start all instances with the same --token-key",
        ),
        SealError::Expired => expired("the reserved turn has passed: its units are used"),
    })?;
    for limit in token.limits() {
        caller.may(Call::Hold, limit.as_str())?;
    }
    Ok(token)
}

/// Opens a token of a hold, to settle, renew or release it.
fn hold_of(
    service: &Service,
    caller: &Caller,
    text: &str,
    done: &str,
) -> Result<HoldToken, ApiError> {
    match open(service, caller, text)? {
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
