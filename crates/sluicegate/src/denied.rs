//! A request that was turned away, as an error.

mod problem;

use std::error::Error;
use std::fmt;

use sluicegate_core::{
    Algorithm, Decision, Error as AskError, Member, Rate, RetryAfter, Source, Strategy,
};

/// A request that was turned away: what a limited function returns in place of its result.
///
/// A denial is an answer, not a failure; this is for where only an error can be returned. One that
/// came from a failing store says so ([`Denied::reason`]) and has the store's error as its source.
///
/// ```
/// use sluicegate::{Denied, Limiter, MemoryStore};
///
/// let limit = sluicegate::limit("sms", ["fixed_window 1/min"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// assert!(Denied::unless_allowed(limiter.check_now("alice")?).is_ok());
/// let denied = Denied::unless_allowed(limiter.check_now("alice")?).unwrap_err();
/// assert_eq!(denied.to_string(), "limit `sms` is exhausted: retry in 60 s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Denied(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Decided(Box<Decision>),
    NoKey { limit: String },
    Failed { limit: String, error: AskError },
}

/// Why a request was turned away.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum DeniedReason {
    /// A block list names the key, or a name without a limit is configured to deny.
    Blocked,
    /// A policy refused.
    Limited,
    /// The request has nothing to make the key from, and such requests are refused.
    NoKey,
    /// The store failed, and then the limit denies or reports an error.
    StoreFailed,
}

impl Denied {
    /// The decision if it allows.
    ///
    /// # Errors
    /// The denial if it doesn't.
    pub fn unless_allowed(decision: Decision) -> Result<Decision, Self> {
        if decision.is_allowed() { Ok(decision) } else { Err(Self::from(decision)) }
    }

    /// A request that has nothing to make the key of `limit` from.
    #[must_use]
    pub fn no_key(limit: &str) -> Self {
        Self(Inner::NoKey { limit: limit.to_owned() })
    }

    /// A request that `limit` has no answer to: its store failed, mostly.
    #[must_use]
    pub fn failed(limit: &str, error: impl Into<AskError>) -> Self {
        Self(Inner::Failed { limit: limit.to_owned(), error: error.into() })
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> DeniedReason {
        match &self.0 {
            Inner::Decided(decision) => match decision.source() {
                Source::Bypass => DeniedReason::Blocked,
                Source::Fallback => DeniedReason::StoreFailed,
                _ => DeniedReason::Limited,
            },
            Inner::NoKey { .. } => DeniedReason::NoKey,
            Inner::Failed { .. } => DeniedReason::StoreFailed,
        }
    }

    /// When the same request may be tried again; never for what waiting doesn't change.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        self.decision().map_or(RetryAfter::Never, Decision::retry_after)
    }

    /// The decision; `None` when there was none.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        if let Inner::Decided(decision) = &self.0 { Some(decision) } else { None }
    }

    /// The policy that refused; of several, the one that takes the longest to pass. `None` when
    /// none was asked.
    #[must_use]
    pub fn policy(&self) -> Option<&Member> {
        Some(self.decision()?.binding()?.member())
    }

    /// Of a log, its strategies that refused: how many in how long. Empty for other policies.
    ///
    /// ```
    /// use sluicegate::{Ask, Denied, Limiter, MemoryStore, Span};
    ///
    /// let limit = sluicegate::limit("api", ["sliding_log 2/s and 3/h"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let _ = limiter.check_now(Ask::new("alice").cost(2))?;
    /// let _ = limiter.charge_now(Ask::new("alice").cost(2))?;
    /// let denied = Denied::from(limiter.check_now("alice")?);
    /// let refused: Vec<_> = denied.strategies().map(|strategy| (strategy.limit, strategy.window)).collect();
    /// assert_eq!(refused, [(2, Span::SECOND), (3, Span::HOUR)]);
    /// assert!(denied.to_string().starts_with("limit `api` is exhausted (2/s and 3/h): retry in "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn strategies(&self) -> impl Iterator<Item = &Strategy> {
        let refused = self.decision().and_then(Decision::binding).and_then(|outcome| {
            let Algorithm::SlidingLog { strategies } = outcome.member().policy().algorithm() else {
                return None;
            };
            Some(outcome.violated().filter_map(|index| strategies.get(index)))
        });
        refused.into_iter().flatten()
    }

    /// Why there was no answer, where that is why: the store failed, mostly.
    #[must_use]
    pub fn error(&self) -> Option<&AskError> {
        if let Inner::Failed { error, .. } = &self.0 { Some(error) } else { None }
    }
}

impl From<Decision> for Denied {
    fn from(decision: Decision) -> Self {
        Self(Inner::Decided(Box::new(decision)))
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = match &self.0 {
            Inner::NoKey { limit } => {
                return write!(
                    f,
                    "the request has nothing to make the key of limit `{limit}` from"
                );
            }
            Inner::Failed { limit, error } => {
                return write!(f, "limit `{limit}` can't be asked: {error}");
            }
            Inner::Decided(decision) => decision,
        };
        let Some(limit) = decision.limit() else {
            return f.write_str("the key is blocked");
        };
        let name = decision
            .binding()
            .and_then(|outcome| limit.parts().get(outcome.member().part()))
            .unwrap_or_else(|| limit.name());
        match (decision.source(), decision.retry_after()) {
            (Source::Fallback, _) => {
                write!(f, "limit `{name}` can't be asked and denies everything then")
            }
            (_, RetryAfter::After(retry)) => {
                write!(f, "limit `{name}` is exhausted")?;
                let mut between = " (";
                for strategy in self.strategies() {
                    match Rate::new(strategy.limit, strategy.window) {
                        Ok(rate) => write!(f, "{between}{rate}")?,
                        Err(_) => write!(f, "{between}{} in {}", strategy.limit, strategy.window)?,
                    }
                    between = " and ";
                }
                let after = if between == " (" { "" } else { ")" };
                write!(f, "{after}: retry in {} s", retry.as_secs_ceil())
            }
            _ => write!(f, "limit `{name}` never admits this much at once"),
        }
    }
}

impl Error for Denied {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().map(|error| error as &(dyn Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Span;

    use super::*;
    use crate::{Ask, Limiter, MemoryStore, limit};

    fn denied(spec: &str, cost: u64) -> Denied {
        let limit = limit("api", ["gcra 100/s", spec]).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), limit);
        let _ = limiter.charge_now(Ask::new("alice").cost(cost)).unwrap();
        Denied::from(limiter.check_now("alice").unwrap())
    }

    #[test]
    fn a_denial_names_the_policy_and_the_strategies_that_refused() {
        let of_the_hour = denied("sliding_log 5/s and 3/h and 9/d as log", 4);
        assert_eq!(of_the_hour.policy().unwrap().name().as_str(), "log");
        let refused: Vec<_> = of_the_hour.strategies().copied().collect();
        assert_eq!(refused, [Strategy { limit: 3, window: Span::HOUR }]);
        assert_eq!(of_the_hour.to_string(), "limit `api` is exhausted (3/h): retry in 3600 s");
        let of_a_window = denied("fixed_window 3/h", 4);
        assert_eq!(of_a_window.policy().unwrap().name().as_str(), "fixed_window");
        assert_eq!(of_a_window.strategies().count(), 0);
        assert_eq!(of_a_window.to_string(), "limit `api` is exhausted: retry in 3600 s");
    }
}
