//! One limit of a config file.

use sluicegate_core::{Limit, Span};
use sluicegate_http::{KeyExpression, KeyMatcher, OnMissingKey};

use super::Override;
use crate::registry::Switch;

/// One limit of a config file, or one given in code.
///
/// ```
/// use sluicegate::config::{LimitConfig, Override};
///
/// let mut login = LimitConfig::new(sluicegate::limit("login", ["gcra 5/min"])?);
/// login.block = vec!["mallory".parse()?];
/// login.overrides = vec![Override::times("team-*".parse()?, &login.limit, "10".parse()?)?];
/// assert_eq!(login.overrides[0].limit().members()[0].policy().to_string(), "gcra 50/min");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LimitConfig {
    /// The name and the policies.
    pub limit: Limit,
    /// Whether it is in force; on unless the file says otherwise.
    pub enabled: Switch,
    /// What middleware makes the key from; `ip` unless the file says otherwise.
    pub key: KeyExpression,
    /// What happens to a request that has nothing to make the key from; they share one unless the
    /// file says otherwise.
    pub missing_key: OnMissingKey,
    /// Keys that pass and are not counted.
    pub allow: Vec<KeyMatcher>,
    /// Keys that are denied. Of an entry here and one in `allow` the more particular one counts:
    /// a key before a range of addresses before a beginning, a longer range or beginning before a
    /// shorter one; of equals, this one.
    pub block: Vec<KeyMatcher>,
    /// Keys with other numbers; of several that name a key, the most particular one, by the order
    /// above. Those of another limit's policies keep states of their own.
    pub overrides: Vec<Override>,
    /// What is answered when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// How long the store may take for an answer: 1 ms to 60 s. In a file 50 ms unless it says
    /// otherwise; `None` is what the store is set up with.
    pub deadline: Option<Span>,
}

impl LimitConfig {
    /// A limit with everything as in a file that says no more than its policies.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self {
            limit,
            enabled: Switch::On,
            key: KeyExpression::default(),
            missing_key: OnMissingKey::default(),
            allow: Vec::new(),
            block: Vec::new(),
            overrides: Vec::new(),
            on_store_failure: OnStoreFailure::default(),
            deadline: None,
        }
    }
}

impl From<Limit> for LimitConfig {
    fn from(limit: Limit) -> Self {
        Self::new(limit)
    }
}

/// What a limit answers when its store is slow, down or wrong.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum OnStoreFailure {
    /// A typed error: HTTP status 503.
    #[default]
    Error,
    /// Everything passes.
    Allow,
    /// Nothing passes.
    Deny,
}
