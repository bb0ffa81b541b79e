//! A limiter as the target of requests.

use std::borrow::Cow;

use sluicegate_core::{Decision, Error, HoldToken, Operation, Policy, Receipt, Store};

use super::with::{no_limit, numbers_for_several};
use super::{Charged, Found, NewNumbers, Settles, Target, WithNumbers};
use crate::ask::Ask;
use crate::denied::Denied;
use crate::limiter::Limiter;

impl<S: Store> Settles for Limiter<S> {
    type Store = S;

    fn charged<'t>(&self, token: &'t HoldToken) -> Result<Charged<'t, S>, Error> {
        token.validate(self.limit())?;
        Ok(Charged {
            limiter: self.clone(),
            token: Cow::Borrowed(token),
            order: (0..token.limits().len()).collect(),
        })
    }

    fn booked(&self, _: &Receipt) -> Result<Self, Error> {
        Ok(self.clone())
    }

    fn knows(&self, _: Option<&str>, _: &str) -> bool {
        false
    }
}

impl<S: Store> Target for Limiter<S> {
    #[inline]
    fn at_once<R>(
        &self,
        _: Operation<'_>,
        ask: &Ask<'_>,
        then: impl FnOnce(Found<&Self, &Ask<'_>>) -> Option<Result<R, Error>>,
    ) -> Option<Result<R, Error>> {
        then(Found::Limiter(self, ask))
    }

    fn find<'a>(
        &self,
        _: Operation<'_>,
        _: &Ask<'a>,
    ) -> Result<Found<Self, Option<Ask<'a>>>, Error> {
        Ok(Found::Limiter(self.clone(), None))
    }

    fn holding<'a>(&self, ask: Ask<'a>) -> Result<(Self, Ask<'a>), Error> {
        Ok((self.clone(), ask))
    }

    fn listing(&self) -> Result<Self, Error> {
        Ok(self.clone())
    }

    fn new_numbers(&self) -> NewNumbers {
        NewNumbers::never()
    }

    fn denied(&self, decision: Decision) -> Denied {
        Denied::from(decision)
    }

    fn failed(&self, error: Error) -> Denied {
        Denied::failed(self.limit().name().as_str(), error)
    }
}

impl<S: Store> WithNumbers for Limiter<S> {
    fn limit_name(&self) -> &str {
        self.limit().name().as_str()
    }

    fn with_numbers(&self, policies: Vec<Policy>) -> Result<Self, Error> {
        if self.limit().parts().len() > 1 {
            return Err(numbers_for_several(self.limit_name()));
        }
        self.with_policies(policies).map_err(|error| no_limit(self.limit_name(), &error))
    }

    fn needs_no_numbers(&self, _: &[u8]) -> bool {
        false
    }
}
