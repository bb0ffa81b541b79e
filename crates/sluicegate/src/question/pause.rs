//! Pauses and their ends.

use std::borrow::Cow;

use sluicegate_core::{Decision, Error, Limit, Operation, Span};

use super::{AboutKey, AtOnce, Found, Question, Refines, Target, Verb};
use crate::ask::{Ask, no_policy};

/// A pause of a key, or its end. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToPause<'a> {
    ask: Ask<'a>,
    /// The length of the pause; `None` to end pauses.
    lasts: Option<Span>,
    /// The name of the only policy that is meant.
    policy: Option<Cow<'a, str>>,
}

impl<'a> ToPause<'a> {
    pub(crate) const fn new(ask: Ask<'a>, lasts: Option<Span>) -> Self {
        Self { ask, lasts, policy: None }
    }

    /// Returns the operation without its policy, to find the limiter.
    fn plain(&self) -> Operation<'static> {
        operation(self.lasts, None)
    }

    /// Returns the operation for a limit.
    fn operation(&self, limit: &Limit) -> Result<Operation<'static>, Error> {
        let Some(policy) = &self.policy else { return Ok(self.plain()) };
        let index = limit.members().iter().position(|member| member.name().as_str() == policy);
        let index = index.and_then(|index| u8::try_from(index).ok());
        let index = index.ok_or_else(|| no_policy(limit, None, policy))?;
        Ok(operation(self.lasts, Some(index)))
    }
}

const fn operation(lasts: Option<Span>, policy: Option<u8>) -> Operation<'static> {
    match lasts {
        Some(lasts) => Operation::Pause { lasts, policy },
        None => Operation::Resume { policy },
    }
}

impl<T: Target> Verb<T> for ToPause<'_> {
    type Output = Decision;
    type Error = Error;

    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        target.at_once(self.plain(), &self.ask, |found| match found {
            Found::Limiter(limiter, ask) => match self.operation(limiter.limit()) {
                Ok(operation) => limiter.ask_at_once(operation, ask),
                Err(error) => Some(Err(error)),
            },
            Found::Nobody(decision) => Some(Ok(decision)),
        })
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        match target.find(self.plain(), &self.ask)? {
            Found::Limiter(limiter, reduced) => {
                let operation = self.operation(limiter.limit())?;
                limiter.ask(operation, reduced.as_ref().unwrap_or(&self.ask)).await
            }
            Found::Nobody(decision) => Ok(decision),
        }
    }
}

impl AtOnce for ToPause<'_> {}

impl AboutKey for ToPause<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        false
    }
}

impl<'a> Refines<'a> for ToPause<'a> {
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { ask: change(self.ask), ..self }
    }
}

impl<'k, T: Target> Question<'_, T, ToPause<'k>> {
    /// Pauses or resumes only the policy with this name. Default: the whole limit.
    ///
    /// Requests that cost nothing under that policy are still answered.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore};
    ///
    /// let policies = ["gcra 60/min as requests", "token_bucket 90000/min as tokens"];
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("llm", policies)?);
    /// let _ = limiter.pause("acme", Duration::from_secs(30)).policy("tokens").now()?;
    /// assert!(limiter.check("acme").cost_of("tokens", 400).now()?.is_denied());
    /// assert!(limiter.check("acme").cost_of("requests", 1).now()?.is_allowed());
    /// let error = limiter.pause("acme", Duration::from_secs(30)).policy("bytes").now().unwrap_err();
    /// assert_eq!(error.to_string(), "limit `llm` has no policy `bytes`: its policies are requests, tokens");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Invalid`](crate::error::RequestErrorKind::Invalid) if the limit has no such policy.
    pub fn policy(self, name: impl Into<Cow<'k, str>>) -> Self {
        self.map(|verb| ToPause { policy: Some(name.into()), ..verb })
    }
}
