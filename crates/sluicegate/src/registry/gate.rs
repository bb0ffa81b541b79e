//! One or several named limits as decided together.

mod acquire;
mod from_limiter;
mod keys;
#[cfg(any(feature = "actix", feature = "tower"))]
mod look;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use sluicegate_core::{Decision, Limit, Operation, StoreError};

use super::cell::{Cell, Target};
use super::resolved::Resolved;
use super::route::{Purpose, Route};
use super::shared::Shared;
use crate::any_store::AnyStore;
use crate::ask::Ask;
use crate::limiter::Limiter;
use crate::observe::Answered;
use crate::ruling::Ruling;

pub use keys::{MissingKey, RequestKeys};
#[cfg(any(feature = "actix", feature = "tower"))]
pub(crate) use look::Look;

/// One or several limits of a [`Registry`](super::Registry), by name, as decided together: what a
/// call site holds.
///
/// It follows the registry: what is switched or replaced there counts from the next call on, and
/// no call sees some of the old and some of the new. What isn't asked (a limit that is off, one
/// that nobody knows, a key on a list) is answered by a [`Ruling::bypass`]; of several limits the
/// others are still decided all or nothing.
///
/// Cloning is cheap. A call on a limit in an embedded store looks nothing up by name, waits for no
/// lock of the registry and allocates nothing.
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

    /// The name of the limit; of several, their names joined with ` + `.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cell.name()
    }

    /// How many limits it has.
    #[cfg(any(feature = "actix", feature = "tower"))]
    pub(crate) fn len(&self) -> usize {
        self.cell.targets().len()
    }

    /// The limits as they are now, for several questions about one request.
    #[cfg(any(feature = "actix", feature = "tower"))]
    pub(crate) fn look(&self) -> Look<'_> {
        Look { gate: self, resolved: self.resolved() }
    }

    /// The limit as it stands now, with its own numbers; of several, those that are in force as
    /// one. `None` when none is: they are off or unknown.
    #[must_use]
    pub fn limit(&self) -> Option<Arc<Limit>> {
        let limiter = self.resolved().with_own_numbers()?.ok()?;
        Some(Arc::clone(limiter.shared_limit()))
    }

    /// Takes the cost, or is denied.
    ///
    /// # Errors
    /// Like [`Limiter::check`]; also when the number of keys isn't that of the limits, and when
    /// limits that can't be decided together are: two of one name, or too many policies.
    pub fn check<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Ruling, StoreError>> + Send {
        self.ask(Operation::Check, ask.into())
    }

    /// [`Gate::check`] at once, if the store can answer without waiting for anything; `None` when
    /// it can't, and then nothing was asked.
    pub fn check_at_once<'a>(&self, ask: impl Into<Ask<'a>>) -> Option<Result<Ruling, StoreError>> {
        self.ask_at_once(Operation::Check, ask.into())
    }

    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> Option<Result<Ruling, StoreError>> {
        self.ask_now(&self.resolved(), operation, ask)
    }

    #[inline]
    fn ask_now(
        &self,
        resolved: &Resolved,
        operation: Operation,
        ask: Ask<'_>,
    ) -> Option<Result<Ruling, StoreError>> {
        // The way of most requests: it spares the moves of the other.
        if let Some(limiter) = resolved.plain_for(&ask) {
            return ruled_at_once(limiter, operation, &ask);
        }
        let key = ask.key();
        match resolved.route(&self.shared, &self.cell, ask, purpose(operation)) {
            Ok(Route::Bypass { allowed, by }) => Some(Ok(bypassed(allowed, by, key, operation))),
            Ok(Route::Ask(limiter, ask)) => ruled_at_once(&limiter, operation, &ask),
            Err(error) => Some(Err(error)),
        }
    }

    /// Answers like [`Gate::check`], and charges and writes nothing.
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn peek<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Ruling, StoreError>> + Send {
        self.ask(Operation::Peek, ask.into())
    }

    /// Takes the cost by force, into debt. This is for what was let in before: a key that is
    /// blocked meanwhile is charged all the same; one that isn't counted isn't.
    ///
    /// # Errors
    /// Like [`Limiter::charge`] and [`Gate::check`].
    pub fn charge<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Ruling, StoreError>> + Send {
        self.ask(Operation::Charge, ask.into())
    }

    /// Gives the cost back, to no better than a fresh key's state; to a key that isn't counted
    /// nothing is given.
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn refund<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Ruling, StoreError>> + Send {
        self.ask(Operation::Refund, ask.into())
    }

    /// Forgets the key, whether or not it is on a list or the limit is on.
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn reset<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Ruling, StoreError>> + Send {
        self.ask(Operation::Reset, ask.into())
    }

    pub(crate) async fn ask(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> Result<Ruling, StoreError> {
        // Held as long as the answer takes: the store may be asked over a network.
        let resolved = Guard::into_inner(self.resolved());
        let key = ask.key();
        match resolved.route(&self.shared, &self.cell, ask, purpose(operation))? {
            Route::Bypass { allowed, by } => Ok(bypassed(allowed, by, key, operation)),
            Route::Ask(limiter, ask) => Ok(ruled(limiter.ask(operation, ask).await?, &limiter)),
        }
    }

    #[inline]
    fn resolved(&self) -> Guard<Arc<Resolved>> {
        self.shared.resolved(&self.cell)
    }
}

const fn purpose(operation: Operation) -> Purpose {
    match operation {
        Operation::Charge | Operation::Refund => Purpose::Settle,
        Operation::Reset => Purpose::Forget,
        _ => Purpose::Admit,
    }
}

/// What nobody is asked about, of which whoever observes the limit is told all the same.
fn bypassed(
    allowed: bool,
    by: Option<&Limiter<AnyStore>>,
    key: &[u8],
    operation: Operation,
) -> Ruling {
    let ruling = Ruling::bypass(allowed);
    if let Some(limiter) = by
        && let Some(since) = limiter.observers().start()
    {
        let (limit, outcome) = (limiter.limit(), Ok(ruling.decision()));
        let answered =
            Answered { limit, key, operation, outcome, failure: None, took: Duration::ZERO };
        limiter.observers().tell(since, &answered);
    }
    ruling
}

#[inline]
fn ruled_at_once(
    limiter: &Limiter<AnyStore>,
    operation: Operation,
    ask: &Ask<'_>,
) -> Option<Result<Ruling, StoreError>> {
    // In one step: each `?` or `map` on the way is one more move of the decision.
    match limiter.ask_at_once(operation, ask) {
        Some(Ok(decision)) => Some(Ok(ruled(decision, limiter))),
        Some(Err(error)) => Some(Err(error)),
        None => None,
    }
}

#[inline]
fn ruled(decision: Decision, limiter: &Limiter<AnyStore>) -> Ruling {
    Ruling::new(decision, Arc::clone(limiter.shared_limit()))
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("name", &self.name()).finish_non_exhaustive()
    }
}
