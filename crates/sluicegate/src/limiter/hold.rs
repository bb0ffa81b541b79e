//! Holds units, to settle them for the real usage.

use sluicegate_core::{
    Answer, Decision, Error, Hold, HoldId, HoldToken, OpenedLimit as _, Operation, RequestError,
    Span, Store,
};
use smallvec::SmallVec;

use super::{Limiter, Untold};
use crate::ask::Ask;
use crate::grant::Grant;
use crate::trace::{answered_now, traced};

impl<S: Store> Limiter<S> {
    /// Takes units by a check, a charge or a take, and holds them.
    pub(crate) async fn grant(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        hold: Hold,
    ) -> Result<Grant, Error> {
        let (untold, held) = self.grant_untold(operation, ask, hold, Span::ZERO).await?;
        let decision = self.tell(operation, ask, untold);
        self.granted(decision, ask, &ask.also(), held)
    }

    /// Takes and holds units, with this much time for the store to connect. Returns the answer before observers see it,
    /// and the token for the hold that it may have left.
    pub(super) async fn grant_untold(
        &self,
        operation: Operation<'_>,
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
            Answer::Now(answer) => {
                answered_now(self.limit(), operation, &answer);
                answer
            }
            Answer::Later(later) => {
                let answer = traced(self.limit(), operation, later).await;
                if let Ok(decision) = &answer {
                    self.note_answer(decision);
                }
                answer
            }
        };
        Ok((self.untold(operation, ask, since, answer)?, (hold.id, token)))
    }

    /// Takes and holds units if the store can answer immediately. Otherwise returns `None` and sends nothing.
    pub(crate) fn grant_at_once(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        hold: Hold,
    ) -> Option<Result<Grant, Error>> {
        let grant = || {
            let (mut each, also) = (SmallVec::new(), ask.also());
            let request = self.request(operation, ask, &also, &mut each)?.hold(&hold);
            let token = self.token(ask, &also, hold.id)?;
            let since = self.inner.observers.start();
            let Some(answer) = self.inner.opened.ask_now(request) else { return Ok(None) };
            answered_now(self.limit(), operation, &answer);
            let decision = self.answer(operation, ask, since, answer)?;
            self.granted(decision, ask, &also, (hold.id, token)).map(Some)
        };
        grant().transpose()
    }

    /// Returns the grant of a decision. A repeat holds the units of the first request, under its id.
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

    /// Returns the token for the hold of a request. It is made before the request is sent, because a key may be too
    /// long for a token.
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
