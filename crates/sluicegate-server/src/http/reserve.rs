//! The call that takes a turn without waiting for it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use sluicegate::testing::{Clock as _, SystemClock};

use super::asked::{Asked, Form};
use super::decide::{admission, named};
use super::error::ApiError;
use super::service::Service;
use crate::access::Call;
use crate::token::reservation_lasts;

/// Maximum length of all keys in bytes: a token must fit into the body of a cancellation.
const MOST_OF_KEYS: usize = 8 * 1024;

/// `POST /v1/reserve`: 200 with the time to act and a token to cancel; 429 if that is too late.
pub(super) async fn reserve(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = Asked::read(&service.access, request, Call::Take, Form::Waits).await?;
    let bytes = asked.key_bytes();
    if bytes > MOST_OF_KEYS {
        return Err(ApiError::malformed(format!(
            "keys of {bytes} bytes are too long for the token of a reservation: they may have \
             {MOST_OF_KEYS} together"
        )));
    }
    let gate = service.gates.find(&asked)?;
    let _turn = service.turns.next().await?;
    let reserving = gate.reserve(asked.ask(), asked.within.into());
    let reservation = asked.caller.deciding(reserving).await?;
    let held = reservation.receipt().map(|receipt| {
        let lasts = reservation_lasts(reservation.wait());
        (service.seal.seal(receipt, SystemClock::new().now().saturating_add(lasts)), lasts)
    });
    let answer = named(&gate, &asked, &reservation).holding(held);
    Ok(admission(&gate, &asked, &reservation, &answer))
}
