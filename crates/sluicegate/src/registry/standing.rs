//! The settings that decide how a limit treats a key.

use std::sync::Arc;

use crate::config_file::{LimitConfig, LimitOrigins};

/// The setting that decides how a limit treats a key, and the places of the limit's settings.
///
/// ```
/// use sluicegate::admin::Treatment;
/// use sluicegate::{Ask, Config, Registry};
///
/// let text = "limits:\n  api:\n    policies: [gcra 1/s]\n    block: [mallory]\n";
/// let api = Registry::open(&Config::parse(text, "limits.yaml")?)?.gate("api");
/// let standing = &api.standings(&Ask::new("mallory"))?[0];
/// assert_eq!(standing.treatment, Treatment::Blocked(0));
/// let place = standing.origins.as_ref().unwrap().block(0).unwrap();
/// assert_eq!(place.to_string(), "limits.yaml:4:13");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Standing {
    /// The name of the limit.
    pub limit: String,
    /// The key as the limit counts it.
    pub key: Vec<u8>,
    /// The setting that decides.
    pub treatment: Treatment,
    /// The limit as the configuration or the code has it, without overrides at run time. `None` if there is none.
    pub config: Option<Arc<LimitConfig>>,
    /// The places of its settings. `None` if no file has the limit.
    pub origins: Option<Arc<LimitOrigins>>,
}

/// The setting that decides how a limit treats a key. If several apply, the first of these counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Treatment {
    /// No limit of this name exists, so `unknown_limits` decides.
    Unknown,
    /// All limits are off.
    AllOff {
        /// Whether a program has switched them off, in place of the file.
        at_run_time: bool,
    },
    /// The limit is off.
    Off {
        /// Whether a program has switched it off, in place of the file.
        at_run_time: bool,
    },
    /// An override at run time of the key.
    KeyOverride,
    /// The entry of `allow` with this index.
    Allowed(usize),
    /// The entry of `block` with this index.
    Blocked(usize),
    /// An override at run time of the whole limit.
    LimitOverride,
    /// The override of the configuration with this index.
    Override(usize),
    /// The limit's own policies.
    Own,
}
