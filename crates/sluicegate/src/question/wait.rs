//! Requests that wait for a turn, under one deadline.

use std::time::Duration;

use sluicegate_core::{Decision, Error, Operation, Span};
use tokio::time::Instant;

use super::enforce::enforced;
use super::{
    AboutKey, Found, Question, Refines, State, Target, ToDecide, ToEnforce, ToHold, Verb,
    sent_before,
};
use crate::allowed::Allowed;
use crate::ask::Ask;
use crate::denied::Denied;
use crate::grant::Grant;
use crate::holding::Holding;
use crate::jitter::Jitter;
use crate::limiter::{Turn, Waited, end_of, no_pass, unsupported};
use crate::permit::Pauses;

/// A request that waits for its turn.
#[derive(Clone, Debug)]
pub struct Within<V> {
    verb: V,
    wait: Wait,
}

/// The terms of a request's wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    longest: Span,
    jitter: Jitter,
}

impl Wait {
    /// Returns a wait of up to `longest`, without jitter.
    pub(crate) fn of(longest: Span) -> Self {
        Self { longest, jitter: Jitter::default() }
    }
}

/// A verb whose request can wait.
pub trait WaitsFor {}

impl WaitsFor for ToDecide<'_> {}
impl WaitsFor for ToEnforce<'_> {}
impl WaitsFor for ToHold<'_> {}

impl<'a, T, V: Verb<T> + WaitsFor> Question<'a, T, V>
where
    Within<V>: Verb<T>,
{
    /// Waits for the units, at most `longest` in total: from zero, which doesn't wait, to 30 years. A longer time counts
    /// as 30 years.
    ///
    /// - A limit that supports [reservations](crate::Limit::can_reserve) queues its callers: each gets its own instant,
    ///   first come, first served.
    /// - A limit with a [queue](crate::policy::Queue) of permits queues callers that [hold](Question::hold) their
    ///   units: the highest [priority](Question::priority) first, then first come, first served. A waiter that crashes
    ///   loses its position 5 s after its last request. A waiter whose future is dropped leaves the queue, in the
    ///   background.
    /// - Other limits are retried after the retry-after of the denial, and when the configuration changes.
    ///
    /// A request is denied immediately if its wait would never end, or not in time. `longest` covers the waiting. Calls
    /// to the store, and connecting to it, have the store's own deadline. A store that can't be reached or is
    /// overloaded, so that nothing was charged, is called again until `longest` has passed. A limit can have another
    /// answer for that ([`OnStoreFailure`](crate::OnStoreFailure)).
    ///
    /// A future that is dropped while it waits for its instant gives its units back, if no request was charged since.
    /// Otherwise its turn passes to the next caller that reserves. A future that is dropped during a call to the store
    /// may have taken units, which count as used.
    ///
    /// In a tokio runtime, which needs time enabled, its clock counts. Outside of one, a wait for an embedded store works
    /// in every executor: a thread of the library has the timers.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("mail", ["gcra 1/s"])?);
    /// for _ in 0..3 {
    ///     assert!(limiter.check("smtp").within(Duration::from_secs(5)).await?.is_allowed());
    /// }
    /// let denied = limiter.check("smtp").within(Duration::from_millis(1)).await?;
    /// assert!(denied.is_denied(), "its turn doesn't come in time");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Unsupported`](crate::error::RequestErrorKind::Unsupported) for an operation other than a check and for
    /// a request with a time of its own. The same holds for a limit that combines a shaper with policies that don't
    /// support reservations, because that wait has no bound.
    pub fn within(self, longest: Duration) -> Question<'a, T, Within<V>> {
        self.map(|verb| Within { verb, wait: Wait::of(longest.into()) })
    }
}

impl<T: Target, V: WaitsFor> Question<'_, T, Within<V>>
where
    Within<V>: Verb<T>,
{
    /// Delays each retry, and the instant of a turn, by a random time of up to `longest`. Default: zero.
    ///
    /// So callers that wait for the same instant spread out.
    ///
    /// The caller never acts before its turn, or after the end of its wait. So a `longest` beyond the wait counts as the
    /// rest of the wait. A request that passes immediately isn't delayed. Neither is one in a
    /// [queue](crate::policy::Queue) of permits, whose waiters are notified one after the other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?.block_on(async {
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("mail", ["gcra 1/s"])?);
    /// for _ in 0..2 {
    ///     let wait = limiter.check("smtp").within(Duration::from_secs(5)).jitter(Duration::from_millis(200));
    ///     assert!(wait.await?.is_allowed(), "the second one: up to 200 ms after its turn");
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn jitter(self, longest: Duration) -> Self {
        self.map(|mut within| {
            within.wait.jitter = Jitter::of(longest.into());
            within
        })
    }
}

impl<'a, 'k, T> Question<'a, T, Within<ToDecide<'k>>>
where
    Within<ToDecide<'k>>: Verb<T>,
    Within<ToHold<'k>>: Verb<T>,
{
    /// Holds the units of the request for `lasts`, 1 ms to a day, to be settled for the real usage. See
    /// [`hold`](Question::hold).
    pub fn hold(self, lasts: Duration) -> Question<'a, T, Within<ToHold<'k>>> {
        self.map(|Within { verb: ToDecide { operation, ask }, wait }| Within {
            verb: ToHold { operation, ask, holding: Holding::lasting(lasts) },
            wait,
        })
    }
}

impl<T: Target> Question<'_, T, Within<ToHold<'_>>> {
    /// Waits, and calls the store only while it has a pass. This is for a service that limits the number of concurrent
    /// calls to the store.
    ///
    /// `pass` is awaited before each call to the store, and its result is dropped when the store has answered. So a
    /// request that waits for its turn has no pass. The time continues while `pass` is awaited.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Config, Error, Registry};
    /// use sluicegate::decision::Holding;
    ///
    /// let config = "limits: {mail: {policies: [gcra 20/s]}}";
    /// let mail = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("mail");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
    /// let passes = tokio::sync::Semaphore::new(8);
    /// let pass = async || Ok::<_, Error>(passes.acquire().await.ok());
    /// let waiting = mail.check("smtp").holding(Holding::as_needed()).within(Duration::from_secs(1));
    /// assert!(waiting.passing(pass).await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of awaiting the request, and those of `pass`.
    pub async fn passing<P, F, E>(self, pass: impl Fn() -> F) -> Result<Grant, E>
    where
        F: Future<Output = Result<P, E>>,
        E: From<Error>,
    {
        let (target, Within { verb, wait: how }) = match self.0 {
            State::Unasked(target, verb) => (target, verb),
            State::Refused(error) => return Err(error.into()),
            State::Waiting(_) | State::Sent => return Err(sent_before().into()),
        };
        refuse_other_operations(verb.operation)?;
        wait(target.get(), &verb.ask, how, Some(verb.holding), pass).await
    }
}

impl<T: Target> Verb<T> for Within<ToDecide<'_>> {
    type Output = Decision;
    type Error = Error;

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let Self { verb: ToDecide { operation, ask }, wait: how } = self;
        refuse_other_operations(operation)?;
        wait(target, &ask, how, None, no_pass).await.map(Grant::into_decision)
    }
}

impl<T: Target> Verb<T> for Within<ToEnforce<'_>> {
    type Output = Allowed;
    type Error = Denied;

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let Self { verb: ToEnforce(verb), wait } = self;
        enforced(target, Within { verb, wait }.later(target).await)
    }
}

impl<T: Target> Verb<T> for Within<ToHold<'_>> {
    type Output = Grant;
    type Error = Error;

    async fn later(self, target: &T) -> Result<Self::Output, Self::Error> {
        let Self { verb, wait: how } = self;
        refuse_other_operations(verb.operation)?;
        wait(target, &verb.ask, how, Some(verb.holding), no_pass).await
    }
}

impl<'a, V: Refines<'a>> Refines<'a> for Within<V> {
    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self {
        Self { verb: self.verb.refine(change), ..self }
    }
}

/// Waits for a turn, and holds it according to `holding`. `pass` is awaited before each call to the store, and its
/// result is dropped when the store has answered.
pub(crate) async fn wait<T: Target, P, F, E>(
    target: &T,
    ask: &Ask<'_>,
    Wait { longest, jitter }: Wait,
    holding: Option<Holding>,
    pass: impl Fn() -> F,
) -> Result<Grant, E>
where
    F: Future<Output = Result<P, E>>,
    E: From<Error>,
{
    let since = Instant::now();
    let end = end_of(longest);
    let mut pauses = Pauses::until(end);
    let mut numbers = target.new_numbers();
    let (limiter, grant) = loop {
        numbers.mark_seen();
        let (limiter, reduced) = match target.find(Operation::Check, ask)? {
            Found::Limiter(limiter, reduced) => (limiter, reduced),
            Found::Nobody(decision) => return Ok(Grant::of_nothing(decision)),
        };
        let ask = reduced.as_ref().unwrap_or(ask);
        if let Some(holding) = holding.filter(|_| !longest.is_zero())
            && let Some(hold) = limiter.hold_in_queue(ask, holding)?
        {
            // Boxed because it is rare and large.
            let waited = Box::pin(limiter.queue(ask, hold, end, pass)).await?;
            let Waited { decision, token, .. } = waited;
            break (limiter, Grant::new(decision, token));
        }
        let passed = pass().await?;
        let asked = limiter.ask_for_turn(ask, end, holding).await;
        drop(passed);
        let next = match asked {
            Ok(Turn::Held(grant)) => break (limiter, grant),
            Ok(Turn::Final(decision)) => break (limiter, Grant::of_nothing(decision)),
            Ok(Turn::Later(decision, turn)) => {
                let booked = Instant::now() + decision.wait();
                turn.come(jitter.after(booked, end)).await;
                break (limiter, Grant::of_nothing(decision));
            }
            Ok(Turn::Again(next)) => next,
            Err(error) => match pauses.after_error(&error) {
                Some(next) => next,
                None => return Err(error.into()),
            },
        };
        numbers.wait_until(jitter.after(next, end)).await;
    };
    if !longest.is_zero() {
        limiter.observers().tell_waited(limiter.limit(), since);
    }
    Ok(grant)
}

fn refuse_other_operations(operation: Operation<'_>) -> Result<(), Error> {
    if operation == Operation::Check {
        return Ok(());
    }
    Err(unsupported("only a check can wait for its turn: leave out `within`".to_owned()))
}

impl<V: AboutKey> AboutKey for Within<V> {
    fn key(&self) -> Option<&[u8]> {
        self.verb.key()
    }

    fn wants_admission(&self) -> bool {
        self.verb.wants_admission()
    }
}
