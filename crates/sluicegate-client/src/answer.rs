//! Answers as a service writes them.

use serde::Deserialize;

/// A decision. Fields that a later service adds are passed over.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) allowed: bool,
    pub(crate) source: String,
    pub(crate) binding: Option<String>,
    pub(crate) binding_limit: Option<String>,
    /// `None` for never.
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) granted: Option<u64>,
    #[serde(default)]
    pub(crate) repeat: bool,
    pub(crate) forgotten: Option<bool>,
    pub(crate) found: Option<String>,
    pub(crate) cancelled: Option<bool>,
    pub(crate) hold: Option<HoldAnswer>,
    pub(crate) ban: Option<BanAnswer>,
    /// What ended a wait.
    pub(crate) code: Option<String>,
    pub(crate) ahead: Option<u64>,
    #[serde(default)]
    pub(crate) restamped: bool,
    pub(crate) policies: Vec<PolicyAnswer>,
}

/// What is held.
#[derive(Debug, Deserialize)]
pub(crate) struct HoldAnswer {
    pub(crate) token: String,
    pub(crate) expires_in_us: u64,
}

/// Whose ban it is, and when it ends.
#[derive(Debug, Deserialize)]
pub(crate) struct BanAnswer {
    pub(crate) limit: String,
    pub(crate) ends_in_us: u64,
    pub(crate) begins: bool,
}

/// What one policy says.
#[derive(Debug, Deserialize)]
pub(crate) struct PolicyAnswer {
    pub(crate) name: String,
    pub(crate) limit_name: Option<String>,
    pub(crate) remaining: Option<u64>,
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) reset_after_us: Option<u64>,
    #[serde(default)]
    pub(crate) wait_us: u64,
    pub(crate) allowed: bool,
    pub(crate) given_back: Option<u64>,
    #[serde(default)]
    pub(crate) window_total: u64,
    #[serde(default)]
    pub(crate) current_slice: u64,
    #[serde(default)]
    pub(crate) violated: Vec<u32>,
}

/// A service that is ready.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) store: String,
    pub(crate) store_error: Option<String>,
}

/// An error.
#[derive(Debug, Deserialize)]
pub(crate) struct ErrorAnswer {
    pub(crate) error: ErrorBody,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ErrorBody {
    pub(crate) code: String,
    pub(crate) message: String,
}
