//! Rules for single keys of a plan.

use std::fmt;

use sluicegate_core::Limit;

/// The treatment of a key in a plan.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum KeyRule {
    /// The plan's limit decides.
    Plan,
    /// This limit decides: the plan's limit with other numbers.
    Limit(Limit),
    /// Every request is allowed, and none is counted.
    Allow,
    /// Every request is denied.
    Block,
    /// The key isn't played, for example because time is up.
    Skip,
}

/// The rules of a plan for its keys.
pub trait KeyRules: fmt::Debug + Send + Sync {
    /// Returns the rule for a key. It is called once for each key of a limit.
    fn rule(&self, key: &[u8]) -> KeyRule;
}
