//! Requests that give back the units of an earlier request.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Decision, Error, Operation};

use super::{AboutKey, AtOnce, Found, Question, Refines, State, Target, ToDecide, Verb};
use crate::ask::Ask;
use crate::limiter::unsupported;

/// The return of one request's units. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToGiveBack<'k, 'd> {
    ask: Ask<'k>,
    taken: &'d Decision,
}

impl<'a, 'k, T> Question<'a, T, ToDecide<'k>>
where
    ToDecide<'k>: Verb<T>,
{
    /// Refunds only the remaining units of one allowed request, and never those of other requests.
    ///
    /// The keys and costs are those of that request, and `taken` is its decision. Refund once per decision. A bucket gets
    /// the cost less the units that have flowed back since. A window, cell, slice or log entry gets the cost if it is
    /// still the current one. A `smooth`, `warmup` or `shaper` policy gets nothing, because another caller may already
    /// have an instant after the units: [cancel a reservation](crate::Reservation::cancel) instead.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore};
    /// use sluicegate::testing::ManualClock;
    ///
    /// let clock = Arc::new(ManualClock::default());
    /// let store = MemoryStore::builder().clock(clock.clone()).build();
    /// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 1/min burst 3"])?);
    /// let first = limiter.check("alice").now()?;
    /// clock.advance(Duration::from_secs(20));
    /// assert_eq!(limiter.check("alice").now()?.remaining(), Some(1));
    /// // A third of the unit has flowed back by itself.
    /// limiter.refund("alice").taken_by(&first).now()?;
    /// assert_eq!(limiter.peek("alice").now()?.remaining(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A decision that took nothing, or one about a limit with other numbers, gives nothing back: the answer is a
    /// [bypass](crate::decision::Source::Bypass). To give back units that [`take`](crate::Limiter::take) granted, refund
    /// at that cost.
    ///
    /// # Errors
    /// Returns the errors of [`refund`](crate::Limiter::refund), and
    /// [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for a request other than a refund.
    pub fn taken_by<'d>(self, taken: &'d Decision) -> Question<'a, T, ToGiveBack<'k, 'd>>
    where
        ToGiveBack<'k, 'd>: Verb<T>,
    {
        Question(match self.0 {
            State::Unasked(target, ToDecide { operation: Operation::Refund, ask }) => {
                State::Unasked(target, ToGiveBack { ask, taken })
            }
            State::Unasked(..) => State::Refused(unsupported(
                "only a refund gives back what a request has taken: use `refund` with `taken_by`"
                    .to_owned(),
            )),
            State::Refused(error) => State::Refused(error),
            State::Waiting(_) | State::Sent => State::Sent,
        })
    }
}

impl ToGiveBack<'_, '_> {
    /// Returns the operation, or `None` if nothing was taken.
    fn operation(&self) -> Option<Operation<'static>> {
        self.taken.taken_at().map(|taken_at| Operation::GiveBack { taken_at })
    }
}

impl<T: Target> Verb<T> for ToGiveBack<'_, '_> {
    type Output = Decision;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        let Some(operation) = self.operation() else { return Some(Ok(Decision::bypass(true))) };
        target.at_once(operation, &self.ask, |found| match found {
            Found::Limiter(limiter, ask) => match limiter.returned(ask, self.taken) {
                Some(ask) => limiter.ask_at_once(operation, &ask),
                None => Some(Ok(Decision::bypass(true))),
            },
            Found::Nobody(_) => Some(Ok(Decision::bypass(true))),
        })
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let Some(operation) = self.operation() else { return Ok(Decision::bypass(true)) };
        if let Found::Limiter(limiter, reduced) = target.find(operation, &self.ask)?
            && let Some(ask) = limiter.returned(reduced.as_ref().unwrap_or(&self.ask), self.taken)
        {
            return limiter.ask(operation, &ask).await;
        }
        Ok(Decision::bypass(true))
    }
}

impl AtOnce for ToGiveBack<'_, '_> {}

impl<'k> Refines<'k> for ToGiveBack<'k, '_> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'k>) -> Ask<'k>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

impl AboutKey for ToGiveBack<'_, '_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        false
    }
}
