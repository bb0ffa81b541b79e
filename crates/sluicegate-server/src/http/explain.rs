//! Explains a decision without making it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use sluicegate::store::Operation;
use sluicegate_client::json::Explanation;

use super::asked::{Asked, Form};
use super::decide::answer;
use super::error::{ApiError, json};
use super::service::Service;
use crate::access::Call;
use crate::explain;

/// `POST /v1/explain`: 200 with the decision of a peek, and its reasons.
pub(super) async fn explain(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, Call::Inspect, Form::Plain).await?;
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let ask = asked.ask();
    let question = gate.decide(Operation::Peek, ask.clone()).holding(asked.holding);
    let grant = asked.caller.deciding(question).await?;
    let because = explain::because(&service.registry, &gate, &ask, &asked.wishes(), &grant)?;
    let decision = answer(&gate, &asked, &grant);
    Ok(json(StatusCode::OK, &Explanation { decision, because }))
}
