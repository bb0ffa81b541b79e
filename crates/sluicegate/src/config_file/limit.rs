//! One limit of a config file.

use std::time::Duration;

use sluicegate_core::{Acknowledgement, Limit};
use sluicegate_http::{KeyExpression, KeyMatcher, OnMissingKey};

use super::Override;
use super::switch::Switch;
use crate::layers::LeaseOptions;
use crate::on_store_failure::OnStoreFailure;

/// One limit of a config file, or one given in code.
///
/// ```
/// use sluicegate::config::{LimitConfig, Override};
///
/// let mut login = LimitConfig::new(sluicegate::Limit::new("login", ["gcra 5/min"])?);
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
    /// Whether the limit is in force. Default: on.
    pub enabled: Switch,
    /// The expression from which middleware makes the key. Default: `ip`.
    pub key: KeyExpression,
    /// Treatment of a request that lacks the key. Default: all such requests share one.
    pub missing_key: OnMissingKey,
    /// Keys that pass without being counted.
    pub allow: Vec<KeyMatcher>,
    /// Keys that are denied. If a key matches here and in `allow`, the more specific entry counts, in
    /// the order of [`KeyMap`](sluicegate_http::KeyMap). Between equal entries, this list wins.
    pub block: Vec<KeyMatcher>,
    /// Keys with other numbers. If several match a key, the most specific one counts, in the order
    /// above. An override with the policies of another limit keeps separate states.
    pub overrides: Vec<Override>,
    /// The answer of the limit when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// Maximum time for an answer of the store: 1 ms to 60 s. The default in a file is 50 ms; `None` means the store's
    /// own deadline.
    pub deadline: Option<Duration>,
    /// Whether a request that a server has just denied is denied again without calling it, for a second at most
    /// ([`DenyCache`](crate::layers::DenyCache)). Default: off.
    pub deny_cache: Switch,
    /// The units of a server's limit that are leased, and spent here without calling the server
    /// ([`Leases`](crate::layers::Leases)). Default: none.
    pub leases: LeaseOptions,
    /// Whether a request whose outcome is unknown is repeated under an id, so that it is charged once
    /// ([`Retry`](crate::layers::Retry)). Default: off.
    pub retry_unknown: Switch,
    /// The acknowledgement by a server's replicas that a decision needs before it counts. Default: none.
    pub replicas: Option<Acknowledgement>,
}

impl LimitConfig {
    /// The fields of a limit in a file.
    pub(super) const FIELDS: [&str; 18] = [
        "policies",
        "ban",
        "on_expiry",
        "enabled",
        "key",
        "missing_key",
        "allow",
        "block",
        "overrides",
        "allow_file",
        "block_file",
        "overrides_file",
        "on_store_failure",
        "deadline",
        "deny_cache",
        "leases",
        "retry_unknown",
        "replicas",
    ];

    /// Makes a limit with the defaults of a file that has only its policies.
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
            deny_cache: Switch::Off,
            retry_unknown: Switch::Off,
            leases: LeaseOptions::NONE,
            replicas: None,
        }
    }

    /// Returns these settings for a limit with other numbers, without overrides.
    pub(crate) fn with_numbers_of(&self, limit: Limit) -> Self {
        Self { limit, overrides: Vec::new(), ..self.clone() }
    }
}

impl From<Limit> for LimitConfig {
    fn from(limit: Limit) -> Self {
        Self::new(limit)
    }
}
