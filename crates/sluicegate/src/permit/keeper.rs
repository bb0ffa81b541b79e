//! Who gave a permit, and so renews and releases it.

use sluicegate_core::{BoxFuture, Decision, Error, HoldToken, Span};

use crate::usage::Usage;

/// Who renews and settles what a permit holds: a limiter or a gate.
pub(crate) trait Keeper: Send + Sync + 'static {
    fn renew_held<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: Span,
    ) -> BoxFuture<'a, Result<Decision, Error>>;

    fn settle_held<'a, 'u: 'a>(
        &'a self,
        token: &'a HoldToken,
        usage: &'a Usage<'u>,
    ) -> BoxFuture<'a, Result<Decision, Error>>;

    /// The same if the store can answer immediately; `None` otherwise, and then nothing was asked.
    fn settle_held_at_once(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
    ) -> Option<Result<Decision, Error>>;
}
