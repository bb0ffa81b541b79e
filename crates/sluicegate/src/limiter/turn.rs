//! One attempt to get a turn.

use std::time::Duration;

use sluicegate_core::{
    Algorithm, Decision, Enforcement, Error, Operation, RequestError, RequestErrorKind, RetryAfter,
    Span, Store,
};
use tokio::time::Instant;

use super::Limiter;
use super::reservation::{CancelOnDrop, Reservation};
use crate::ask::Ask;
use crate::grant::Grant;
use crate::holding::Holding;
use crate::timer::sleep_until;

impl<S: Store> Limiter<S> {
    /// Sends one request. It books a turn that comes by `end` if the limit supports reservations, and is a check
    /// otherwise.
    pub(crate) async fn ask_for_turn(
        &self,
        ask: &Ask<'_>,
        end: Instant,
        holding: Option<Holding>,
    ) -> Result<Turn<S>, Error> {
        // Injected time doesn't pass during a wait.
        if ask.time().is_some() {
            return Err(unsupported(
                "a request with a time of its own can't wait: use `reserve`".to_owned(),
            ));
        }
        let left = left_until(end);
        if self.limit().can_reserve() && !holding.is_some_and(Holding::is_wanted) {
            let operation = Operation::Reserve { within: left };
            let untold = self.ask_untold(operation, ask, left).await?;
            // The policies have not refused: once the ban or the pause has ended, the limit can book a turn.
            let is_banned = untold.decision.ban().is_some_and(|ban| !ban.begins);
            if (is_banned || untold.decision.pause().is_some())
                && let Some(next) = next_attempt(&untold.decision, end)
            {
                return Ok(Turn::Again(next));
            }
            let decision = self.tell(operation, ask, untold);
            let reservation = Reservation::new(decision, self, ask.time());
            if reservation.wait().is_zero() {
                return Ok(Turn::Final(reservation.into_decision()));
            }
            let (decision, turn) = reservation.cancel_on_drop();
            return Ok(Turn::Later(decision, turn));
        }
        if self.has_enforced_shaper() {
            return Err(unsupported(format!(
                "limit `{}` can't wait: it combines a shaper with policies that don't support \
                 reservations; move the shaper to a limit of its own",
                self.limit().name()
            )));
        }
        // Without a token for it, nothing is held.
        let hold = holding.map(|holding| holding.of(self.limit())).transpose()?.flatten();
        let (untold, held) = match hold {
            Some(hold) => {
                let (untold, held) = self.grant_untold(Operation::Check, ask, hold, left).await?;
                (untold, Some(held))
            }
            None => (self.ask_untold(Operation::Check, ask, left).await?, None),
        };
        let next = next_attempt(&untold.decision, end).filter(|_| untold.decision.is_denied());
        // The beginning of a ban is an event of its own.
        if let Some(next) = next.filter(|_| !untold.begins_ban()) {
            return Ok(Turn::Again(next));
        }
        let decision = self.tell(Operation::Check, ask, untold);
        if let Some(next) = next {
            return Ok(Turn::Again(next));
        }
        Ok(match held.filter(|_| decision.is_allowed()) {
            Some(held) => Turn::Held(self.granted(decision, ask, &ask.also(), held)?),
            None => Turn::Final(decision),
        })
    }

    fn has_enforced_shaper(&self) -> bool {
        self.limit().members().iter().any(|member| {
            let policy = member.policy();
            matches!(policy.algorithm(), Algorithm::Shaper { .. })
                && policy.enforcement() == Enforcement::Enforced
        })
    }
}

/// The answer to a request that may wait.
pub(crate) enum Turn<S: Store> {
    /// Allowed, with a hold.
    Held(Grant),
    /// There is nothing to wait for: allowed, or denied in a way that waiting doesn't change in time.
    Final(Decision),
    /// The request's turn comes later. Dropping it gives the turn back.
    Later(Decision, CancelOnDrop<S>),
    /// Denied until this instant: by a ban, or by a limit that can't book a turn. Observers see a later answer.
    Again(Instant),
}

impl<S: Store> CancelOnDrop<S> {
    /// Waits until `then`, at or after the turn that was booked. Dropping the future gives the turn back.
    pub(crate) async fn come(self, then: Instant) {
        sleep_until(then).await;
        self.keep();
    }
}

/// Returns when to retry after a denial; `None` if that is after `end`, or never.
pub(crate) fn next_attempt(denial: &Decision, end: Instant) -> Option<Instant> {
    let RetryAfter::After(retry) = denial.retry_after() else {
        return None;
    };
    Instant::now().checked_add(retry).filter(|next| *next <= end)
}

/// Returns when a wait of this length ends.
pub(crate) fn end_of(wait: Span) -> Instant {
    /// Longer than any sensible wait, and still within the range of every clock.
    const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
    Instant::now() + Duration::from(wait).min(FOREVER)
}

/// Returns the time until then, rounded down so that a reservation never exceeds the deadline.
pub(super) fn left_until(end: Instant) -> Span {
    u64::try_from(end.saturating_duration_since(Instant::now()).as_micros())
        .ok()
        .and_then(|micros| Span::from_micros(micros).ok())
        .unwrap_or(Span::MAX)
}

#[cold]
pub(crate) fn unsupported(message: String) -> Error {
    RequestError::new(RequestErrorKind::Unsupported, message).into()
}
