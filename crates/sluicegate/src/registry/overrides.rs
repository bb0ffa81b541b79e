//! The side of a registry that overrides at run time need.

use std::borrow::Cow;
use std::sync::Arc;

use sluicegate_core::{RequestError, RequestErrorKind};

use super::Registry;
use super::at_run_time::OverrideProblems;
use crate::config_file::LimitConfig;
use crate::overrides::{
    ChangedKeys, OfLimit, OverrideTo, Overrides, OverridesError, OverridesState,
};

impl Registry {
    /// Returns the overrides at run time, which operators set.
    #[must_use]
    pub fn overrides(&self) -> Overrides {
        Overrides::new(self.clone())
    }

    pub(crate) fn overrides_state(&self) -> &OverridesState {
        &self.shared.overrides
    }

    /// Checks an override against the limit that it is for. Returns the key as the limit counts it.
    pub(crate) fn check_override(
        &self,
        limit: &str,
        key: Option<&[u8]>,
        to: &OverrideTo,
    ) -> Result<Option<Vec<u8>>, OverridesError> {
        let config = self.configured(limit).ok_or_else(|| self.shared.no_limit(limit))?;
        to.effect_on(&config.limit)?;
        let counted = key.map(|key| config.key.given(key)).transpose();
        let counted = counted.map_err(|unfit| {
            let message = format!("limit `{}`: {unfit}", config.limit.name());
            RequestError::new(RequestErrorKind::UnfitKey, message)
        })?;
        Ok(counted.map(Cow::into_owned))
    }

    /// Returns a key as the limit counts it, or unchanged if there is no such limit.
    pub(crate) fn counted_key_of(&self, limit: &str, key: Option<&[u8]>) -> Option<Vec<u8>> {
        let key = key?;
        let counted =
            self.limit(limit).and_then(|config| Some(config.key.given(key).ok()?.into_owned()));
        Some(counted.unwrap_or_else(|| key.to_vec()))
    }

    /// Returns why overrides of a limit aren't in force.
    pub(crate) fn override_problems(&self, limit: &str) -> OverrideProblems {
        let current = self.shared.current();
        current.entry(limit).map_or_else(OverrideProblems::of_no_limit, |entry| {
            entry.opened.override_problems().clone()
        })
    }

    /// Puts the overrides of some limits in force, in place of those that they had. These keys have other ones.
    pub(crate) fn adopt_overrides(
        &self,
        of_limits: impl Iterator<Item = (String, OfLimit, ChangedKeys)>,
    ) {
        let mut writer = self.shared.write();
        of_limits.for_each(|(limit, overrides, changed)| {
            writer.overridden.set(&limit, overrides, changed);
        });
        self.shared.publish(&mut writer);
    }

    /// Returns a limit as the configuration or the code has it, without overrides at run time.
    #[must_use]
    pub fn configured(&self, name: &str) -> Option<Arc<LimitConfig>> {
        let writer = self.shared.write();
        let mut limits = writer.limits.iter().chain(&writer.code);
        limits.find(|opened| opened.name() == name).map(|opened| Arc::clone(&opened.config))
    }
}
