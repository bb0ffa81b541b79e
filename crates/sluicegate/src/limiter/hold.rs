//! Holding what is taken, to settle it for what was really used.

use std::future::Future;

use sluicegate_core::{
    Answer, Decision, Error, Hold, HoldId, HoldToken, OpenedLimit as _, Operation, RequestError,
    Span, Store,
};
use smallvec::SmallVec;
use tracing::Instrument as _;

use super::{Limiter, Untold};
use crate::ask::Ask;
use crate::grant::Grant;
use crate::random_id::random_id;

impl<S: Store> Limiter<S> {
    /// Takes an estimate, or is denied, like [`Limiter::check`]. What was taken is held: a record of it
    /// lives for `lasts`, 1 ms to a day, by which it is [settled](Limiter::settle) for what was really
    /// used. What is not settled by then stays charged, unless the limit [returns](crate::OnExpiry) it.
    ///
    /// ```
    /// use sluicegate::{Ask, HoldFound, Limiter, MemoryStore, Span, Usage};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limit = sluicegate::limit("llm", ["token_bucket 90000/min as tokens"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let grant = limiter.hold(Ask::new("acme").cost(1_000), Span::MINUTE).await?;
    /// assert_eq!(grant.remaining(), Some(89_000));
    /// let token = grant.token().expect("it is allowed");
    /// // Anybody who has the token can settle.
    /// let text = token.to_string();
    /// let settled = limiter.settle(&text.parse()?, Usage::of("tokens", 412)).await?;
    /// assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    /// assert_eq!(settled.remaining(), Some(89_588));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// If the store failed and the limiter allows everything then, nothing is held:
    /// [`Grant::token`] is `None`. A call that failed after it was sent may have been charged, and nobody
    /// has its token; see [`Limiter::hold_as`].
    ///
    /// # Errors
    /// Like [`Limiter::check`];
    /// [`RequestErrorKind::Full`](crate::RequestErrorKind::Full) if the key has 65,536 holds,
    /// [`Invalid`](crate::RequestErrorKind::Invalid) for a key that is too long for a
    /// [token](HoldToken::MAX_LEN).
    pub fn hold<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> impl Future<Output = Result<Grant, Error>> + Send + 'a {
        let (ask, lasts) = (ask.into(), lasts.into());
        async move { self.grant(Operation::Check, &ask, Hold { id: random_id()?, lasts }).await }
    }

    /// [`Limiter::hold`] under an id that the caller makes: 128 bits that nobody guesses. If the
    /// answer is lost, a token of that id can be [made](HoldToken::new), and what may have been taken
    /// settled.
    ///
    /// ```
    /// use sluicegate::{HoldFound, HoldId, HoldToken, Limiter, MemoryStore, Span, Usage};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::limit("jobs", ["fixed_window 9/h"])?);
    /// let id = HoldId::from_bytes([7; 16]); // of random bytes
    /// let _lost = limiter.hold_as("acme", Span::MINUTE, id).await;
    /// let token = HoldToken::new(id, [(limiter.limit().name().clone(), "acme")])?;
    /// assert_eq!(limiter.settle(&token, Usage::nothing()).await?.remaining(), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::hold`]; [`RequestErrorKind::Conflict`](crate::RequestErrorKind::Conflict) if the
    /// key has a hold of that id.
    pub fn hold_as<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
        id: HoldId,
    ) -> impl Future<Output = Result<Grant, Error>> + Send + 'a {
        let (ask, lasts) = (ask.into(), lasts.into());
        async move { self.grant(Operation::Check, &ask, Hold { id, lasts }).await }
    }

    /// [`Limiter::hold`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::hold`] and [`Limiter::check_now`].
    pub fn hold_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> Result<Grant, Error> {
        self.grant_now(&ask.into(), Hold { id: random_id()?, lasts: lasts.into() })
    }

    /// [`Limiter::hold_as`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::hold_as`] and [`Limiter::check_now`].
    pub fn hold_as_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
        id: HoldId,
    ) -> Result<Grant, Error> {
        self.grant_now(&ask.into(), Hold { id, lasts: lasts.into() })
    }

    /// Takes by a check, a charge or a partial grant, and holds what it took.
    pub(crate) async fn grant(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
        hold: Hold,
    ) -> Result<Grant, Error> {
        let (untold, held) = self.grant_untold(operation, ask, hold, Span::ZERO).await?;
        let decision = self.tell(operation, ask, untold);
        self.granted(decision, ask, &ask.also(), held)
    }

    /// The same, before observers see the decision, and with this much time for the store to connect. Returns
    /// what the decision may hold, too.
    pub(super) async fn grant_untold(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
        hold: Hold,
        time: Span,
    ) -> Result<(Untold, (HoldId, HoldToken)), Error> {
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, ask, &also, &mut each)?.hold(&hold);
        let request = request.connecting_within(time);
        let token = self.token(ask, &also, hold.id)?;
        let since = self.inner.observers.start();
        let answer = match self.inner.opened.ask(request) {
            Answer::Now(answer) => answer,
            Answer::Later(later) => {
                let answer = later.instrument(self.span(operation)).await;
                if let Ok(decision) = &answer {
                    self.note_answer(decision);
                }
                answer
            }
        };
        Ok((self.untold(operation, ask, since, answer)?, (hold.id, token)))
    }

    pub(crate) fn grant_now(&self, ask: &Ask<'_>, hold: Hold) -> Result<Grant, Error> {
        let operation = Operation::Check;
        let (mut each, also) = (SmallVec::new(), ask.also());
        let request = self.request(operation, ask, &also, &mut each)?.hold(&hold);
        let token = self.token(ask, &also, hold.id)?;
        let since = self.inner.observers.start();
        let answer = self.inner.opened.ask_now(request).ok_or_else(|| self.would_block())?;
        let decision = self.answer(operation, ask, since, answer)?;
        self.granted(decision, ask, &also, (hold.id, token))
    }

    /// The grant of a decision. A repeat holds what the first one does, under its id.
    pub(super) fn granted(
        &self,
        decision: Decision,
        ask: &Ask<'_>,
        also: &[&[u8]],
        (id, token): (HoldId, HoldToken),
    ) -> Result<Grant, Error> {
        let token = match decision.hold() {
            Some(hold) if hold.id != id => self.token(ask, also, hold.id)?,
            _ => token,
        };
        Ok(Grant::new(decision, token))
    }

    /// The token for what a request may hold. It is made before the store is asked, because a key may
    /// be too long for one.
    pub(super) fn token(
        &self,
        ask: &Ask<'_>,
        also: &[&[u8]],
        id: HoldId,
    ) -> Result<HoldToken, Error> {
        let subjects = std::iter::once(ask.key()).chain(also.iter().copied());
        let parts = self.limit().parts().iter().cloned().zip(subjects);
        HoldToken::new(id, parts).map_err(|error| RequestError::from(error).into())
    }
}
