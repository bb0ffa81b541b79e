//! The hold of an allowed request.

use std::ops::Deref;

use sluicegate_core::{Decision, HoldToken};

/// The decision on a request that holds units, and the token that settles them.
///
/// It dereferences to its [`Decision`]. Dropping it settles nothing: units that aren't settled stay charged, unless the
/// limit [returns](crate::policy::OnExpiry) them.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::{Ask, Limiter, MemoryStore, Usage};
///
/// let limit = sluicegate::Limit::new("llm", ["fixed_window 1000/h as tokens"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// let estimate = limiter.check(Ask::new("acme").cost(700)).hold(Duration::from_secs(60)).now()?;
/// assert!(estimate.is_allowed());
/// let denied = limiter.check(Ask::new("acme").cost(700)).hold(Duration::from_secs(60)).now()?;
/// assert!(denied.is_denied() && denied.token().is_none());
/// if let Some(token) = estimate.token() {
///     limiter.settle(token, Usage::of("tokens", 100)).now()?;
/// }
/// assert!(limiter.check(Ask::new("acme").cost(700)).now()?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Grant {
    decision: Decision,
    token: Option<HoldToken>,
}

impl Grant {
    /// Returns the grant of a decision, with the token for the record that it may have left.
    pub(crate) fn new(decision: Decision, token: HoldToken) -> Self {
        let token = decision.hold().map(|_| token);
        Self { decision, token }
    }

    /// Returns the grant of a decision for which no limit was asked.
    pub(crate) const fn of_nothing(decision: Decision) -> Self {
        Self { decision, token: None }
    }

    /// Returns the decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns the token that settling and renewing need.
    ///
    /// `None` if the request is denied or charged nothing, and if a fallback, a list or a switch decided instead of the
    /// store. Then there is nothing to settle.
    #[must_use]
    pub const fn token(&self) -> Option<&HoldToken> {
        self.token.as_ref()
    }

    /// Returns the decision alone.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// Returns the [token](Grant::token) alone.
    #[must_use]
    pub fn into_token(self) -> Option<HoldToken> {
        self.token
    }
}

/// The grant of a decision for which nothing is held.
impl From<Decision> for Grant {
    fn from(decision: Decision) -> Self {
        Self::of_nothing(decision)
    }
}

impl From<Grant> for Decision {
    fn from(grant: Grant) -> Self {
        grant.decision
    }
}

impl Deref for Grant {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}
