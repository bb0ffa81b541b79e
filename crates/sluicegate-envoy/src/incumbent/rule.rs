//! One rule: a descriptor with a limit, or with a block of our own.

use std::sync::Arc;

use super::block::Block;
use super::metadata::Metadata;
use super::unit::Unit;

/// A rule of a domain.
#[derive(Debug)]
pub struct Rule {
    pub(crate) domain: String,
    pub(crate) path: String,
    pub(crate) requests_per_unit: u32,
    pub(crate) unit: Option<Unit>,
    pub(crate) unlimited: bool,
    pub(crate) name: String,
    pub(crate) replaces: Vec<String>,
    pub(crate) shadow_mode: bool,
    pub(crate) quota_mode: bool,
    pub(crate) detailed_metric: bool,
    pub(crate) metadata: Metadata,
    pub(crate) block: Option<Arc<Block>>,
    pub(crate) open_entries: Vec<String>,
}

impl Rule {
    /// Returns the name of the domain.
    #[must_use]
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the domain and the keys and values down to this rule, such as `shop.plan_gold.path`.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of requests per unit.
    #[must_use]
    pub const fn requests_per_unit(&self) -> u32 {
        self.requests_per_unit
    }

    /// Returns the unit; `None` for an unlimited rule, and for one without a `rate_limit`.
    #[must_use]
    pub const fn unit(&self) -> Option<Unit> {
        self.unit
    }

    /// Returns whether the rule has no limit.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.unlimited
    }

    /// Returns the name by which other rules replace this one; may be empty.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the names of the rules that this one replaces.
    #[must_use]
    pub fn replaces(&self) -> &[String] {
        &self.replaces
    }

    /// Returns whether the limit is only reported.
    #[must_use]
    pub const fn is_shadow(&self) -> bool {
        self.shadow_mode
    }

    /// Returns whether the limit is a quota: a request is denied if all of its quotas are used up.
    #[must_use]
    pub const fn is_quota(&self) -> bool {
        self.quota_mode
    }

    /// Returns the metadata for answers to requests that pass.
    #[must_use]
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the `x_sluicegate` block of the descriptor.
    #[must_use]
    pub fn block(&self) -> Option<&Block> {
        self.block.as_deref()
    }

    /// Returns the keys of the entries whose values are counted separately, from the first level on.
    #[must_use]
    pub fn open_entries(&self) -> &[String] {
        &self.open_entries
    }

    /// Returns the rule as the incumbent prints it, without its block.
    #[must_use]
    pub fn line(&self) -> String {
        let unit = self.unit.map_or("UNKNOWN", Unit::name);
        self.line_of(&format!("unit={unit} requests_per_unit={}", self.requests_per_unit))
    }

    /// Returns the text that shows the rule with this limit.
    pub(crate) fn line_of(&self, limit: &str) -> String {
        let Self { path, shadow_mode, quota_mode, .. } = self;
        let modes = [("shadow_mode", shadow_mode), ("quota_mode", quota_mode)];
        let [shadow, quota] = modes.map(|(name, mode)| format!("{name}: {mode}"));
        format!("{path}: {limit}, {shadow}, {quota}")
    }
}
