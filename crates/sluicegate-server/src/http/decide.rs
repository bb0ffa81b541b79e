//! The calls that make one decision and don't wait for units.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, post};
use sluicegate::decision::Source;
use sluicegate::store::{Costs, Operation, Span};
use sluicegate::testing::{Clock as _, SystemClock};
use sluicegate::{Decision, Gate, Grant};

use super::asked::{Asked, Form};
use super::error::{ApiError, json};
use super::service::Service;
use crate::access::Call;
use sluicegate_client::json::Answer;

/// `POST /v1/check` and `/v1/take`: 200, or 429, or 403 for a key on the block list.
pub(super) fn admit(operation: Operation<'static>) -> MethodRouter<Arc<Service>> {
    post(async move |State(service): State<Arc<Service>>, request: Request| {
        admission_of(&service, operation, request).await
    })
}

/// Answers `/v1/check` or `/v1/take`.
pub(super) async fn admission_of(
    service: &Service,
    operation: Operation<'static>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, Call::Take, Form::Takes).await?;
    let (gate, grant) = decide(service, operation, &asked).await?;
    let answer = answer(&gate, &asked, &grant);
    let answer = match operation {
        Operation::Take => answer.granting(&grant, || asked.whole_cost(&service.registry)),
        _ => answer,
    };
    Ok(admission(&gate, &asked, &grant, &answer))
}

/// `POST /v1/charge`, `/v1/refund`, `/v1/reset` and `/v1/unban`: 200, for administrators.
pub(super) fn change(operation: Operation<'static>) -> MethodRouter<Arc<Service>> {
    post(async move |State(service): State<Arc<Service>>, request: Request| {
        let form = if operation == Operation::Charge { Form::Takes } else { Form::Plain };
        tell(&service, request, Call::Administer, form, |_| operation).await
    })
}

/// `POST /v1/ban`: 200, for administrators.
pub(super) async fn ban(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let ban = |asked: &Asked| Operation::Ban { lasts: asked.lasts };
    tell(&service, request, Call::Administer, Form::Bans, ban).await
}

/// `POST /v1/pause`: 200, for administrators.
pub(super) async fn pause(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, Call::Administer, Form::Pauses).await?;
    change_pauses(&service, &asked, Some(asked.lasts)).await
}

/// `POST /v1/resume`: 200, for administrators.
pub(super) async fn resume(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, Call::Administer, Form::Resumes).await?;
    change_pauses(&service, &asked, None).await
}

async fn change_pauses(
    service: &Service,
    asked: &Asked,
    lasts: Option<Span>,
) -> Result<Response, ApiError> {
    let gate = service.gates.find(asked)?;
    let _turn = service.turns.next().await?;
    let question = match lasts {
        Some(lasts) => gate.pause(asked.ask(), lasts.into()),
        None => gate.resume(asked.ask()),
    };
    let question = match &asked.policy {
        Some(policy) => question.policy(policy),
        None => question,
    };
    let decision = asked.caller.deciding(question).await?;
    Ok(json(StatusCode::OK, &named(&gate, asked, &decision)))
}

/// `POST /v1/peek`: 200, allowed or not.
pub(super) fn peek() -> MethodRouter<Arc<Service>> {
    post(async move |State(service): State<Arc<Service>>, request: Request| {
        tell(&service, request, Call::Peek, Form::Plain, |_| Operation::Peek).await
    })
}

/// Answers 200 with a decision, allowed or not.
async fn tell(
    service: &Service,
    request: Request,
    call: Call,
    form: Form,
    operation: impl FnOnce(&Asked) -> Operation<'static>,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, call, form).await?;
    let (gate, grant) = decide(service, operation(&asked), &asked).await?;
    if is_failed_closed(&grant) {
        return Err(ApiError::failed_closed(gate.name()));
    }
    Ok(json(StatusCode::OK, &answer(&gate, &asked, &grant)))
}

async fn decide(
    service: &Service,
    operation: Operation<'static>,
    asked: &Asked,
) -> Result<(Gate, Grant), ApiError> {
    let gate = service.gates.find(asked)?;
    let _turn = service.turns.next().await?;
    let question = gate.decide(operation, asked.ask()).holding(asked.holding);
    let grant = asked.caller.deciding(question).await?;
    Ok((gate, grant))
}

/// Returns the answer in the form of the request.
pub(super) fn answer<'a>(gate: &'a Gate, asked: &Asked, grant: &'a Grant) -> Answer<'a> {
    let held = grant.hold().zip(grant.token());
    let held = held.map(|(hold, token)| (token.to_string(), hold.lasts));
    named(gate, asked, grant).holding(held)
}

/// Returns the answer, with the names of limits if the request has a list.
pub(super) fn named<'a>(gate: &'a Gate, asked: &Asked, decision: &'a Decision) -> Answer<'a> {
    let answer = Answer::new(gate.name(), decision);
    if asked.is_list() { answer.naming_limits(decision) } else { answer }
}

/// Returns `true` if the store failed and the limit then denies requests. No policy refused the
/// request, and the time until it passes is unknown.
fn is_failed_closed(decision: &Decision) -> bool {
    decision.is_denied() && decision.is_assumed()
}

/// Returns the response to an admission request.
pub(super) fn admission(
    gate: &Gate,
    asked: &Asked,
    decision: &Decision,
    answer: &Answer<'_>,
) -> Response {
    let mut response = match (decision.is_allowed(), decision.source()) {
        (true, _) => json(StatusCode::OK, answer),
        // No policy was checked, and waiting doesn't help.
        (false, Source::Bypass) => json(StatusCode::FORBIDDEN, answer),
        _ if is_failed_closed(decision) => ApiError::failed_closed(&answer.limit).into_response(),
        (false, _) => json(StatusCode::TOO_MANY_REQUESTS, answer),
    };
    if let Some((fields, limit)) = gate.fields(decision).zip(decision.limit()) {
        let costs = asked.costs(limit);
        let fields = fields.of(decision).costs(Costs::Each(&costs));
        // Clients compare with this clock; the store's clock may differ.
        fields.at(SystemClock::new().now()).write(response.headers_mut());
    }
    response
}
