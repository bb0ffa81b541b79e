//! The costs of a request.

use crate::failure::{RequestError, RequestErrorKind};
use crate::limit::Limit;
use crate::number::{Cost, MAX_EXACT};

/// The cost of a request under each policy of its limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Costs<'a> {
    /// Each policy's own cost ([`Policy::cost`](crate::Policy::cost)).
    Own,
    /// One cost for all policies.
    Same(Cost),
    /// One cost per policy, in the order of the limit, each from 0 to 2^53 − 1. A policy with cost
    /// 0 isn't charged and never refuses.
    Each(&'a [u64]),
}

impl Costs<'_> {
    /// Returns the cost under the policy at `index` of a limit.
    #[must_use]
    pub fn of(self, limit: &Limit, index: usize) -> u64 {
        match self {
            Self::Own => limit.members()[index].policy().cost().get(),
            Self::Same(cost) => cost.get(),
            Self::Each(each) => each[index],
        }
    }

    pub(super) fn validate(self, limit: &Limit) -> Result<(), RequestError> {
        let Self::Each(each) = self else {
            return Ok(());
        };
        let policies = limit.members().len();
        if each.len() != policies {
            let message = format!(
                "{} costs were given for the {policies} policies of limit `{}`",
                each.len(),
                limit.name()
            );
            return Err(RequestError::new(RequestErrorKind::Invalid, message));
        }
        match each.iter().find(|&&cost| cost > MAX_EXACT) {
            Some(cost) => Err(RequestError::new(
                RequestErrorKind::Invalid,
                format!("cost is {cost}, but must be a whole number from 0 to {MAX_EXACT}"),
            )),
            None => Ok(()),
        }
    }
}
