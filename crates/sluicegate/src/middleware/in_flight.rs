//! What a request holds while it is served.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::charge::Charge;
use crate::permit::Permit;

/// What a request holds while it is served: for its handler, in the extensions of the request.
///
/// A request holds what it took if one of its limits has a policy
/// [`concurrency`](crate::Policy::concurrency), or if the middleware is told to
/// ([`hold`](super::Middleware::hold), [`settle`](super::Middleware::settle),
/// [`settle_at_end`](super::Middleware::settle_at_end)). It does so until the body of its response has
/// ended or is dropped; then it is settled for what was used.
///
/// ```
/// use sluicegate::middleware::InFlight;
///
/// /// Streams an answer; however far it comes, so much is paid for.
/// fn answer(in_flight: InFlight, words: Vec<String>) -> impl Iterator<Item = String> {
///     words.into_iter().enumerate().map(move |(index, word)| {
///         in_flight.used("tokens", index as u64 + 1);
///         word
///     })
/// }
/// # let _ = answer;
/// ```
#[derive(Clone)]
pub struct InFlight(Arc<Mutex<State>>);

struct State {
    /// `None` once it was taken out, or is settled.
    permit: Option<Permit>,
    said: Option<Charge>,
}

impl InFlight {
    pub(super) fn new(permit: Permit) -> Self {
        Self(Arc::new(Mutex::new(State { permit: Some(permit), said: None })))
    }

    /// Says how many units of a policy the request has used so far: what is said last counts. Policies of
    /// which nothing is said keep what they were charged. It has precedence over what the middleware
    /// finds out from the response. No effect once the body has ended: a handler that knows
    /// only later what was used [takes the permit](Self::take_permit) and settles it.
    pub fn used(&self, policy: impl Into<Cow<'static, str>>, units: u64) {
        let mut state = self.state();
        let said = state.said.take().filter(|said| !said.asks_nothing()).unwrap_or_default();
        state.said = Some(said.saying(policy.into(), units));
    }

    /// Says that the request has used nothing: all that it took is given back, as far as it still counts.
    pub fn used_nothing(&self) {
        self.state().said = Some(Charge::nothing());
    }

    /// Takes the permit out, for a handler whose work outlasts the response, such as that of a WebSocket:
    /// the middleware doesn't settle it any more. `None` the second time, and once the body has ended.
    #[must_use = "a permit that is dropped is released"]
    pub fn take_permit(&self) -> Option<Permit> {
        self.state().permit.take()
    }

    /// Returns whether the units may be somebody else's by now, as of [`Permit::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state().permit.as_ref().is_some_and(Permit::is_lost)
    }

    /// Waits until [it is lost](Self::is_lost): for ever if the permit was taken out, or the body has ended.
    pub async fn lost(&self) {
        let watch = self.state().permit.as_ref().and_then(Permit::watch);
        match watch {
            Some(watch) => watch.lost().await,
            None => std::future::pending().await,
        }
    }

    /// What is left to settle, and what the handler says was used.
    pub(super) fn close(&self) -> Option<(Permit, Option<Charge>)> {
        let mut state = self.state();
        Some((state.permit.take()?, state.said.take()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under this lock panics half way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("InFlight")
            .field("permit", &state.permit)
            .field("said", &state.said)
            .finish_non_exhaustive()
    }
}
