//! Taking units ahead of time.

use sluicegate_core::{Error, Operation, Span};

use super::{AboutKey, AtOnce, Found, Refines, Target, Verb};
use crate::ask::Ask;
use crate::limiter::Reservation;

/// A request that takes its turn now and acts later. The answer is a [`Reservation`].
#[derive(Clone, Debug)]
pub struct ToReserve<'a> {
    pub(crate) ask: Ask<'a>,
    pub(crate) within: Span,
}

impl<T: Target> Verb<T> for ToReserve<'_> {
    type Output = Reservation<T::Store>;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        let operation = Operation::Reserve { within: self.within };
        target.at_once(operation, &self.ask, |found| match found {
            Found::Limiter(limiter, ask) => Some(
                limiter
                    .ask_at_once(operation, ask)?
                    .map(|decision| Reservation::new(decision, limiter, ask.time())),
            ),
            Found::Nobody(decision) => Some(Ok(Reservation::of_nothing(decision))),
        })
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let operation = Operation::Reserve { within: self.within };
        match target.find(operation, &self.ask)? {
            Found::Limiter(limiter, reduced) => {
                let ask = reduced.as_ref().unwrap_or(&self.ask);
                let decision = limiter.ask(operation, ask).await?;
                Ok(Reservation::new(decision, &limiter, ask.time()))
            }
            Found::Nobody(decision) => Ok(Reservation::of_nothing(decision)),
        }
    }
}

impl AtOnce for ToReserve<'_> {}

impl<'a> Refines<'a> for ToReserve<'a> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

impl AboutKey for ToReserve<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        true
    }
}
