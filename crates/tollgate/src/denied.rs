//! A request that was turned away, as an error.

use std::error::Error;
use std::fmt;

use tollgate_core::{RetryAfter, Source, StoreError};

use crate::ruling::Ruling;

/// A request that was turned away: what a limited function returns in place of its result.
///
/// A denial is an answer, not a failure; this is for where only an error can be returned. One that
/// came from a failing store says so ([`Denied::reason`]) and has the store's error as its source.
///
/// ```
/// use tollgate::{Denied, Limiter, MemoryStore, Ruling};
///
/// let limit = tollgate::limit("sms", ["fixed_window 1/min"])?;
/// let limiter = Limiter::new(MemoryStore::builder().build(), limit.clone());
/// let ask = || Ok::<_, Box<dyn std::error::Error>>(Ruling::new(limiter.try_check("alice")?, limit.clone().into()));
/// assert!(ask()?.or_denied().is_ok());
/// let denied: Denied = ask()?.or_denied().unwrap_err();
/// assert_eq!(denied.to_string(), "limit `sms` is exhausted: retry in 60 s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Denied(Inner);

#[derive(Clone, Debug)]
enum Inner {
    Ruled(Box<Ruling>),
    NoKey { limit: String },
    Failed { limit: String, error: StoreError },
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
    /// A request that has nothing to make the key of `limit` from.
    #[must_use]
    pub fn no_key(limit: &str) -> Self {
        Self(Inner::NoKey { limit: limit.to_owned() })
    }

    /// A request that `limit` could not answer because its store failed.
    #[must_use]
    pub fn failed(limit: &str, error: StoreError) -> Self {
        Self(Inner::Failed { limit: limit.to_owned(), error })
    }

    /// Why.
    #[must_use]
    pub fn reason(&self) -> DeniedReason {
        match &self.0 {
            Inner::Ruled(ruling) => match ruling.source() {
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
        self.ruling().map_or(RetryAfter::Never, |ruling| ruling.retry_after())
    }

    /// The decision with its limit; `None` when there was none.
    #[must_use]
    pub fn ruling(&self) -> Option<&Ruling> {
        if let Inner::Ruled(ruling) = &self.0 { Some(ruling) } else { None }
    }

    /// What the store failed with, where that is why.
    #[must_use]
    pub fn store_error(&self) -> Option<&StoreError> {
        if let Inner::Failed { error, .. } = &self.0 { Some(error) } else { None }
    }
}

impl From<Ruling> for Denied {
    fn from(ruling: Ruling) -> Self {
        Self(Inner::Ruled(Box::new(ruling)))
    }
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ruling = match &self.0 {
            Inner::NoKey { limit } => {
                return write!(
                    f,
                    "the request has nothing to make the key of limit `{limit}` from"
                );
            }
            Inner::Failed { limit, error } => {
                return write!(f, "limit `{limit}` can't be asked: {error}");
            }
            Inner::Ruled(ruling) => ruling,
        };
        let Some(limit) = ruling.limit() else {
            return f.write_str("the key is blocked");
        };
        let name = ruling
            .binding()
            .and_then(|index| limit.members().get(index))
            .and_then(|member| limit.parts().get(member.part()))
            .unwrap_or_else(|| limit.name());
        match (ruling.source(), ruling.retry_after()) {
            (Source::Fallback, _) => {
                write!(f, "limit `{name}` can't be asked and denies everything then")
            }
            (_, RetryAfter::After(retry)) => {
                write!(f, "limit `{name}` is exhausted: retry in {} s", retry.as_secs_ceil())
            }
            _ => write!(f, "limit `{name}` never admits this much at once"),
        }
    }
}

impl Error for Denied {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.store_error().map(|error| error as &(dyn Error + 'static))
    }
}
