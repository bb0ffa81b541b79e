//! Requests for a permit, which can wait for it.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Error, Operation, Span};

use super::{AboutKey, AtOnce, Found, Question, Refines, Target, Verb};
use crate::ask::Ask;
use crate::jitter::Jitter;
use crate::limiter::end_of;
use crate::permit::{Held, Keeper, Pauses, Permit, Terms};

/// A request for a [`Permit`].
#[derive(Clone, Debug)]
pub struct ToPermit<'a> {
    ask: Ask<'a>,
    terms: Terms,
    within: Option<Span>,
    jitter: Jitter,
}

impl<'a> ToPermit<'a> {
    pub(crate) fn new(ask: Ask<'a>) -> Self {
        Self { ask, terms: Terms::default(), within: None, jitter: Jitter::default() }
    }
}

impl<'k, T> Question<'_, T, ToPermit<'k>>
where
    ToPermit<'k>: Verb<T>,
{
    /// Sets how long the units stay in flight if they aren't renewed or released, because the process has crashed or
    /// can't reach the store.
    ///
    /// The range is 1 ms to the limit's own duration (`hold 30s`), which is the default. Without a policy
    /// `concurrency`, the maximum is a day and the default is 30 s.
    pub fn lasts(self, lasts: Duration) -> Self {
        self.map(|mut verb| {
            verb.terms.lasts = Some(lasts);
            verb
        })
    }

    /// Sets the maximum time for which the permit is renewed, counted from its request. Default: 1 h. Then it is
    /// [lost](Permit::lost), so work that hangs doesn't hold its units permanently.
    ///
    /// A time below 1 ms counts as 1 ms.
    pub fn max_life(self, longest: Duration) -> Self {
        self.map(|mut verb| {
            verb.terms.max_life = longest;
            verb
        })
    }

    /// Waits for the permit, at most `longest` in total: from zero, which doesn't wait, to 30 years. A longer time counts
    /// as 30 years.
    ///
    /// A request waits in the limit's queue, if it has one. Requests without a queue, to several limits together, or
    /// with an [id](Question::id) are retried. The pauses are 10 ms to 0.5 s, with a last attempt at the end. The first
    /// request after a permit becomes free gets it. A request is denied immediately if its wait can't end in time. The
    /// reason may be other policies, a ban, a full queue or a cost above the limit.
    pub fn within(self, longest: Duration) -> Self {
        self.map(|mut verb| {
            verb.within = Some(longest.into());
            verb
        })
    }

    /// Delays each retry by a random time of up to `longest`, but not beyond the end of the
    /// [wait](Question::within). Default: zero.
    ///
    /// A request that waits in the limit's queue isn't delayed, because its waiters are notified one after the other.
    pub fn jitter(self, longest: Duration) -> Self {
        self.map(|mut verb| {
            verb.jitter = Jitter::of(longest.into());
            verb
        })
    }

    /// Sets the duration of the permit's hold, and the time for which it is renewed.
    pub(crate) fn terms(self, terms: Terms) -> Self {
        self.map(|verb| ToPermit { terms, ..verb })
    }
}

impl<T: Target> Verb<T> for ToPermit<'_> {
    type Output = Permit;
    type Error = Error;

    const WORKS_ON: bool = true;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        if self.within.is_some_and(|within| !within.is_zero()) {
            return None;
        }
        let keeper: Arc<dyn Keeper> = Arc::new(target.clone());
        target.at_once(Operation::Check, &self.ask, |found| match found {
            Found::Limiter(limiter, ask) => limiter.take_permit_at_once(ask, self.terms, &keeper),
            Found::Nobody(decision) => Some(Ok(Permit::new(decision, Held::nothing()))),
        })
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let Self { ask, terms, within, jitter } = self;
        let keeper: Arc<dyn Keeper> = Arc::new(target.clone());
        let end = within.filter(|within| !within.is_zero()).map(end_of);
        let mut pauses = end.map(Pauses::until);
        let mut numbers = target.new_numbers();
        loop {
            numbers.mark_seen();
            let taken = match target.find(Operation::Check, &ask)? {
                Found::Limiter(limiter, reduced) => {
                    let ask = reduced.as_ref().unwrap_or(&ask);
                    limiter.take_permit(ask, terms, &keeper, end).await
                }
                Found::Nobody(decision) => Ok(Permit::new(decision, Held::nothing())),
            };
            let next = pauses.as_mut().and_then(|pauses| match &taken {
                Ok(permit) => pauses.after(permit),
                Err(error) => pauses.after_error(error),
            });
            match next.zip(end) {
                Some((next, end)) => numbers.wait_until(jitter.after(next, end)).await,
                None => return taken,
            }
        }
    }
}

impl AtOnce for ToPermit<'_> {}

impl<'a> Refines<'a> for ToPermit<'a> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

impl AboutKey for ToPermit<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        true
    }
}
