//! A denied request as an error.

#[cfg(feature = "config")]
mod problem;

use std::error::Error;
use std::fmt;

use sluicegate_core::{
    Algorithm, Decision, DeniedCharge, Error as AskError, LogTier, Member, Rate, RequestErrorKind,
    RetryAfter, Source, Span, StoreError,
};
#[cfg(feature = "config")]
use sluicegate_http::{FieldFormat, KeyComponent, MissingComponent};

/// A denied request as an error: the value that a limited function returns instead of its result.
///
/// A denial is an answer rather than a failure; this type is for returning it as an error. If the request was denied
/// because the store failed, [`Denied::reason`] says so, and the store's error is its source.
///
/// ```
/// use sluicegate::{Denied, Limiter, MemoryStore};
///
/// let limit = sluicegate::Limit::new("sms", ["fixed_window 1/min"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// assert!(Denied::unless_allowed(limiter.check("alice").now()?).is_ok());
/// let denied = Denied::unless_allowed(limiter.check("alice").now()?).unwrap_err();
/// assert_eq!(denied.to_string(), "limit `sms` is exhausted: retry in 1 min");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Denied {
    why: Why,
    /// Response fields that tell the client about the limit.
    #[cfg(feature = "config")]
    fields: FieldFormat,
}

#[derive(Clone, Debug)]
enum Why {
    Decided(Box<Decision>),
    #[cfg(feature = "config")]
    NoKey {
        limit: String,
        missing: MissingComponent,
    },
    Failed {
        /// `None` if `?` made an error a denial, because the limit is then unknown.
        limit: Option<String>,
        error: AskError,
    },
}

/// The reason why a request was denied.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum DeniedReason {
    /// The key is on a block list, or the limit is unknown and `unknown_limits` is `deny`.
    Blocked,
    /// A policy refused.
    Limited,
    /// The embedded store has no capacity for the key. No policy refused.
    StoreFull,
    /// The key is paused. No policy refused.
    Paused,
    /// The request lacks a part of the key and the limit refuses such requests, or the limit doesn't count the given
    /// key.
    NoKey,
    /// The store failed, and `on_store_failure` is `deny` or `error`.
    StoreFailed,
    /// The [id](crate::Ask::request_id) of the request was used for another request.
    Conflict,
    /// The limit can't decide the request: it is unknown, or the request is invalid for it. This is a mistake in the
    /// program or its configuration, which [`Denied::error`] names.
    Misconfigured,
}

impl Denied {
    /// Returns the decision if it is allowed.
    ///
    /// # Errors
    /// Returns the denial if it isn't.
    pub fn unless_allowed(decision: Decision) -> Result<Decision, Self> {
        if decision.is_allowed() { Ok(decision) } else { Err(Self::from(decision)) }
    }

    /// Makes a denial of a request that lacks a part of the key of `limit`.
    #[cfg(feature = "config")]
    #[must_use]
    pub fn no_key(limit: &str) -> Self {
        Self::lacking(limit, MissingComponent::absent(KeyComponent::Custom))
    }

    #[cfg(feature = "config")]
    pub(crate) fn lacking(limit: &str, missing: MissingComponent) -> Self {
        Self::new(Why::NoKey { limit: limit.to_owned(), missing })
    }

    /// Makes a denial of a request that `limit` couldn't decide, for example because its store failed.
    #[must_use]
    pub fn failed(limit: &str, error: impl Into<AskError>) -> Self {
        Self::new(Why::Failed { limit: Some(limit.to_owned()), error: error.into() })
    }

    fn new(why: Why) -> Self {
        Self {
            why,
            #[cfg(feature = "config")]
            fields: FieldFormat::default(),
        }
    }

    /// Returns the reason of the denial.
    #[must_use]
    pub fn reason(&self) -> DeniedReason {
        match &self.why {
            Why::Decided(decision) => match decision.source() {
                Source::Bypass => DeniedReason::Blocked,
                _ if decision.is_assumed() => DeniedReason::StoreFailed,
                _ if decision.is_store_full() => DeniedReason::StoreFull,
                _ if decision.pause().is_some() => DeniedReason::Paused,
                _ => DeniedReason::Limited,
            },
            #[cfg(feature = "config")]
            Why::NoKey { .. } => DeniedReason::NoKey,
            Why::Failed { error, .. } if error.is_store_failure() => DeniedReason::StoreFailed,
            Why::Failed { error, .. } if is_conflict(error) => DeniedReason::Conflict,
            Why::Failed { error, .. } if is_unfit_key(error) => DeniedReason::NoKey,
            Why::Failed { .. } => DeniedReason::Misconfigured,
        }
    }

    /// Returns when the same request may be retried; never if waiting doesn't help.
    #[must_use]
    pub fn retry_after(&self) -> RetryAfter {
        self.decision().map_or(RetryAfter::Never, Decision::retry_after)
    }

    /// Returns the decision, or `None` if there was none.
    #[must_use]
    pub fn decision(&self) -> Option<&Decision> {
        if let Why::Decided(decision) = &self.why { Some(decision) } else { None }
    }

    /// Returns the policy that refused, or `None` if no policy refused. If several did, it is the one with the longest
    /// retry-after.
    #[must_use]
    pub fn policy(&self) -> Option<&Member> {
        Some(self.decision()?.binding()?.member())
    }

    /// Returns the tiers of a log that refused, each a limit and a window. Empty for other policies.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Ask, Denied, Limiter, MemoryStore};
    ///
    /// let limit = sluicegate::Limit::new("api", ["sliding_log 2/s and 3/h"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let _ = limiter.check(Ask::new("alice").cost(2)).now()?;
    /// let _ = limiter.charge(Ask::new("alice").cost(2)).now()?;
    /// let denied = Denied::from(limiter.check("alice").now()?);
    /// let refused: Vec<_> = denied.tiers().map(|tier| (tier.limit, tier.window)).collect();
    /// assert_eq!(refused, [(2, Duration::from_secs(1)), (3, Duration::from_secs(60 * 60))]);
    /// assert!(denied.to_string().starts_with("limit `api` is exhausted (2/s and 3/h): retry in "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tiers(&self) -> impl Iterator<Item = &LogTier> {
        let refused = self.decision().and_then(Decision::binding).and_then(|outcome| {
            let Algorithm::SlidingLog { tiers } = outcome.member().policy().algorithm() else {
                return None;
            };
            Some(outcome.violated().filter_map(|index| tiers.get(index)))
        });
        refused.into_iter().flatten()
    }

    /// Returns the error that caused the denial, usually the store's.
    #[must_use]
    pub fn error(&self) -> Option<&AskError> {
        if let Why::Failed { error, .. } = &self.why { Some(error) } else { None }
    }
}

/// Returns whether a peek was denied that would have been charged as a check, because a policy charges
/// denied requests. A caller that peeks before acting then has to check.
pub(crate) fn is_denial_charged(peeked: &Decision) -> bool {
    let charges = |member: &Member| member.policy().denied_charge() != DeniedCharge::Free;
    peeked.is_denied()
        && peeked.source() == Source::Store
        && peeked.limit().is_some_and(|limit| limit.members().iter().any(charges))
}

/// Returns `true` if the limit doesn't count this key.
fn is_unfit_key(error: &AskError) -> bool {
    error.as_request().is_some_and(|error| error.kind() == RequestErrorKind::UnfitKey)
}

/// Returns `true` if a different request has used the request id or the hold id.
fn is_conflict(error: &AskError) -> bool {
    error.as_request().is_some_and(|error| error.kind() == RequestErrorKind::Conflict)
}

impl From<Decision> for Denied {
    fn from(decision: Decision) -> Self {
        Self::new(Why::Decided(Box::new(decision)))
    }
}

/// A limit that couldn't answer, for `?` on a request to a [`Gate`](crate::Gate) or [`Limiter`](crate::Limiter). Like
/// [`Denied::failed`], without the name of the limit.
///
/// ```
/// use sluicegate::{Ask, Config, Denied, Gate, Registry};
/// use sluicegate::error::DeniedReason;
///
/// async fn settle(llm: &Gate, tokens: u64) -> Result<(), Denied> {
///     llm.charge(Ask::new("acme").cost_of("tokens", tokens)).await?;
///     Ok(())
/// }
///
/// let config = "limits: {llm: {policies: [gcra 90000/min as tokens], deadline: 5s}}";
/// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// assert!(settle(&registry.gate("llm"), 300).await.is_ok());
/// let mistaken = settle(&registry.gate("lm"), 300).await.unwrap_err();
/// assert_eq!(mistaken.reason(), DeniedReason::Misconfigured);
/// assert_eq!(mistaken.problem().status(), 500);
/// assert!(mistaken.to_string().starts_with("the limit can't be asked: there is no limit called `lm`"));
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl From<AskError> for Denied {
    fn from(error: AskError) -> Self {
        Self::new(Why::Failed { limit: None, error })
    }
}

/// A store that failed.
///
/// ```
/// use sluicegate::Denied;
/// use sluicegate::error::{DeniedReason, StoreError, StoreErrorKind};
///
/// let denied = Denied::from(StoreError::new(StoreErrorKind::Timeout, "too slow"));
/// assert_eq!(denied.reason(), DeniedReason::StoreFailed);
/// assert_eq!(denied.problem().status(), 503);
/// assert_eq!(denied.to_string(), "the limit can't be asked: too slow");
/// ```
impl From<StoreError> for Denied {
    fn from(error: StoreError) -> Self {
        AskError::from(error).into()
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decision = match &self.why {
            #[cfg(feature = "config")]
            Why::NoKey { limit, .. } => {
                return write!(f, "the request lacks a part of the key of limit `{limit}`");
            }
            Why::Failed { limit: Some(limit), error } => {
                return write!(f, "limit `{limit}` can't be asked: {error}");
            }
            Why::Failed { limit: None, error } => {
                return write!(f, "the limit can't be asked: {error}");
            }
            Why::Decided(decision) => decision,
        };
        let Some(limit) = decision.limit() else {
            return f.write_str("the key is blocked");
        };
        let name = decision
            .binding()
            .and_then(|outcome| limit.parts().get(outcome.member().part()))
            .unwrap_or_else(|| limit.name());
        let retry_after = decision.retry_after();
        match retry_after {
            _ if decision.is_assumed() => {
                write!(f, "limit `{name}` can't be asked, and is configured to deny then")
            }
            RetryAfter::After(_) if decision.is_store_full() => {
                write!(f, "limit `{name}` has no memory for the key: retry {retry_after}")
            }
            _ if decision.is_store_full() => {
                write!(f, "limit `{name}` has no memory for the key: the embedded store is full")
            }
            RetryAfter::After(_) if decision.pause().is_some() => {
                let name = decision.paused_by().unwrap_or(name);
                match decision.paused_policy() {
                    Some(policy) => write!(
                        f,
                        "policy `{policy}` of limit `{name}` is paused: retry {retry_after}"
                    ),
                    None => write!(f, "limit `{name}` is paused: retry {retry_after}"),
                }
            }
            RetryAfter::After(_) if decision.ban().is_some_and(|ban| !ban.begins) => {
                let name = decision.banned_by().unwrap_or(name);
                write!(f, "limit `{name}` has banned the key: retry {retry_after}")
            }
            RetryAfter::After(_) => {
                write!(f, "limit `{name}` is exhausted")?;
                let mut between = " (";
                for tier in self.tiers() {
                    match Rate::new(tier.limit, tier.window) {
                        Ok(rate) => write!(f, "{between}{rate}")?,
                        Err(_) => {
                            write!(f, "{between}{} in {}", tier.limit, Span::from(tier.window))?;
                        }
                    }
                    between = " and ";
                }
                let after = if between == " (" { "" } else { ")" };
                write!(f, "{after}: retry {retry_after}")
            }
            _ => match decision.binding().map(|outcome| (outcome.name(), outcome.limit())) {
                Some((policy, Some(0))) => {
                    write!(f, "limit `{name}` admits nothing: policy `{policy}` allows 0")
                }
                Some((policy, Some(most))) => write!(
                    f,
                    "limit `{name}` never admits this cost: policy `{policy}` admits at most {most} per request"
                ),
                _ => write!(f, "limit `{name}` never admits this cost"),
            },
        }
    }
}

/// Its message contains that of [`error`](Denied::error), which therefore isn't its source.
impl Error for Denied {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Ask, Limit, Limiter, MemoryStore};

    #[test]
    fn a_full_store_blames_no_policy() {
        let store = MemoryStore::builder().max_keys(std::num::NonZeroUsize::MIN);
        let store = store.overflow(sluicegate_memory::Overflow::Deny).build();
        let limiter = Limiter::new(store, Limit::new("api", ["token_bucket 0/s burst 5"]).unwrap());
        assert!(limiter.check("alice").now().unwrap().is_allowed());
        let denied = Denied::from(limiter.check("bob").now().unwrap());
        assert_eq!((denied.reason(), denied.policy().is_none()), (DeniedReason::StoreFull, true));
        assert_eq!(
            denied.to_string(),
            "limit `api` has no memory for the key: the embedded store is full"
        );
        let response: http::Response<String> = denied.to_response();
        assert_eq!(response.status(), 429);
        assert!(response.body().contains(r#""code":"store_full""#), "{}", response.body());
        assert!(!response.body().contains("violated"), "{}", response.body());
        assert_eq!(response.headers().get("retry-after"), None);
    }

    fn denied(spec: &str, cost: u64) -> Denied {
        let limit = Limit::new("api", ["gcra 100/s", spec]).unwrap();
        let limiter = Limiter::new(MemoryStore::new(), limit);
        let _ = limiter.charge(Ask::new("alice").cost(cost)).now().unwrap();
        Denied::from(limiter.check("alice").now().unwrap())
    }

    #[test]
    fn a_denial_names_the_policy_and_the_tiers_that_refused() {
        let of_the_hour = denied("sliding_log 5/s and 3/h and 9/d as log", 4);
        assert_eq!(of_the_hour.policy().unwrap().name().as_str(), "log");
        let refused: Vec<_> = of_the_hour.tiers().copied().collect();
        assert_eq!(refused, [LogTier { limit: 3, window: Duration::from_secs(3_600) }]);
        assert_eq!(of_the_hour.to_string(), "limit `api` is exhausted (3/h): retry in 1 h");
        let of_a_window = denied("fixed_window 3/h", 4);
        assert_eq!(of_a_window.policy().unwrap().name().as_str(), "fixed_window");
        assert_eq!(of_a_window.tiers().count(), 0);
        assert_eq!(of_a_window.to_string(), "limit `api` is exhausted: retry in 1 h");
    }

    #[test]
    fn a_denial_by_a_ban_says_so() {
        let ban: sluicegate_core::Ban = "1/min for 15min".parse().unwrap();
        let limit = Limit::new("login", ["gcra 1/s"]).unwrap().banning(ban);
        let limiter = Limiter::new(MemoryStore::new(), limit);
        let check = || Denied::unless_allowed(limiter.check("alice").now().unwrap());
        assert!(check().is_ok());
        let first = check().unwrap_err().to_string();
        assert_eq!(first, "limit `login` is exhausted: retry in 15 min");
        let denied = check().unwrap_err();
        assert!(denied.to_string().starts_with("limit `login` has banned the key: retry in 1"));
        assert_eq!(denied.problem().status(), 429);
        assert!(denied.problem().detail().starts_with("Too many requests were denied"));
        assert_eq!(denied.reason(), DeniedReason::Limited);
        assert!(limiter.unban("alice").now().unwrap().forgotten().unwrap());
        assert!(check().unwrap_err().policy().is_some());
    }

    #[test]
    fn an_id_that_was_used_for_another_request_is_the_clients_mistake() {
        let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", ["gcra 9/s"]).unwrap());
        let ask = |cost| limiter.check(Ask::new("alice").cost(cost).request_id("order-1")).now();
        assert!(ask(1).unwrap().is_allowed());
        let denied = Denied::from(ask(2).unwrap_err());
        assert_eq!(denied.reason(), DeniedReason::Conflict);
        assert_eq!(denied.problem().status(), 409);
        #[cfg(feature = "grpc")]
        assert_eq!(denied.grpc_status().code().number(), 6);
    }

    #[test]
    fn a_denial_that_waiting_does_not_resolve_says_what_would_pass() {
        let ask = |spec: &str, cost: u64| {
            let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", [spec]).unwrap());
            Denied::from(limiter.check(Ask::new("alice").cost(cost)).now().unwrap()).to_string()
        };
        assert_eq!(
            ask("gcra 5/s as pace", 6),
            "limit `api` never admits this cost: policy `pace` admits at most 5 per request"
        );
        for spec in ["fixed_window 0/h as none", "gcra 0/s as none", "smooth 0/s as none"] {
            assert_eq!(
                ask(spec, 1),
                "limit `api` admits nothing: policy `none` allows 0",
                "{spec}"
            );
        }
    }
}
