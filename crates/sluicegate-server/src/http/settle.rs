//! The calls that need only a token.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use sluicegate::decision::{HoldFound, HoldToken, Receipt};
use sluicegate::policy::LimitName;
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate::{Decision, Error, Gate, Limit, Registry, Usage};

use super::body::{self, span_of};
use super::cost::UsedBody;
use super::error::{ApiError, json};
use super::given::GivenByLimit;
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
    #[serde(default)]
    policies: GivenByLimit,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettleFields {
    hold: String,
    #[serde(default)]
    policies: GivenByLimit,
    used: UsedBody,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RenewFields {
    hold: String,
    #[serde(default)]
    policies: GivenByLimit,
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
    let SettleFields { hold, policies, used } = body::read(body, example).await?;
    let (token, limits) = hold_of(&service, caller, &hold, &policies, "settled")?;
    let used = UsedUnits::from(used);
    let _turn = service.turns.next().await?;
    found(&hold, limits.settle(&token, used.usage()).await)
}

/// `POST /v1/cancel`: 200; for a reservation, with whether its units were returned.
pub(super) async fn cancel(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, body) = admit(&service, request)?;
    let HoldOnly { hold, policies } = body::read(body, r#"{"hold":TOKEN}"#).await?;
    let (token, limits) = open(&service, caller, &hold, &policies)?;
    let _turn = service.turns.next().await?;
    match &token {
        Token::Hold(token) => found(&hold, limits.settle(token, Usage::nothing()).await),
        Token::Reservation(receipt) => {
            let is_given_back = limits.cancel(receipt).await?;
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
    let HoldOnly { hold, policies } = body::read(body, r#"{"hold":TOKEN}"#).await?;
    let (token, limits) = hold_of(&service, caller, &hold, &policies, "released")?;
    let _turn = service.turns.next().await?;
    found(&hold, limits.settle(&token, Usage::as_charged()).await)
}

/// `POST /v1/renew`: 200 with the remaining lifetime.
pub(super) async fn renew(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (caller, body) = admit(&service, request)?;
    let example = r#"{"hold":TOKEN,"for":"30s"}"#;
    let RenewFields { hold, policies, lasts } = body::read(body, example).await?;
    let lasts = span_of("for", &lasts)?;
    let (token, limits) = hold_of(&service, caller, &hold, &policies, "renewed")?;
    let _turn = service.turns.next().await?;
    found(&hold, limits.renew(&token, lasts.into()).await)
}

/// The limits of a token.
enum Limits {
    /// Limits of the configuration.
    Configured(Caller, Registry),
    /// Limits with policies of the request.
    Given(Caller, Gate),
}

impl Limits {
    async fn settle(&self, token: &HoldToken, usage: Usage<'_>) -> Result<Decision, Error> {
        match self {
            Self::Configured(caller, all) => caller.deciding(all.settle(token, usage)).await,
            Self::Given(caller, gate) => caller.deciding(gate.settle(token, usage)).await,
        }
    }

    async fn renew(&self, token: &HoldToken, lasts: Duration) -> Result<Decision, Error> {
        match self {
            Self::Configured(caller, all) => caller.deciding(all.renew(token, lasts)).await,
            Self::Given(caller, gate) => caller.deciding(gate.renew(token, lasts)).await,
        }
    }

    async fn cancel(&self, receipt: &Receipt) -> Result<bool, Error> {
        match self {
            Self::Configured(caller, all) => caller.deciding(all.cancel(receipt)).await,
            Self::Given(caller, gate) => caller.deciding(gate.cancel(receipt)).await,
        }
    }
}

/// Returns the caller of a request with a token, and its body.
fn admit(service: &Service, request: Request) -> Result<(Caller, Body), ApiError> {
    let (head, body) = request.into_parts();
    Ok((guard::admit(&service.access, &head, Call::Hold)?, body))
}

/// Opens a token, and finds its limits, which the caller must have the right to use.
fn open(
    service: &Service,
    caller: Caller,
    text: &str,
    policies: &GivenByLimit,
) -> Result<(Token, Limits), ApiError> {
    let opened = service.seal.open(text, SystemClock::new().now());
    let token = opened.map_err(|error| match error {
        SealError::Malformed(why) => ApiError::malformed(format!("`hold`: {why}")),
        SealError::Foreign => expired(
            "this service didn't sign the token: another instance did, or this one before a \
             restart; start all instances with the same --token-key",
        ),
        SealError::Expired => expired("the reserved turn has passed: its units are used"),
    })?;
    let names: Vec<&str> = token.limits().into_iter().map(LimitName::as_str).collect();
    let limits = match service.gates.settling(&caller, &names, policies)? {
        Some(gate) => Limits::Given(caller, gate),
        None => Limits::Configured(caller, service.registry.clone()),
    };
    Ok((token, limits))
}

/// Opens a token of a hold, to settle, renew or release it.
fn hold_of(
    service: &Service,
    caller: Caller,
    text: &str,
    policies: &GivenByLimit,
    done: &str,
) -> Result<(HoldToken, Limits), ApiError> {
    match open(service, caller, text, policies)? {
        (Token::Hold(token), limits) => Ok((token, limits)),
        (Token::Reservation(_), _) => Err(ApiError::malformed(format!(
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
