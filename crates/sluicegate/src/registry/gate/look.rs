//! One look at the configuration, for all that is asked about one request.

use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Operation};
use sluicegate_http::{KeyOutcome, LimitFields};

use super::super::resolved::Resolved;
use super::{Gate, MissingKey, RequestKeys, fields};
use crate::ask::Ask;
use crate::config::{HttpConfig, LimitConfig};

/// The limits of a gate as one configuration has them: keys and answers go by the same. For as long
/// as nothing is waited for.
pub(crate) struct Look<'g> {
    pub(super) gate: &'g Gate,
    pub(super) resolved: Guard<Arc<Resolved>>,
}

impl Look<'_> {
    /// How requests over HTTP are looked at and answered.
    pub(crate) fn http(&self) -> &HttpConfig {
        &self.resolved.http
    }

    /// The keys that `make` makes, which is shown the place of each limit and what the
    /// configuration says of it.
    pub(crate) fn keys_with(
        &self,
        make: &mut dyn FnMut(usize, &LimitConfig) -> KeyOutcome,
    ) -> Result<RequestKeys, MissingKey> {
        RequestKeys::made_by(&self.resolved, make)
    }

    /// The answer and the fields that tell of it, if the store has one at once.
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
    ) -> Option<Result<(Decision, Option<LimitFields>), Error>> {
        self.gate.ask_at_once_and_tell(&self.resolved, operation, ask, fields)
    }
}
