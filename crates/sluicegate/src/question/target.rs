//! Targets, which answer requests.

use std::borrow::Cow;

use sluicegate_core::{Decision, Error, HoldToken, Operation, Receipt, Store};
use smallvec::SmallVec;

use super::new_numbers::NewNumbers;
use crate::ask::Ask;
use crate::denied::Denied;
use crate::limiter::Limiter;

/// A target that settles by a token: a limiter, a gate, or a registry for all of its limits.
pub trait Settles: Clone + Send + Sync + 'static {
    /// The store of its limiters.
    type Store: Store;

    /// Finds the limiter whose units a token holds.
    fn charged<'t>(&self, token: &'t HoldToken) -> Result<Charged<'t, Self::Store>, Error>;

    /// Finds the limiter that made a reservation.
    fn booked(&self, receipt: &Receipt) -> Result<Limiter<Self::Store>, Error>;

    /// Returns whether a limit that wasn't asked has the policy.
    fn knows(&self, limit: Option<&str>, policy: &str) -> bool;
}

/// A target of requests about keys: a limiter or a gate.
pub trait Target: Settles {
    /// Calls `then` with the limiter that answers and the request to send it.
    fn at_once<R>(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        then: impl FnOnce(Found<&Limiter<Self::Store>, &Ask<'_>>) -> Option<Result<R, Error>>,
    ) -> Option<Result<R, Error>>;

    /// Finds the limiter that answers. The limiter gets the given request, unless the result has another one.
    fn find<'a>(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'a>,
    ) -> Result<Found<Limiter<Self::Store>, Option<Ask<'a>>>, Error>;

    /// Finds the limiter that knows the requests in flight of the keys, regardless of lists and switches.
    fn holding<'a>(&self, ask: Ask<'a>) -> Result<(Limiter<Self::Store>, Ask<'a>), Error>;

    /// Finds the limiter that knows the banned keys, regardless of lists and switches.
    fn listing(&self) -> Result<Limiter<Self::Store>, Error>;

    /// Notifies when the limits get other numbers.
    fn new_numbers(&self) -> NewNumbers;

    /// Returns the denial as an error.
    fn denied(&self, decision: Decision) -> Denied;

    /// Returns the failure to decide as an error.
    fn failed(&self, error: Error) -> Denied;
}

/// The limiter that answers, or the decision where no limit is asked.
#[derive(Debug)]
pub enum Found<L, A> {
    Limiter(L, A),
    Nobody(Decision),
}

/// The limiter whose units a token holds.
#[derive(Debug)]
pub struct Charged<'t, S: Store> {
    pub(crate) limiter: Limiter<S>,
    pub(crate) token: Cow<'t, HoldToken>,
    /// The token's parts in the order of the limiter's limits.
    pub(crate) order: SmallVec<[usize; 2]>,
}

impl<S: Store> Charged<'_, S> {
    /// Returns the keys in the order of the limiter's limits.
    pub(crate) fn subjects(&self) -> SmallVec<[&[u8]; 2]> {
        self.order.iter().map(|part| self.token.subject(*part)).collect()
    }
}
