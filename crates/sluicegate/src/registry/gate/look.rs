//! A snapshot of the configuration, for all calls about one request.

use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_http::KeyOutcome;

use super::super::resolved::{Part, Resolved};
use super::{MissingKey, RequestKeys};
use crate::config_file::{HttpConfig, LimitConfig};

/// The limits of a gate in one configuration, so that keys and answers use one configuration. Don't keep it across an
/// await.
pub(crate) struct Look {
    pub(super) resolved: Guard<Arc<Resolved>>,
}

impl Look {
    /// Returns the settings for HTTP requests and responses.
    pub(crate) fn http(&self) -> &HttpConfig {
        &self.resolved.http
    }

    /// Returns the keys that `make` returns; it gets the index of each limit and its configuration.
    pub(crate) fn keys_with(
        &self,
        make: &mut dyn FnMut(usize, &LimitConfig) -> KeyOutcome,
    ) -> Result<RequestKeys, MissingKey> {
        RequestKeys::made_by(&self.resolved, make)
    }

    /// Returns whether a limit has a policy of this name.
    pub(crate) fn has_policy(&self, index: usize, name: &str) -> bool {
        let known = self.resolved.parts.get(index).and_then(Part::known);
        known.is_some_and(|known| {
            known.opened.config.limit.members().iter().any(|member| member.name().as_str() == name)
        })
    }

    /// Returns whether one of the limits has a policy of this name, or is unknown and so may have one.
    pub(crate) fn may_have_policy(&self, name: &str) -> bool {
        let parts = self.resolved.parts.iter().enumerate();
        let mut may_have =
            parts.map(|(index, part)| part.known().is_none() || self.has_policy(index, name));
        may_have.any(|may_have| may_have)
    }

    /// Returns the names of all policies.
    pub(crate) fn policies(&self) -> Vec<&str> {
        let known = self.resolved.parts.iter().filter_map(Part::known);
        let members = known.flat_map(|known| known.opened.config.limit.members());
        members.map(|member| member.name().as_str()).collect()
    }

    /// Returns whether a request that takes units of these limits has to hold them.
    pub(crate) fn has_permits(&self) -> bool {
        self.resolved.has_permits
    }
}
