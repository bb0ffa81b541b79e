//! Giving back what one request took.

use std::future::Future;

use sluicegate_core::{Decision, Error, Operation, Store};

use super::Limiter;
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    /// Gives back what is left of the units that an allowed request took, and never what others
    /// took: `ask` is what that request asked, and `taken` its decision. Do it once per decision.
    ///
    /// Of a bucket that is the cost less what has flowed back since; of a window, cell, slice or
    /// log entry the cost, as long as it is the same one. A `smooth`, `warmup` or `shaper` policy
    /// gives nothing back, because somebody may have been told to act behind the units:
    /// [cancel a reservation](crate::Reservation::cancel) instead. [`Limiter::refund`] asks
    /// nothing of that and gives back the whole cost.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use sluicegate::{Limiter, ManualClock, MemoryStore, Span};
    ///
    /// let clock = Arc::new(ManualClock::default());
    /// let store = MemoryStore::builder().clock(clock.clone()).build();
    /// let limiter = Limiter::new(store, sluicegate::limit("login", ["gcra 1/min burst 3"])?);
    /// let first = limiter.check_now("alice")?;
    /// clock.advance(Span::from_millis(20_000)?);
    /// assert_eq!(limiter.check_now("alice")?.remaining(), Some(1));
    /// // A third of the unit has flowed back by itself.
    /// limiter.give_back_now("alice", &first)?;
    /// assert_eq!(limiter.peek_now("alice")?.remaining(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A decision that took nothing, or one about a limit with other numbers, gives nothing back:
    /// the answer is a [bypass](crate::Source::Bypass). The units that
    /// [`Limiter::take_up_to`] granted go back with `ask` at that cost.
    ///
    /// # Errors
    /// Like [`Limiter::charge`].
    pub fn give_back<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        taken: &Decision,
    ) -> impl Future<Output = Result<Decision, Error>> + Send + 'a {
        let giving = self.giving_back(ask.into(), taken);
        async move {
            match giving {
                Some((operation, ask)) => self.ask(operation, &ask).await,
                None => Ok(Decision::bypass(true)),
            }
        }
    }

    /// [`Limiter::give_back`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::charge_now`].
    pub fn give_back_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        taken: &Decision,
    ) -> Result<Decision, Error> {
        match self.giving_back(ask.into(), taken) {
            Some((operation, ask)) => self.ask_now(operation, &ask),
            None => Ok(Decision::bypass(true)),
        }
    }

    /// What gives back what a decision took; `None` if it took nothing, or under other numbers.
    pub(crate) fn giving_back<'a>(
        &self,
        ask: Ask<'a>,
        taken: &Decision,
    ) -> Option<(Operation, Ask<'a>)> {
        let taken_at = taken.taken_at()?;
        if taken.limit() != Some(self.limit()) {
            return None;
        }
        // Nothing was taken from a shadow that would have refused.
        let refused = taken.policies().enumerate().filter(|(_, policy)| !policy.is_admitted());
        let refused = refused.fold(0, |bits, (index, _)| bits | 1 << index);
        Some((Operation::GiveBack { taken_at }, ask.sparing(refused)))
    }
}
