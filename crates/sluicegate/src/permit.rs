//! Permits: what is in flight, held for as long as a value lives.

mod held;
mod jitter;
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

/// The decision on a request that is in flight for as long as this value lives. Made by
/// [`Limiter::permit`](crate::Limiter::permit) and [`Gate::permit`](crate::Gate::permit).
///
/// It dereferences to its [`Decision`]: **look whether it is allowed**. What an allowed one took of a
/// policy [`concurrency`](crate::Policy::concurrency) is in flight until the permit is dropped, be it by a
/// panic or because its task was cancelled. What it took of other policies stays charged, unless it
/// is [settled](Permit::settle).
///
/// - *It renews itself*, each time a quarter to a third of its hold has passed, until its [maximum
///   life](crate::question::Question::max_life) is over. One task renews all permits of a runtime, those that are due at
///   about the same time together.
/// - *It may be lost*: because the store couldn't be reached for as long as the hold lasts, because
///   somebody has [reset](crate::Limiter::reset) the key, or because its maximum life is over. From then on
///   others may be in flight in its place, so what it protects should end: see [`Permit::lost`].
/// - *Dropping never waits.* A store that answers at once, such as the embedded one, has the units
///   back at once; to another one the release is sent by a task, which repeats it until the hold would
///   have ended by itself. A program that ends right after [settles](Permit::settle) it instead, since
///   tasks end with it.
///
/// Tasks run in the tokio runtime that the permit was asked for in, which needs time enabled. Without one it isn't
/// renewed, and a store over a network has its units back when the hold ends.
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

    /// The decision.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Whether it is no longer sure that its units are in flight: the store has said so, or the hold
    /// ends by now by this machine's clocks, counted from when it was last asked for. Once true, it
    /// stays so. Never of a permit that holds nothing, because it was denied, or because a fallback, a
    /// list or a switch allowed it.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.held.is_lost()
    }

    /// Waits until the permit [is lost](Permit::is_lost): for ever if it holds nothing.
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

    /// Releases the permit, and settles what it took of other policies for what was used, like
    /// [`Limiter::settle`](crate::Limiter::settle). `None` if it holds nothing. If that fails, the permit is
    /// released in the background, as if it were dropped; the same holds for a future that is dropped.
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
    /// Like [`Limiter::settle`](crate::Limiter::settle).
    pub async fn settle(self, usage: Usage<'_>) -> Result<Option<Decision>, Error> {
        self.held.settle(usage).await
    }

    /// The token of what it holds, by which that can be settled elsewhere; `None` if it holds nothing.
    #[must_use]
    pub fn token(&self) -> Option<&HoldToken> {
        self.held.token()
    }

    /// The token alone, for somebody else who keeps and settles it: nothing is renewed or released
    /// here any more.
    #[must_use]
    pub fn into_token(self) -> Option<HoldToken> {
        self.held.into_token()
    }

    /// The decision of a permit that holds nothing.
    pub(crate) fn into_decision(self) -> Decision {
        self.decision
    }

    /// Settles it without waiting for the store.
    pub(crate) fn settle_in_background(self, usage: Usage<'static>) {
        self.held.settle_in_background(usage);
    }

    /// What can be waited for without holding it.
    pub(crate) fn watch(&self) -> Option<Watch> {
        self.held.watch()
    }

    /// The decision, and what is held.
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
