//! The owner of a permit, which renews and releases it.

use sluicegate_core::{BoxFuture, Decision, Error, HoldToken, Span};

use crate::usage::Usage;

/// The owner of a permit's hold, a limiter or a gate, which renews and settles it.
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

    /// Settles or renews if the store can answer immediately. Otherwise returns `None` and sends nothing.
    fn settle_held_at_once(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
    ) -> Option<Result<Decision, Error>>;
}
