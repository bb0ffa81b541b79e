//! Cancelling a reservation.

use sluicegate_core::{Error, Receipt, Store};

use super::{AboutKey, AtOnce, Question, Settles, Verb};
use crate::limiter::Reservation;

/// The end of a reservation, by its receipt. The answer is whether it gave its units or its turn back.
#[derive(Clone, Debug)]
pub struct ToCancel<'a>(pub(crate) &'a Receipt);

impl<T: Settles> Verb<T> for ToCancel<'_> {
    type Output = bool;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        match target.booked(self.0) {
            Ok(limiter) => limiter.cancel_at_once(self.0, None),
            Err(error) => Some(Err(error)),
        }
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        target.booked(self.0)?.cancel_at(self.0, None).await
    }
}

impl AtOnce for ToCancel<'_> {}

/// The end of this reservation. The answer is whether it gave its units or its turn back.
#[derive(Clone, Copy, Debug)]
pub struct ToCancelReservation;

impl<S: Store> Verb<Reservation<S>> for ToCancelReservation {
    type Output = bool;
    type Error = Error;

    fn at_once(&self, reservation: &Reservation<S>) -> Option<Result<Self::Output, Self::Error>> {
        match reservation.taken() {
            Some((limiter, receipt, at)) => limiter.cancel_at_once(receipt, at),
            None => Some(Ok(false)),
        }
    }

    async fn later(self, reservation: &Reservation<S>) -> Result<Self::Output, Self::Error> {
        match reservation.taken() {
            Some((limiter, receipt, at)) => limiter.cancel_at(receipt, at).await,
            None => Ok(false),
        }
    }
}

impl AtOnce for ToCancelReservation {}

impl<S: Store> Reservation<S> {
    /// Gives the units or the turn back. The answer is whether it did.
    ///
    /// If the key was charged since, the instants of later callers depend on the units. Then a turn that is still ahead
    /// is passed to the next caller that reserves, and units that had no wait are lost. No two callers hold the same
    /// instant. A reservation that waits can be cancelled once, until its turn has come.
    ///
    /// # Errors
    /// Returns an error if the store fails; then the units count as used.
    pub const fn cancel(&self) -> Question<'_, Self, ToCancelReservation> {
        Question::new(self, ToCancelReservation)
    }
}

impl AboutKey for ToCancel<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.0.parts().first().map(|part| &*part.subject)
    }

    fn wants_admission(&self) -> bool {
        false
    }
}
