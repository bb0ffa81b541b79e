//! Checks for handlers, where a denial is the error.

use sluicegate_core::{Decision, Error, Operation};

use super::{AboutKey, AtOnce, Refines, Target, ToDecide, Verb};
use crate::allowed::Allowed;
use crate::ask::Ask;
use crate::denied::Denied;

/// A check whose denial is the error.
#[derive(Clone, Debug)]
pub struct ToEnforce<'a>(pub(super) ToDecide<'a>);

impl<'a> ToEnforce<'a> {
    #[inline]
    pub(crate) const fn new(ask: Ask<'a>) -> Self {
        Self(ToDecide::new(Operation::Check, ask))
    }
}

impl<T: Target> Verb<T> for ToEnforce<'_> {
    type Output = Allowed;
    type Error = Denied;

    #[inline]
    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        self.0.at_once(target).map(|answer| enforced(target, answer))
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        enforced(target, self.0.later(target).await)
    }
}

impl AtOnce for ToEnforce<'_> {}

impl<'a> Refines<'a> for ToEnforce<'a> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self(self.0.refine(change))
    }
}

pub(super) fn enforced<T: Target>(
    target: &T,
    answer: Result<Decision, Error>,
) -> Result<Allowed, Denied> {
    match answer {
        Ok(decision) if decision.is_allowed() => Ok(Allowed::new(decision)),
        Ok(decision) => Err(target.denied(decision)),
        Err(error) => Err(target.failed(error)),
    }
}

impl AboutKey for ToEnforce<'_> {
    fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    fn wants_admission(&self) -> bool {
        true
    }
}
