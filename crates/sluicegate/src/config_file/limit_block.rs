//! A limit in a file of another program.

use sluicegate_core::Policy;

use super::tree::Node;

/// The settings of a limit in a file of another program, whose parser has read them.
///
/// They are checked as those of a configuration are, with the same messages.
#[derive(Clone, Copy, Debug)]
pub struct LimitBlock<'b> {
    /// Name of the file, for messages.
    pub file: &'b str,
    /// Text of the file, with the values as they are written.
    pub text: &'b str,
    /// Path to the settings in the file, for messages.
    pub path: &'b str,
    /// The map of settings.
    pub settings: &'b Node,
    /// The fields that the settings may have: [`LimitBlock::FIELDS`], or some of these, and fields that the caller reads.
    pub fields: &'b [&'b str],
    /// The policies, if the settings may lack them.
    pub policies: Option<&'b [Policy]>,
}

impl LimitBlock<'_> {
    /// The fields of a limit that doesn't make its own keys and names no files.
    pub const FIELDS: [&'static str; 12] = [
        "policies",
        "ban",
        "enabled",
        "allow",
        "block",
        "overrides",
        "on_store_failure",
        "deadline",
        "deny_cache",
        "leases",
        "retry_unknown",
        "replicas",
    ];
}
