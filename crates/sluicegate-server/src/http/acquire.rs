//! The call that waits for units.

use std::future::pending;
use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use sluicegate::question::{Question, ToHold};
use sluicegate::store::Span;
use sluicegate::{Gate, Grant};
use tokio::time::Instant;

use super::asked::{Asked, Form};
use super::decide::{admission, answer};
use super::error::ApiError;
use super::service::Service;
use crate::access::{Call, Caller};
use crate::serving::Client;
use sluicegate_client::json::WaitEnded;

/// `POST /v1/acquire`: waits until the caller's turn and answers 200.
///
/// Answers 429 when the time is up. Answers immediately with 429 if the turn can't come in time or
/// too many requests wait. Answers immediately with 403 for a key on the block list.
pub(super) async fn acquire(
    State(service): State<Arc<Service>>,
    client: Option<Extension<Client>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, Call::Take, Form::WaitsAndHolds).await?;
    let gate = service.gates.find(&asked)?;
    let question = gate.check(asked.ask()).holding(asked.holding);
    let Waited { grant, had_place } =
        wait(&service, &asked.caller, question, asked.within, gone(client)).await?;
    let ended = WaitEnded::of(&grant, had_place);
    let answer = answer(&gate, &asked, &grant).waited_out().ending(ended);
    Ok(admission(&gate, &asked, &grant, &answer))
}

/// The end of a wait.
pub(crate) struct Waited {
    pub(crate) grant: Grant,
    /// Whether there was a free place to wait.
    had_place: bool,
}

/// Waits for the units of a request, until its client is `gone` or the service stops. Then the units that can still be
/// returned are.
///
/// # Errors
/// Returns an error if the request can't be decided, or no client waits for the decision.
pub(crate) async fn wait(
    service: &Service,
    caller: &Caller,
    question: Question<'_, Gate, ToHold<'_>>,
    within: Span,
    gone: impl Future<Output = ()>,
) -> Result<Waited, ApiError> {
    let place = service.waiting.place();
    // Without a free place to wait, the request is decided immediately.
    let within = if place.is_some() { within } else { Span::ZERO };
    let end = Instant::now() + within.into();
    // The permit to call the store is released before the wait for units begins.
    let acquiring = question.within(within.into()).passing(|| service.turns.by(end));
    // Dropping the wait returns the units that can still be returned.
    let grant = tokio::select! {
        biased;
        acquired = caller.deciding(acquiring) => acquired?,
        () = gone => return Err(hung_up()),
        () = service.stages.clone().ending() => return Err(ApiError::draining()),
    };
    Ok(Waited { grant, had_place: place.is_some() })
}

/// Waits until the client stops waiting for the answer.
async fn gone(client: Option<Extension<Client>>) {
    match client {
        Some(Extension(client)) => client.gone().await,
        None => pending().await,
    }
}

fn hung_up() -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        "hung_up",
        "the connection was closed for sending before it was this request's turn, which is given \
         up: keep it open until the answer",
    )
}
