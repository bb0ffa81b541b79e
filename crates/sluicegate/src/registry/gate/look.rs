//! One look at the configuration, for all that is asked about one request.

use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{Operation, StoreError};
use sluicegate_http::KeyOutcome;

use super::super::resolved::Resolved;
use super::{Gate, MissingKey, RequestKeys};
use crate::ask::Ask;
use crate::config::{HttpConfig, LimitConfig};
use crate::ruling::Ruling;

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

    /// Like that of [`Gate`].
    pub(crate) fn keys_with(
        &self,
        make: &mut dyn FnMut(usize, &LimitConfig) -> KeyOutcome,
    ) -> Result<RequestKeys, MissingKey> {
        RequestKeys::made_by(&self.resolved, make)
    }

    /// Like that of [`Gate`].
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> Option<Result<Ruling, StoreError>> {
        self.gate.ask_now(&self.resolved, operation, ask)
    }
}
