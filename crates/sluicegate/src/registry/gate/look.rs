//! A snapshot of the configuration, for all calls about one request.

use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Operation};
use sluicegate_http::{KeyOutcome, LimitFields};

use super::super::resolved::{Part, Resolved};
use super::{Gate, MissingKey, RequestKeys, fields};
use crate::ask::Ask;
use crate::config::{HttpConfig, LimitConfig};
use crate::permit::{Keeper, Permit, Terms};

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

    /// Whether a limit has a policy of this name.
    pub(crate) fn has_policy(&self, index: usize, name: &str) -> bool {
        let known = self.resolved.parts.get(index).and_then(Part::known);
        known.is_some_and(|known| {
            known.opened.config.limit.members().iter().any(|member| member.name().as_str() == name)
        })
    }

    /// Whether one of the limits has a policy of this name, or isn't known, so that nobody knows.
    pub(crate) fn may_have_policy(&self, name: &str) -> bool {
        let parts = self.resolved.parts.iter().enumerate();
        let mut may_have =
            parts.map(|(index, part)| part.known().is_none() || self.has_policy(index, name));
        may_have.any(|may_have| may_have)
    }

    /// The names of all policies.
    pub(crate) fn policies(&self) -> Vec<&str> {
        let known = self.resolved.parts.iter().filter_map(Part::known);
        let members = known.flat_map(|known| known.opened.config.limit.members());
        members.map(|member| member.name().as_str()).collect()
    }

    /// Whether who takes of these limits has to hold what it takes.
    pub(crate) fn has_permits(&self) -> bool {
        self.resolved.has_permits
    }

    /// The permit and its response fields, if the store can answer immediately.
    pub(crate) fn permit_at_once(
        &self,
        ask: &Ask<'_>,
        terms: Terms,
    ) -> Option<Result<(Permit, Option<LimitFields>), Error>> {
        let keeper: Arc<dyn Keeper> = Arc::new(self.gate.clone());
        self.gate.permit_at_once(&self.resolved, &keeper, ask, terms, fields)
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
