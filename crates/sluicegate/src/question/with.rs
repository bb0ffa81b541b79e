//! Numbers that come with a request.

use sluicegate_core::{Error, IntoPolicy, LimitError, Policy, RequestError, RequestErrorKind};

use super::{Asked, Question, State, Target, Verb};

/// A target that decides with other numbers under the name of its limit: a limiter, or a gate of one limit.
pub trait WithNumbers: Target {
    /// Returns the name of the limit.
    fn limit_name(&self) -> &str;

    /// Returns the limit with these policies instead of its own. Equal policies give one limit.
    fn with_numbers(&self, policies: Vec<Policy>) -> Result<Self, Error>;

    /// Returns whether the answer to a request for admission is known without numbers.
    ///
    /// This is the case if the limit is off or the key is on a list.
    fn needs_no_numbers(&self, key: &[u8]) -> bool;
}

impl<T: WithNumbers, V: Verb<T>> Question<'_, T, V> {
    /// Decides with these policies instead of the limit's own, for a caller that has the numbers at hand.
    ///
    /// The name of the limit and its other settings stay: bans, lists, switches and the answer when the store fails.
    /// Units are counted under the name of the limit, the policy's name, its algorithm and its window. So a key that
    /// gets other numbers keeps the units that it has used. Requests with equal policies share one opened limit. A
    /// limit keeps the 10,000 sets of policies that were used last.
    ///
    /// Settle a hold [with](Self::with) the policies of its request. A [`Permit`](crate::Permit) does so by itself.
    ///
    /// ```
    /// use sluicegate::{Limit, Limiter, MemoryStore, Policy, Rate};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), Limit::new("api", ["token_bucket 5/h burst 10"])?);
    /// let plan = Policy::token_bucket(Rate::per_hour(50), 100)?;
    /// assert_eq!(limiter.check("acme").with([plan]).now()?.remaining(), Some(99));
    /// // The customer gets another plan, and has used a unit of it.
    /// assert_eq!(limiter.check("acme").with(["token_bucket 500/h burst 1000"]).now()?.remaining(), Some(998));
    ///
    /// let error = limiter.check("acme").with(["token_bucket 500/m"]).now().unwrap_err();
    /// assert!(error.to_string().starts_with("limit `api`: `m` is ambiguous: write `min`"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The ending returns [`Invalid`](crate::error::RequestErrorKind::Invalid) for policies that form no limit, and
    /// [`Unsupported`](crate::error::RequestErrorKind::Unsupported) if the target is several limits that are decided
    /// together. No request is sent then.
    pub fn with<P: IntoPolicy>(self, policies: impl IntoIterator<Item = P>) -> Self {
        let (target, verb) = match self.0 {
            State::Unasked(target, verb) => (target, verb),
            sent_or_refused => return Self(sent_or_refused),
        };
        let numbers = policies_of(target.get().limit_name(), policies);
        match numbers.and_then(|numbers| target.get().with_numbers(numbers)) {
            Ok(target) => Self(State::Unasked(Asked::WithNumbers(target), verb)),
            Err(error) => Self(State::Refused(error)),
        }
    }
}

/// Returns policies for the limit `name`.
pub(crate) fn policies_of<P: IntoPolicy>(
    name: &str,
    policies: impl IntoIterator<Item = P>,
) -> Result<Vec<Policy>, Error> {
    let policies: Result<_, _> = policies.into_iter().map(IntoPolicy::into_policy).collect();
    policies.map_err(|error| no_limit(name, &error.into()))
}

/// Returns the error of numbers that form no limit.
#[cold]
pub(crate) fn no_limit(name: &str, error: &LimitError) -> Error {
    RequestError::new(RequestErrorKind::Invalid, format!("limit `{name}`: {error}")).into()
}

/// Returns the error of numbers for several limits.
#[cold]
pub(crate) fn numbers_for_several(name: &str) -> Error {
    let message = format!(
        "`{name}` are limits that are decided together: give numbers to each, and join the gates of the limits"
    );
    RequestError::new(RequestErrorKind::Unsupported, message).into()
}
