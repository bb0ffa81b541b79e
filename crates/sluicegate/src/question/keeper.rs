//! The target of a permit request keeps the permit.

use sluicegate_core::{BoxFuture, Decision, Error, HoldToken, Span};

use super::{Settles, ToRenew, Verb as _, settle, settle_at_once};
use crate::permit::Keeper;
use crate::usage::Usage;

impl<T: Settles> Keeper for T {
    fn renew_held<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: Span,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(ToRenew { token, lasts }.later(self))
    }

    fn settle_held<'a, 'u: 'a>(
        &'a self,
        token: &'a HoldToken,
        usage: &'a Usage<'u>,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(settle(self, token, usage))
    }

    fn settle_held_at_once(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
    ) -> Option<Result<Decision, Error>> {
        settle_at_once(self, token, usage)
    }
}
