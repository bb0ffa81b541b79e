//! Who gave a permit, and so renews and releases it.

use std::sync::Arc;

use sluicegate_core::{BoxFuture, Decision, Error, HoldToken, Span};
use tokio::time::Instant;

use super::{Permit, Terms};
use crate::ask::Ask;
use crate::usage::Usage;

/// Who gives permits, renews and settles them: a limiter or a gate.
pub(crate) trait Keeper: Send + Sync + 'static {
    /// Asks for a permit, and waits in the limit's queue until then, if it has one. `own` is this keeper.
    fn take<'a, 'k: 'a>(
        &'a self,
        own: &'a Arc<dyn Keeper>,
        ask: &'a Ask<'k>,
        terms: Terms,
        queue_until: Option<Instant>,
    ) -> BoxFuture<'a, Result<Permit, Error>>;

    /// The same without waiting.
    fn take_now(&self, own: &Arc<dyn Keeper>, ask: &Ask<'_>, terms: Terms)
    -> Result<Permit, Error>;

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
