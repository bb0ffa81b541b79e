//! Permits: requests in flight, held until a value is dropped.

mod held;
mod keeper;
mod kept;
mod moment;
mod pauses;
mod renewer;
mod terms;
mod unanswered;

use std::fmt;
use std::ops::Deref;

use sluicegate_core::{Decision, Error, HoldToken};

use crate::usage::Usage;

pub(crate) use held::{Held, Watch};
pub(crate) use keeper::Keeper;
pub(crate) use moment::Moment;
pub(crate) use pauses::Pauses;
pub(crate) use terms::Terms;
pub(crate) use unanswered::Unanswered;

/// The decision on a request that is in flight until this value is dropped.
///
/// [`Limiter::permit`](crate::Limiter::permit) and [`Gate::permit`](crate::Gate::permit) make it. It dereferences to
/// its [`Decision`]: **check whether it is allowed**. An allowed permit's units of a policy
/// [`concurrency`](crate::Policy::concurrency) are in flight until the permit is dropped. A panic and the cancellation
/// of its task drop it too. Its units of other policies stay charged, unless it is [settled](Permit::settle).
///
/// - *It renews itself*, each time a quarter to a third of its hold has passed, until its [maximum
///   life](crate::question::Question::max_life) has ended. One task renews all permits of a runtime. It renews those
///   that are due at about the same time together.
/// - *It may be lost*. The store couldn't be reached for the duration of the hold, the key was
///   [reset](crate::Limiter::reset), or its maximum life has ended. From then on other requests may be in flight in its
///   place, so the protected work should end: see [`Permit::lost`].
/// - *Dropping never waits.* A store that answers immediately, such as the embedded one, gets the units back
///   immediately. For another store a task sends the release, and repeats it until the hold would have expired. Tasks
///   end with the program, so a program that is about to exit [settles](Permit::settle) the permit instead.
///
/// Tasks run in the tokio runtime in which the permit was requested, which needs time enabled. Outside of a runtime they
/// run in a thread of the library. The tasks of a runtime that has ended renew and release nothing. Then the units return when the
/// hold expires.
///
/// ```
/// use sluicegate::{Limiter, MemoryStore};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limit = sluicegate::Limit::new("export", ["concurrency 1 hold 30s"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// let permit = limiter.permit("acme").await?;
/// assert!(permit.is_allowed());
/// assert!(limiter.permit("acme").await?.is_denied(), "one is in flight");
/// drop(permit);
/// assert!(limiter.permit("acme").await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a permit that is dropped is released"]
pub struct Permit {
    decision: Decision,
    held: Held,
}

impl Permit {
    pub(crate) const fn new(decision: Decision, held: Held) -> Self {
        Self { decision, held }
    }

    /// Returns the decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Returns whether its units may no longer be in flight.
    ///
    /// The store has reported it, or the hold has expired by this machine's clocks, counted from its request or last
    /// renewal. Once `true`, it stays `true`. It is never `true` for a permit that holds nothing. Such a permit was
    /// denied, or a fallback, a list or a switch allowed it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Waits until the permit [is lost](Permit::is_lost). Never returns if the permit holds nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// let limit = sluicegate::Limit::new("export", ["concurrency 1 hold 30s"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// let permit = limiter.permit("acme").await?;
    /// let work = tokio::time::sleep(Duration::from_secs(3_600));
    /// limiter.reset("acme").await?;
    /// let is_done = tokio::select! {
    ///     () = work => true,
    ///     () = permit.lost() => false,
    /// };
    /// assert!(!is_done && permit.is_lost());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn lost(&self) {
        self.held.lost().await;
    }

    /// Releases the permit, and settles its units of other policies for the real usage, like
    /// [`Limiter::settle`](crate::Limiter::settle).
    ///
    /// Returns `None` if it holds nothing. If the settlement fails, or if the future is dropped, the permit is released
    /// in the background, as if it were dropped.
    ///
    /// ```
    /// use sluicegate::{Ask, Limiter, MemoryStore, Usage};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let specs = ["concurrency 4 hold 30s as calls", "fixed_window 9000/h as tokens"];
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("llm", specs)?);
    /// let estimate = Ask::new("acme").cost_of("calls", 1).cost_of("tokens", 1_000);
    /// let permit = limiter.permit(estimate).await?;
    /// let settled = permit.settle(Usage::of("tokens", 412)).await?.expect("it holds something");
    /// let left = |policy| settled.outcome(policy).and_then(|outcome| outcome.remaining());
    /// assert_eq!((left("calls"), left("tokens")), (Some(4), Some(8_588)));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Limiter::settle`](crate::Limiter::settle).
    pub async fn settle(self, usage: Usage<'_>) -> Result<Option<Decision>, Error> {
        self.held.settle(usage).await
    }

    /// Returns the token of its hold, which any process can settle; `None` if it holds nothing.
    #[must_use]
    pub fn token(&self) -> Option<&HoldToken> {
        self.held.token()
    }

    /// Returns the token alone, for another owner that keeps and settles it. The permit no longer renews or releases
    /// anything.
    #[must_use]
    pub fn into_token(self) -> Option<HoldToken> {
        self.held.into_token()
    }

    /// Returns the decision of a permit that holds nothing.
    pub(crate) fn into_decision(self) -> Decision {
        self.decision
    }

    /// Settles the permit without waiting for the store.
    pub(crate) fn settle_in_background(self, usage: Usage<'static>) {
        self.held.settle_in_background(usage);
    }

    /// Returns a value that waits for the loss of the hold, without holding it.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.held.watch()
    }

    /// Returns the decision and the hold.
    #[cfg(feature = "macros")]
    pub(crate) fn into_held(self) -> (Decision, Held) {
        (self.decision, self.held)
    }
}

impl Deref for Permit {
    type Target = Decision;

    fn deref(&self) -> &Decision {
        &self.decision
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("decision", &self.decision)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}
