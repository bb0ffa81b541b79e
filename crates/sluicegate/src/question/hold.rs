//! Requests that hold units, to settle them for the real usage.

use sluicegate_core::{Error, Hold, Limit, Operation, Purpose};

use super::{AboutKey, AtOnce, Found, Refines, Target, Verb};
use crate::ask::Ask;
use crate::grant::Grant;
use crate::holding::Holding;

/// A request that holds its units. The answer is a [`Grant`].
#[derive(Clone, Debug)]
pub struct ToHold<'a> {
    pub(super) operation: Operation<'static>,
    pub(super) ask: Ask<'a>,
    pub(super) holding: Holding,
}

impl ToHold<'_> {
    /// Returns the hold under this limit, if any.
    fn hold(&self, limit: &Limit) -> Result<Option<Hold>, Error> {
        if self.operation.can_hold() || self.holding.is_wanted() {
            self.holding.of(limit)
        } else {
            Ok(None)
        }
    }
}

impl<T: Target> Verb<T> for ToHold<'_> {
    type Output = Grant;
    type Error = Error;

    #[inline]
    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        target.at_once(self.operation, &self.ask, |found| match found {
            Found::Limiter(limiter, ask) => match self.hold(limiter.limit()) {
                Ok(Some(hold)) => limiter.grant_at_once(self.operation, ask, hold),
                Ok(None) => Some(limiter.ask_at_once(self.operation, ask)?.map(Grant::of_nothing)),
                Err(error) => Some(Err(error)),
            },
            Found::Nobody(decision) => Some(Ok(Grant::of_nothing(decision))),
        })
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        match target.find(self.operation, &self.ask)? {
            Found::Limiter(limiter, reduced) => {
                let ask = reduced.as_ref().unwrap_or(&self.ask);
                match self.hold(limiter.limit())? {
                    Some(hold) => limiter.grant(self.operation, ask, hold).await,
                    None => limiter.ask(self.operation, ask).await.map(Grant::of_nothing),
                }
            }
            Found::Nobody(decision) => Ok(Grant::of_nothing(decision)),
        }
    }
}

impl AtOnce for ToHold<'_> {}

impl<'a> Refines<'a> for ToHold<'a> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

impl AboutKey for ToHold<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        self.operation.purpose() == Purpose::Admit
    }
}
