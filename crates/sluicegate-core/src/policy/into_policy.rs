//! Conversion of specs and policies into policies.

use super::Policy;
use crate::spec::SpecError;

/// A policy, or text with the spec of a policy.
///
/// ```
/// use sluicegate_core::{IntoPolicy, Policy, Rate};
///
/// let policy = Policy::token_bucket("10/s".parse()?, 20)?;
/// assert_eq!("token_bucket 10/s burst 20".into_policy()?, policy);
/// assert_eq!(policy.clone().into_policy()?, policy);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait IntoPolicy {
    /// Returns the policy.
    ///
    /// # Errors
    /// Returns an error if the text isn't a spec. The message says what to change.
    fn into_policy(self) -> Result<Policy, SpecError>;
}

impl IntoPolicy for Policy {
    fn into_policy(self) -> Result<Policy, SpecError> {
        Ok(self)
    }
}

impl<T: AsRef<str>> IntoPolicy for T {
    fn into_policy(self) -> Result<Policy, SpecError> {
        self.as_ref().parse()
    }
}
