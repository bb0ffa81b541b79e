//! The call that waits for units.

use std::future::pending;
use std::sync::Arc;

use axum::extract::{Extension, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use sluicegate::store::Span;
use tokio::time::Instant;

use super::asked::{Asked, Form};
use super::decide::{admission, answer};
use super::error::ApiError;
use super::service::Service;
use crate::access::Call;
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
    let place = service.waiting.place();
    // Without a free place to wait, the request is decided immediately.
    let within = if place.is_some() { asked.within } else { Span::ZERO };
    let end = Instant::now() + within.into();
    // The permit to call the store is released before the wait for units begins.
    let pass = || service.turns.by(end);
    let acquiring =
        gate.check(asked.ask()).holding(asked.holding).within(within.into()).passing(pass);
    // Dropping the wait returns the units that can still be returned.
    let grant = tokio::select! {
        biased;
        acquired = asked.caller.deciding(acquiring) => acquired?,
        () = gone(client) => return Err(hung_up()),
        () = service.stages.clone().ending() => return Err(ApiError::draining()),
    };
    let ended = WaitEnded::of(&grant, place.is_some());
    let answer = answer(&gate, &asked, &grant).waited_out().ending(ended);
    Ok(admission(&gate, &asked, &grant, &answer))
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
