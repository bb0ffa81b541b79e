//! The hold of a request while it is served.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::charge::Charge;
use crate::permit::Permit;

/// The hold of a request while it is served, for its handler: it is in the extensions of the request.
///
/// A request holds its units if one of its limits has a policy [`concurrency`](crate::Policy::concurrency), or if the
/// middleware is configured to ([`hold`](super::Middleware::hold), [`settle`](super::Middleware::settle),
/// [`settle_at_end`](super::Middleware::settle_at_end)). The hold lasts until the body of its response has ended or is
/// dropped. Then it is settled for the usage.
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

    /// Sets how many units of a policy the request has used so far; the last call counts.
    ///
    /// Other policies stay as charged. It has precedence over the usage that the middleware finds in the response. It
    /// has no effect once the body has ended: a handler that knows its usage only later [takes the
    /// permit](Self::take_permit) and settles it.
    pub fn used(&self, policy: impl Into<Cow<'static, str>>, units: u64) {
        let mut state = self.state();
        let said = state.said.take().filter(|said| !said.asks_nothing()).unwrap_or_default();
        state.said = Some(said.saying(policy.into(), units));
    }

    /// Sets that the request has used nothing: all its units are given back, as far as they still count.
    pub fn used_nothing(&self) {
        self.state().said = Some(Charge::nothing());
    }

    /// Takes the permit out, for a handler whose work outlasts the response, such as that of a WebSocket.
    ///
    /// The middleware doesn't settle it any more. Returns `None` the second time, and once the body has ended.
    #[must_use = "a permit that is dropped is released"]
    pub fn take_permit(&self) -> Option<Permit> {
        self.state().permit.take()
    }

    /// Returns whether the units may have passed to another request by now, like [`Permit::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state().permit.as_ref().is_some_and(Permit::is_lost)
    }

    /// Waits until [it is lost](Self::is_lost). Never returns if the permit was taken out, or the body has ended.
    pub async fn lost(&self) {
        let watch = self.state().permit.as_ref().and_then(Permit::watch);
        match watch {
            Some(watch) => watch.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Takes the permit to settle, and the usage that the handler has set.
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
