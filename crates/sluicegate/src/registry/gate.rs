//! One or several named limits as decided together.

mod acquire;
mod from_limiter;
mod keys;
mod look;
mod now;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Limit, Operation, Span};
use sluicegate_http::LimitFields;

use super::cell::Cell;
use super::prepared::Prepared;
use super::prepared::Shown;
use super::resolved::Resolved;
use super::route::{Purpose, Route};
use super::shared::Shared;
use super::target::Target;
use crate::ask::Ask;
use crate::limiter::Reservation;
use crate::observe::Answered;

pub use keys::{MissingKey, RequestKeys};
pub(crate) use look::Look;

/// One or several limits of a [`Registry`](super::Registry), by name, as decided together: what a
/// call site holds.
///
/// It follows the registry: what is switched or replaced there counts from the next call on, and
/// no call sees some of the old and some of the new. What isn't asked (a limit that is off, one
/// that nobody knows, a key on a list) is answered by a [bypass](crate::Source::Bypass); of several
/// limits the others are still decided all or nothing.
///
/// It has the verbs of a [`Limiter`](crate::Limiter), to `await` and at once. Cloning is cheap. A
/// call on a limit in an embedded store looks nothing up by name, waits for no lock of the registry
/// and allocates nothing.
///
/// ```
/// use sluicegate::{Ask, Config, Registry};
///
/// let config = "limits: {address: {policies: [gcra 10/s]}, account: {policies: [gcra 1/min]}}";
/// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
/// let login = registry.gate("address").and(registry.gate("account"));
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// let ask = || Ask::new("192.0.2.7").and(Ask::new("alice"));
/// assert!(login.check(ask()).await?.is_allowed());
/// assert!(login.check(ask()).await?.is_denied());
/// // The denied one took nothing of the address either.
/// let left = registry.gate("address").peek("192.0.2.7").await?.remaining();
/// assert_eq!(left, Some(9));
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct Gate {
    shared: Arc<Shared>,
    cell: Arc<Cell>,
}

impl Gate {
    pub(super) const fn new(shared: Arc<Shared>, cell: Arc<Cell>) -> Self {
        Self { shared, cell }
    }

    /// This and `other`, decided all or nothing, each about a key of its own
    /// ([`Ask::and`]). All limits of a gate have different names and are of one registry.
    #[expect(clippy::needless_pass_by_value, reason = "both become one, and read as such")]
    pub fn and(self, other: Self) -> Self {
        let targets: Vec<Target> =
            self.cell.targets().iter().chain(other.cell.targets()).cloned().collect();
        Self { shared: self.shared, cell: Arc::new(Cell::new(targets)) }
    }

    /// The same limits, of which clients are told what `shown` says.
    pub(crate) fn showing(&self, shown: Shown) -> Self {
        let cell = Cell::showing(self.cell.targets().into(), shown);
        Self { shared: Arc::clone(&self.shared), cell: Arc::new(cell) }
    }

    /// The name of the limit; of several, their names joined with ` + `.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cell.name()
    }

    /// How many limits it has.
    pub(crate) fn len(&self) -> usize {
        self.cell.targets().len()
    }

    /// The limits as they are now, for several questions about one request.
    pub(crate) fn look(&self) -> Look<'_> {
        Look { gate: self, resolved: self.resolved() }
    }

    /// The limit as it stands now, with its own numbers; of several, those that are in force as
    /// one. `None` when none is: they are off or unknown.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        let limiter = self.resolved().with_own_numbers()?.ok()?;
        Some(limiter.limit().clone())
    }

    /// Takes the cost, or is denied.
    ///
    /// # Errors
    /// Like [`Limiter::check`](crate::Limiter::check); also when the number of keys isn't that of
    /// the limits, and when limits that can't be decided together are: two of one name, too many
    /// policies, or those of two stores.
    pub fn check<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Check, ask.into())
    }

    /// [`Gate::check`] with the response fields that tell a client of the answer, as the
    /// configuration says; `None` when no limit was asked.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {api: {policies: [gcra 1/min burst 2 as steady]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let (decision, fields) = registry.gate("api").check_with_fields("alice").await?;
    /// let mut response = http::Response::new("hello");
    /// if let Some(fields) = fields {
    ///     fields.of(&decision).write(response.headers_mut());
    /// }
    /// assert_eq!(response.headers()["ratelimit"], "\"steady\";r=1;t=60");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn check_with_fields<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<(Decision, Option<LimitFields>), Error>> + Send {
        let ask = ask.into();
        async move { self.ask_and_tell(Operation::Check, &ask, fields).await }
    }

    /// Answers like [`Gate::check`], and charges and writes nothing.
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn peek<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Peek, ask.into())
    }

    /// Takes the cost now and says when to act, as [`Limiter::reserve`](crate::Limiter::reserve)
    /// does. What isn't asked is not reserved either, and acts at once.
    ///
    /// # Errors
    /// Like [`Limiter::reserve`](crate::Limiter::reserve) and [`Gate::check`].
    pub fn reserve<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> impl Future<Output = Result<Reservation, Error>> + Send {
        let (ask, within) = (ask.into(), within.into());
        async move {
            let resolved = Guard::into_inner(self.resolved());
            match resolved.route(&self.shared, &self.cell, &ask, Purpose::Admit)? {
                Route::Bypass { allowed, by } => {
                    let operation = Operation::Reserve { within };
                    let decision = bypassed(allowed, by, ask.key(), operation);
                    Ok(Reservation::of_nothing(decision))
                }
                Route::Ask(limiter, reduced) => {
                    limiter.book(reduced.as_ref().unwrap_or(&ask), within).await
                }
            }
        }
    }

    /// Takes as much as every policy admits, up to the cost: [`Decision::granted`] tells how much.
    /// A key that isn't asked about has nobody who counts: `granted` is 0, and an allowed one takes
    /// what it likes.
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn take_up_to<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::TakeUpTo, ask.into())
    }

    /// Takes the cost by force, into debt. This is for what was let in before: a key that is
    /// blocked meanwhile is charged all the same; one that isn't counted isn't.
    ///
    /// # Errors
    /// Like [`Limiter::charge`](crate::Limiter::charge) and [`Gate::check`].
    pub fn charge<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Charge, ask.into())
    }

    /// Gives the cost back, to no better than a fresh key's state; to a key that isn't counted
    /// nothing is given.
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn refund<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Refund, ask.into())
    }

    /// Forgets the key, whether or not it is on a list or the limit is on.
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn reset<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Reset, ask.into())
    }

    #[expect(clippy::manual_async_fn, reason = "an async fn keeps its arguments twice")]
    fn ask_owned(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        async move { self.ask(operation, &ask).await }
    }

    pub(crate) async fn ask(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, Error> {
        self.ask_and_tell(operation, ask, |_| ()).await.map(|(decision, _)| decision)
    }

    /// Asks, and reads something off the limiter that answered.
    pub(crate) async fn ask_and_tell<T>(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
        tell: fn(&Prepared) -> T,
    ) -> Result<(Decision, Option<T>), Error> {
        // Held as long as the answer takes: the store may be asked over a network.
        let resolved = Guard::into_inner(self.resolved());
        let (limiter, reduced) =
            match resolved.route(&self.shared, &self.cell, ask, purpose(operation))? {
                Route::Ask(limiter, reduced) => (limiter, reduced),
                Route::Bypass { allowed, by } => {
                    return Ok((bypassed(allowed, by, ask.key(), operation), None));
                }
            };
        let decision = limiter.ask(operation, reduced.as_ref().unwrap_or(ask)).await?;
        Ok((decision, Some(tell(&limiter))))
    }

    #[inline]
    fn resolved(&self) -> Guard<Arc<Resolved>> {
        self.shared.resolved(&self.cell)
    }
}

/// The response fields of a limiter's answers.
pub(crate) fn fields(prepared: &Prepared) -> LimitFields {
    prepared.fields().clone()
}

const fn purpose(operation: Operation) -> Purpose {
    match operation {
        Operation::Charge | Operation::Refund => Purpose::Settle,
        Operation::Reset => Purpose::Forget,
        _ => Purpose::Admit,
    }
}

/// What nobody is asked about, of which whoever observes the limit is told all the same.
fn bypassed(allowed: bool, by: Option<&Prepared>, key: &[u8], operation: Operation) -> Decision {
    let decision = Decision::bypass(allowed);
    if let Some(limiter) = by
        && let Some(since) = limiter.observers().start()
    {
        let (limit, outcome) = (limiter.limit(), Ok(&decision));
        let answered =
            Answered { limit, key, operation, outcome, failure: None, took: Duration::ZERO };
        limiter.observers().tell(since, &answered);
    }
    decision
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Registry};

    /// Whoever holds many requests in flight pays for each of these.
    #[test]
    fn futures_are_small() {
        let config = Config::parse("limits: {a: {policies: [gcra 1/s]}}", "limits.yaml").unwrap();
        let gate = Registry::open(&config).unwrap().gate("a");
        let (check, acquire) = (gate.check("k"), gate.acquire("k", Span::SECOND));
        assert!(size_of_val(&check) <= 1_024, "{}", size_of_val(&check));
        assert!(size_of_val(&acquire) <= 2_048, "{}", size_of_val(&acquire));
    }
}
