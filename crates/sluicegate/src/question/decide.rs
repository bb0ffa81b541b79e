//! Requests for a decision.

use std::time::Duration;

use sluicegate_core::{Decision, Error, HoldId, Operation, Purpose};

use super::{AboutKey, AtOnce, Found, Question, Refines, Target, ToHold, Verb};
use crate::ask::Ask;
use crate::holding::Holding;

/// A check, a peek, a charge and so on. The answer is a [`Decision`].
#[derive(Clone, Debug)]
pub struct ToDecide<'a> {
    pub(super) operation: Operation<'static>,
    pub(super) ask: Ask<'a>,
}

impl<'a> ToDecide<'a> {
    #[inline]
    pub(crate) const fn new(operation: Operation<'static>, ask: Ask<'a>) -> Self {
        Self { operation, ask }
    }
}

impl<T: Target> Verb<T> for ToDecide<'_> {
    type Output = Decision;
    type Error = Error;

    #[inline]
    fn at_once(&self, target: &T) -> Option<Result<Self::Output, Self::Error>> {
        target.at_once(self.operation, &self.ask, |found| match found {
            Found::Limiter(limiter, ask) => limiter.ask_at_once(self.operation, ask),
            Found::Nobody(decision) => Some(Ok(decision)),
        })
    }

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        match target.find(self.operation, &self.ask)? {
            Found::Limiter(limiter, reduced) => {
                limiter.ask(self.operation, reduced.as_ref().unwrap_or(&self.ask)).await
            }
            Found::Nobody(decision) => Ok(decision),
        }
    }
}

impl AtOnce for ToDecide<'_> {}

impl<'a> Refines<'a> for ToDecide<'a> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { operation: self.operation, ask: change(self.ask) }
    }
}

impl<'a, 'k, T> Question<'a, T, ToDecide<'k>>
where
    ToDecide<'k>: Verb<T>,
    ToHold<'k>: Verb<T>,
{
    /// Holds the units of the request for `lasts`, 1 ms to a day, to be settled for the real usage.
    ///
    /// A check, a charge and [`take`](crate::Limiter::take) can hold. Units that are not
    /// [settled](crate::Limiter::settle) by then stay charged, unless the limit [returns](crate::policy::OnExpiry)
    /// them. If the store failed and the limiter allows everything then, or if no limit was asked, there is no hold:
    /// [`Grant::token`](crate::Grant::token) is `None`. A request that failed after it was sent may have been charged,
    /// and its token is lost. Give it [an id](Question::under) of your own to be able to settle it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore, Usage};
    /// use sluicegate::decision::HoldFound;
    ///
    /// let limit = sluicegate::Limit::new("llm", ["fixed_window 90000/h as tokens"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let grant = limiter.check("acme").cost(1_000).hold(Duration::from_secs(60)).now()?;
    /// assert_eq!(grant.remaining(), Some(89_000));
    /// let token = grant.token().expect("it is allowed");
    /// // Anybody who has the token can settle.
    /// let text = token.to_string();
    /// let settled = limiter.settle(&text.parse()?, Usage::of("tokens", 412)).now()?;
    /// assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    /// assert_eq!(settled.remaining(), Some(89_588));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Full`](crate::error::RequestErrorKind::Full) if the key has 65,536 holds. Returns
    /// [`Invalid`](crate::error::RequestErrorKind::Invalid) for a key that is too long for a
    /// [token](crate::decision::HoldToken::MAX_LEN), or for an operation that takes nothing.
    pub fn hold(self, lasts: Duration) -> Question<'a, T, ToHold<'k>> {
        self.holding(Holding::lasting(lasts))
    }

    /// Holds the units of the request according to `holding`, for a service whose callers choose that.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Config, Registry};
    /// use sluicegate::decision::Holding;
    ///
    /// let config = "limits: {jobs: {policies: [concurrency 2 hold 30s]}, api: {policies: [gcra 1/min burst 9]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let holding = Holding::as_needed();
    /// let grant = registry.gate("jobs").check("acme").holding(holding).now()?;
    /// assert_eq!(grant.hold().map(|hold| hold.lasts), Some(Duration::from_secs(30)));
    /// let grant = registry.gate("api").check("acme").holding(holding).now()?;
    /// assert!(grant.token().is_none(), "nothing is in flight, and nobody wanted it held");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn holding(self, holding: Holding) -> Question<'a, T, ToHold<'k>> {
        self.map(|ToDecide { operation, ask }| ToHold { operation, ask, holding })
    }
}

impl<'k, T> Question<'_, T, ToHold<'k>>
where
    ToHold<'k>: Verb<T>,
{
    /// Holds under an id that the caller makes: 128 bits that can't be guessed.
    ///
    /// If the answer is lost, a token of that id can be [made](crate::decision::HoldToken::new), to settle the units
    /// that may have been charged.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore, Usage};
    /// use sluicegate::decision::{HoldId, HoldToken};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("jobs", ["fixed_window 9/h"])?);
    /// let id = HoldId::from_bytes([7; 16]); // of random bytes
    /// let _lost = limiter.check("acme").hold(Duration::from_secs(60)).under(id).now();
    /// let token = HoldToken::new(id, [(limiter.limit().name().clone(), "acme")])?;
    /// assert_eq!(limiter.settle(&token, Usage::nothing()).now()?.remaining(), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Conflict`](crate::error::RequestErrorKind::Conflict) if the key has a hold with that id.
    pub fn under(self, id: HoldId) -> Self {
        self.map(|verb| ToHold { holding: verb.holding.under(id), ..verb })
    }
}

impl AboutKey for ToDecide<'_> {
    fn key(&self) -> Option<&[u8]> {
        Some(self.ask.key())
    }

    fn wants_admission(&self) -> bool {
        self.operation.purpose() == Purpose::Admit
    }
}
