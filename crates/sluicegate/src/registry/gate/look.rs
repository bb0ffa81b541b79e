//! A snapshot of the configuration, for all calls about one request.

use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Operation};
use sluicegate_http::{KeyOutcome, LimitFields};

use super::super::resolved::Resolved;
use super::{Gate, MissingKey, RequestKeys, fields};
use crate::ask::Ask;
use crate::config::{HttpConfig, LimitConfig};

/// The limits of a gate in one configuration, so that keys and answers go by the same. Don't keep
/// it across an await.
pub(crate) struct Look<'g> {
    pub(super) gate: &'g Gate,
    pub(super) resolved: Guard<Arc<Resolved>>,
}

impl Look<'_> {
    /// The settings for HTTP requests and responses.
    pub(crate) fn http(&self) -> &HttpConfig {
        &self.resolved.http
    }

    /// The keys that `make` returns; it gets the index of each limit and its configuration.
    pub(crate) fn keys_with(
        &self,
        make: &mut dyn FnMut(usize, &LimitConfig) -> KeyOutcome,
    ) -> Result<RequestKeys, MissingKey> {
        RequestKeys::made_by(&self.resolved, make)
    }

    /// The answer and its response fields, if the store can answer immediately.
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
    ) -> Option<Result<(Decision, Option<LimitFields>), Error>> {
        self.gate.ask_at_once_and_tell(&self.resolved, operation, ask, fields)
    }
}
