//! What an allowed request holds.

use std::ops::Deref;

use sluicegate_core::{Decision, HoldToken};

/// The decision on a request that was to hold what it takes, and the token by which that is settled.
///
/// It dereferences to its [`Decision`]. Dropping it settles nothing: what isn't settled stays charged, unless the limit
/// [returns](crate::policy::OnExpiry) it.
///
/// ```
/// use sluicegate::{Ask, Limiter, MemoryStore, Usage};
/// use sluicegate::store::Span;
///
/// let limit = sluicegate::Limit::new("llm", ["fixed_window 1000/h as tokens"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// let estimate = limiter.check(Ask::new("acme").cost(700)).hold(Span::MINUTE).now()?;
/// assert!(estimate.is_allowed());
/// let denied = limiter.check(Ask::new("acme").cost(700)).hold(Span::MINUTE).now()?;
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
    /// The grant of a decision, and of the token for the record that it may have left.
    pub(crate) fn new(decision: Decision, token: HoldToken) -> Self {
        let token = decision.hold().map(|_| token);
        Self { decision, token }
    }

    /// The grant of a decision for which no limit was asked.
    pub(crate) const fn of_nothing(decision: Decision) -> Self {
        Self { decision, token: None }
    }

    /// The decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// All that settling and renewing need. `None` if the request is denied; if it charged nothing; and if
    /// the store didn't decide: a fallback, a list or a switch did, and there is nothing to settle.
    #[must_use]
    pub const fn token(&self) -> Option<&HoldToken> {
        self.token.as_ref()
    }

    /// The decision alone.
    pub fn into_decision(self) -> Decision {
        self.decision
    }

    /// The [token](Grant::token) alone.
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
