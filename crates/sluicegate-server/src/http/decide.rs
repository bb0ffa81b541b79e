//! The calls that ask a limit, or several in one decision, and don't wait for units.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use sluicegate::http::LimitFields;
use sluicegate::{Clock as _, Costs, Decision, Gate, Source, SystemClock};

use super::asked::Asked;
use super::error::{ApiError, json};
use super::service::Service;
use crate::answer::Answer;

/// `POST /v1/check`: 200 or 429, or 403 for a key on the block list.
pub(super) async fn check(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read_once(request).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let (decision, fields) = gate.check_with_fields(asked.ask()).await?;
    Ok(admission(&asked, &decision, fields, &answer(&gate, &asked, &decision)))
}

/// `POST /v1/take`: 200 if anything was granted, else 429, or 403 for a key on the block list.
pub(super) async fn take(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read_once(request).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let (decision, fields) = gate.take_up_to_with_fields(asked.ask()).await?;
    let whole = || asked.whole_cost(&service.registry);
    let answer = answer(&gate, &asked, &decision).granting(&decision, whole);
    Ok(admission(&asked, &decision, fields, &answer))
}

/// `POST /v1/peek`: 200, allowed or not.
pub(super) async fn peek(
    State(service): State<Arc<Service>>,
    body: Body,
) -> Result<Response, ApiError> {
    let asked = Asked::read(body).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let decision = gate.peek(asked.ask()).await?;
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &decision)))
}

/// `POST /v1/charge`: 200.
pub(super) async fn charge(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    service.guard.check(request.headers())?;
    let asked = Asked::read_once(request).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let decision = gate.charge(asked.ask()).await?;
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &decision)))
}

/// `POST /v1/refund`: 200.
pub(super) async fn refund(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let asked = Asked::read(body).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let decision = gate.refund(asked.ask()).await?;
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &decision)))
}

/// `POST /v1/reset`: 200.
pub(super) async fn reset(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let asked = Asked::read(body).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let decision = gate.reset(asked.ask()).await?;
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &decision)))
}

/// `POST /v1/ban`: 200.
pub(super) async fn ban(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let (asked, lasts) = Asked::read_ban(body).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let decision = gate.ban(asked.ask(), lasts).await?;
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &decision)))
}

/// `POST /v1/unban`: 200.
pub(super) async fn unban(
    State(service): State<Arc<Service>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    service.guard.check(&headers)?;
    let asked = Asked::read(body).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let decision = gate.lift_ban(asked.ask()).await?;
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &decision)))
}

/// The answer as the request's form has it.
pub(super) fn answer<'a>(gate: &'a Gate, asked: &Asked, decision: &'a Decision) -> Answer<'a> {
    let answer = Answer::new(gate.name(), decision);
    if asked.is_list() { answer.naming_limits(decision) } else { answer }
}

/// The response to a request that wanted to be let in.
pub(super) fn admission(
    asked: &Asked,
    decision: &Decision,
    fields: Option<LimitFields>,
    answer: &Answer<'_>,
) -> Response {
    let status = match (decision.is_allowed(), decision.source()) {
        (true, _) => StatusCode::OK,
        // No policy was asked, and waiting doesn't help.
        (false, Source::Bypass) => StatusCode::FORBIDDEN,
        (false, _) => StatusCode::TOO_MANY_REQUESTS,
    };
    let mut response = json(status, answer);
    if let Some((fields, limit)) = fields.zip(decision.limit()) {
        let costs = asked.costs(limit);
        let fields = fields.of(decision).costs(Costs::Each(&costs));
        // Clients compare with this clock; the store's may differ.
        fields.at(SystemClock::new().now()).write(response.headers_mut());
    }
    response
}
