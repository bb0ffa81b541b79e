//! One limit of a config file.

use sluicegate_core::{Acknowledgement, Limit, Span};
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
    /// What middleware makes the key from. Default: `ip`.
    pub key: KeyExpression,
    /// What happens to a request that lacks the key. Default: all such requests share one.
    pub missing_key: OnMissingKey,
    /// Keys that pass without being counted.
    pub allow: Vec<KeyMatcher>,
    /// Keys that are denied. If a key matches here and in `allow`, the more specific entry counts, in
    /// the order of [`KeyMap`](sluicegate_http::KeyMap). Between equal entries, this list wins.
    pub block: Vec<KeyMatcher>,
    /// Keys with other numbers. If several match a key, the most specific one counts, in the order
    /// above. An override with the policies of another limit keeps separate states.
    pub overrides: Vec<Override>,
    /// What the limit answers when the store fails.
    pub on_store_failure: OnStoreFailure,
    /// How long the store may take for an answer: 1 ms to 60 s. The default in a file is 50 ms;
    /// `None` means the store's own deadline.
    pub deadline: Option<Span>,
    /// Whether what a server has just denied is denied again without asking it, for a second at most
    /// ([`DenyCache`](crate::layers::DenyCache)). Default: off.
    pub deny_cache: Switch,
    /// How much of what a server limits is taken ahead, and spent here without asking it
    /// ([`Leases`](crate::layers::Leases)). Default: nothing.
    pub leases: LeaseOptions,
    /// Whether a request whose outcome is unknown is asked again under an id, so that it is charged once
    /// ([`Retry`](crate::layers::Retry)). Default: off.
    pub retry_unknown: Switch,
    /// What replicas of a server have to say before a decision counts. Default: nothing.
    pub replicas: Option<Acknowledgement>,
}

impl LimitConfig {
    /// A limit with the defaults of a file that has nothing but its policies.
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
}

impl From<Limit> for LimitConfig {
    fn from(limit: Limit) -> Self {
        Self::new(limit)
    }
}
