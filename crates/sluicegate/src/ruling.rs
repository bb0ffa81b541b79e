//! A decision together with the limit that made it.

use std::ops::Deref;
use std::sync::Arc;

use sluicegate_core::{Decision, Limit};

use crate::denied::Denied;

/// A decision together with the limit that made it. It reads like the [`Decision`].
///
/// A call site that names its limit doesn't hold it: the configuration may have changed between
/// two calls. What middleware says of a decision goes by the limit as it was.
#[derive(Clone, Debug)]
#[must_use]
pub struct Ruling {
    decision: Decision,
    limit: Option<Arc<Limit>>,
}

impl Ruling {
    /// A decision of a limit.
    pub const fn new(decision: Decision, limit: Arc<Limit>) -> Self {
        Self { decision, limit: Some(limit) }
    }

    /// What passes or is turned away without any limit being asked
    /// ([`Source::Bypass`](sluicegate_core::Source::Bypass)).
    pub fn bypass(allowed: bool) -> Self {
        Self { decision: Decision::bypass(allowed), limit: None }
    }

    /// The decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// The limit that was asked, whose policies are in the order of
    /// [`Decision::policies`]; `None` when none was.
    #[must_use]
    pub const fn limit(&self) -> Option<&Arc<Limit>> {
        self.limit.as_ref()
    }

    /// The ruling if it allows.
    ///
    /// # Errors
    /// The denial if it doesn't.
    pub fn or_denied(self) -> Result<Self, Denied> {
        if self.decision.is_allowed() { Ok(self) } else { Err(Denied::from(self)) }
    }
}

impl Deref for Ruling {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}
