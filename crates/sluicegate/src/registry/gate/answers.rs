//! A gate as the target of requests.

use sluicegate_core::{Decision, Error, HoldToken, Operation, Receipt, SharedStore};

use super::super::resolved::Resolved;
use super::super::route::Route;
use super::super::token_routing::names_of;
use super::Gate;
use crate::ask::Ask;
use crate::denied::Denied;
use crate::limiter::Limiter;
use crate::question::{Charged, Found, NewNumbers, Settles, Target};

impl Settles for Gate {
    type Store = SharedStore;

    fn charged<'t>(&self, token: &'t HoldToken) -> Result<Charged<'t, SharedStore>, Error> {
        self.resolved().charged(&self.shared, &self.cell, token)
    }

    fn booked(&self, receipt: &Receipt) -> Result<Limiter, Error> {
        Ok(self.charged(&names_of(receipt)?)?.limiter)
    }

    fn knows(&self, limit: Option<&str>, policy: &str) -> bool {
        self.resolved().has_policy(limit, policy)
    }
}

impl Target for Gate {
    #[inline]
    fn at_once<R>(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        then: impl FnOnce(Found<&Limiter, &Ask<'_>>) -> Option<Result<R, Error>>,
    ) -> Option<Result<R, Error>> {
        let resolved = self.resolved();
        // Most requests take this path.
        match resolved.plain_for(ask) {
            Some(limiter) => then(Found::Limiter(limiter, ask)),
            None => self.at_once_by_route(&resolved, operation, ask, then),
        }
    }

    fn find<'a>(
        &self,
        operation: Operation<'_>,
        ask: &Ask<'a>,
    ) -> Result<Found<Limiter, Option<Ask<'a>>>, Error> {
        let resolved = self.resolved();
        Ok(match resolved.route(&self.shared, &self.cell, ask, operation.purpose())? {
            Route::Ask(limiter, reduced) => Found::Limiter(limiter.into_owned(), reduced),
            Route::Bypass(bypass) => Found::Nobody(bypass.decide(operation)),
        })
    }

    fn holding<'a>(&self, ask: Ask<'a>) -> Result<(Limiter, Ask<'a>), Error> {
        self.resolved().holding(&self.shared, &self.cell, ask)
    }

    fn listing(&self) -> Result<Limiter, Error> {
        self.resolved().listing(&self.shared, &self.cell)
    }

    fn new_numbers(&self) -> NewNumbers {
        NewNumbers::of(self.shared.changes())
    }

    #[cold]
    fn denied(&self, decision: Decision) -> Denied {
        Denied::from(decision).with_fields(self.look().http().fields)
    }

    #[cold]
    fn failed(&self, error: Error) -> Denied {
        Denied::failed(self.name(), error)
    }
}

impl Gate {
    /// Calls `then` with the limiter of a request whose limits have lists, overrides or switches.
    #[inline(never)]
    fn at_once_by_route<R>(
        &self,
        resolved: &Resolved,
        operation: Operation<'_>,
        ask: &Ask<'_>,
        then: impl FnOnce(Found<&Limiter, &Ask<'_>>) -> Option<Result<R, Error>>,
    ) -> Option<Result<R, Error>> {
        match resolved.route(&self.shared, &self.cell, ask, operation.purpose()) {
            Ok(Route::Ask(limiter, reduced)) => {
                then(Found::Limiter(&limiter, reduced.as_ref().unwrap_or(ask)))
            }
            Ok(Route::Bypass(bypass)) => then(Found::Nobody(bypass.decide(operation))),
            Err(error) => Some(Err(error)),
        }
    }
}
