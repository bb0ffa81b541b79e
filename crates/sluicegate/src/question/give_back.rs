//! Requests that give back the units of an earlier request.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Decision, Error, Operation};

use super::{AboutKey, AtOnce, Found, Refines, Target, Verb};
use crate::ask::Ask;

/// The return of one request's units. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToGiveBack<'k, 'd> {
    pub(crate) ask: Ask<'k>,
    pub(crate) taken: &'d Decision,
}

impl ToGiveBack<'_, '_> {
    /// Returns the operation, or `None` if nothing was taken.
    fn operation(&self) -> Option<Operation> {
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
