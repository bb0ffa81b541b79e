//! One or several named limits, decided together.

mod acquire;
mod bans;
mod enforce;
mod from_limiter;
mod give_back;
mod hold;
mod holders;
mod join;
mod keys;
mod look;
mod now;
mod permit;
mod settle;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Limit, Operation, Span};
use sluicegate_http::LimitFields;

use super::gate_cache::GateCache;
use super::limiter_with_fields::LimiterWithFields;
use super::limiter_with_fields::Shown;
use super::purpose::Purpose;
use super::resolved::Resolved;
use super::route::Route;
use super::shared::Shared;
use crate::ask::Ask;
use crate::limiter::Reservation;
use crate::uses::Uses;

pub use join::JoinError;
pub use keys::{MissingKey, RequestKeys};
pub(crate) use look::Look;

/// One or several limits of a [`Registry`](super::Registry), by name, decided together. A call site
/// holds it.
///
/// It follows the registry: a switch or a new configuration takes effect with the next call, and no
/// call mixes old and new. If a limit isn't asked (it is off, or the key is on a list),
/// the answer is a [bypass](crate::Source::Bypass); of several limits, the others are still decided
/// all or nothing.
///
/// It has the operations of a [`Limiter`](crate::Limiter), async and `_now`. Cloning is cheap. A
/// call on a limit in the embedded store looks up nothing by name, takes no lock of the registry
/// and allocates nothing.
///
/// ```
/// use sluicegate::{Ask, Config, Registry};
///
/// let config = "limits: {address: {policies: [gcra 10/s]}, account: {policies: [gcra 1/min]}}";
/// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
/// let login = registry.gate("address").and(registry.gate("account"))?;
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
    cell: Arc<GateCache>,
}

impl Gate {
    pub(super) const fn new(shared: Arc<Shared>, cell: Arc<GateCache>) -> Self {
        Self { shared, cell }
    }

    /// The same limits, with other response fields for clients.
    pub(crate) fn showing(&self, shown: Shown) -> Self {
        let cell = GateCache::showing(self.cell.targets().into(), shown);
        Self { shared: Arc::clone(&self.shared), cell: Arc::new(cell) }
    }

    /// Notes that a call site asks these limits, and `policies` of each by name, so that the registry
    /// refuses a configuration without them.
    pub(crate) fn notice(&self, policies: &[&'static str]) {
        let mut writer = self.shared.write();
        for target in self.cell.targets() {
            let uses = Uses::limit(target.name()).policies(policies.iter().copied());
            writer.used.notice(uses);
        }
    }

    /// The name of the limit; for several, their names joined with ` + `.
    #[must_use]
    pub fn name(&self) -> &str {
        self.cell.name()
    }

    /// The number of limits.
    pub(crate) fn len(&self) -> usize {
        self.cell.targets().len()
    }

    /// The limits as currently configured, for several calls about one request.
    pub(crate) fn look(&self) -> Look<'_> {
        Look { gate: self, resolved: self.resolved() }
    }

    /// The limit as currently configured, without overrides; for several, those in force, together.
    /// `None` if none is in force: they are off or unknown.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        let limiter = self.resolved().with_own_numbers()?.ok()?;
        Some(limiter.limit().clone())
    }

    /// Takes the cost, or is denied.
    ///
    /// # Errors
    /// Like [`Limiter::check`](crate::Limiter::check). Also if there isn't one key per limit, or if
    /// the limits have too many policies to be decided together.
    pub fn check<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Check, ask.into())
    }

    /// [`Gate::check`] with the response fields that the configuration wants clients to get; `None`
    /// if no limit was asked.
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

    /// Answers like [`Gate::check`], but charges and writes nothing.
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn peek<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Peek, ask.into())
    }

    /// Takes the cost now; the caller may act after [`Decision::wait`], as in
    /// [`Limiter::reserve`](crate::Limiter::reserve). If no limit is asked, nothing is reserved and
    /// there is no wait.
    ///
    /// # Errors
    /// Like [`Limiter::reserve`](crate::Limiter::reserve) and [`Gate::check`].
    pub fn reserve<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> impl Future<Output = Result<Reservation, Error>> + Send {
        let (ask, within) = (ask.into(), within.into());
        async move { self.book_and_tell(&ask, within, |_| ()).await.map(|(booked, _)| booked) }
    }

    /// [`Gate::reserve`] with the response fields that the configuration wants clients to get; `None`
    /// if no limit was asked.
    ///
    /// # Errors
    /// Like [`Gate::reserve`].
    pub fn reserve_with_fields<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> impl Future<Output = Result<(Reservation, Option<LimitFields>), Error>> + Send {
        let (ask, within) = (ask.into(), within.into());
        async move { self.book_and_tell(&ask, within, fields).await }
    }

    async fn book_and_tell<T>(
        &self,
        ask: &Ask<'_>,
        within: Span,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Reservation, Option<T>), Error> {
        let resolved = Guard::into_inner(self.resolved());
        match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
            Route::Bypass(bypass) => {
                let operation = Operation::Reserve { within };
                let decision = bypass.decide(operation);
                Ok((Reservation::of_nothing(decision), None))
            }
            Route::Ask(limiter, reduced) => {
                let booked = limiter.book(reduced.as_ref().unwrap_or(ask), within).await?;
                Ok((booked, Some(tell(&limiter))))
            }
        }
    }

    /// Takes as much as every policy admits, up to the cost: [`Decision::granted`] units. If no
    /// limit is asked, nothing is counted: `granted` is 0, and an allowed request may take its
    /// whole cost.
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn take_up_to<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::TakeUpTo, ask.into())
    }

    /// [`Gate::take_up_to`] with the response fields that the configuration wants clients to get;
    /// `None` if no limit was asked.
    ///
    /// ```
    /// use sluicegate::{Ask, Config, Registry};
    ///
    /// let config = "limits: {mail: {policies: [fixed_window 100/d as day]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let ask = Ask::new("alice").cost(120);
    /// let (decision, fields) = registry.gate("mail").take_up_to_with_fields(ask).await?;
    /// assert_eq!((decision.granted(), fields.is_some()), (100, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::check`].
    pub fn take_up_to_with_fields<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<(Decision, Option<LimitFields>), Error>> + Send {
        let ask = ask.into();
        async move { self.ask_and_tell(Operation::TakeUpTo, &ask, fields).await }
    }

    /// Takes the cost in any case, going into debt if necessary: for requests that were let in
    /// before. A key that has been blocked since is charged; a key on the allow list is not.
    ///
    /// # Errors
    /// Like [`Limiter::charge`](crate::Limiter::charge) and [`Gate::check`].
    pub fn charge<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Charge, ask.into())
    }

    /// Gives the cost back, at most up to a fresh key's state. Does nothing for a key on the allow
    /// list.
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn refund<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Refund, ask.into())
    }

    /// Forgets the key's state, even if the key is on a list or the limit is off.
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn reset<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Reset, ask.into())
    }

    /// Bans the key by hand for `lasts` from now, 1 s to 30 d, whatever it has done: until then nothing is
    /// taken under this limit. A ban that it has ends with the new one. Even if the key is on a list or the limit is off.
    ///
    /// # Errors
    /// Like [`Gate::charge`]; [`RequestErrorKind::Unsupported`](crate::RequestErrorKind) for a limit
    /// without a [`Ban`](crate::Ban).
    pub fn ban<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::Ban { lasts: lasts.into() }, ask.into())
    }

    /// Lifts the key's ban, and forgets its denials and earlier bans. [`Decision::forgotten`] says whether
    /// it was banned. Even if the key is on a list or the limit is off.
    ///
    /// # Errors
    /// Like [`Gate::ban`].
    pub fn lift_ban<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        self.ask_owned(Operation::LiftBan, ask.into())
    }

    #[expect(
        clippy::manual_async_fn,
        reason = "the future of an async fn stores its arguments twice"
    )]
    fn ask_owned(
        &self,
        operation: Operation,
        ask: Ask<'_>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        async move {
            // What a store has at once needs nothing that is kept across an await.
            if let Some(answer) = self.ask_at_once(operation, &ask) {
                return answer;
            }
            self.ask(operation, &ask).await
        }
    }

    pub(crate) async fn ask(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, Error> {
        self.ask_and_tell(operation, ask, |_| ()).await.map(|(decision, _)| decision)
    }

    /// Asks, and calls `read` with the limiter that answered.
    pub(crate) async fn ask_and_tell<T>(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Decision, Option<T>), Error> {
        // Held until the store has answered, possibly over a network.
        let resolved = Guard::into_inner(self.resolved());
        let (limiter, reduced) =
            match resolved.route(&self.shared, &self.cell, ask, purpose(operation))? {
                Route::Ask(limiter, reduced) => (limiter, reduced),
                Route::Bypass(bypass) => {
                    return Ok((bypass.decide(operation), None));
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
pub(crate) fn fields(prepared: &LimiterWithFields) -> LimitFields {
    prepared.fields().clone()
}

const fn purpose(operation: Operation) -> Purpose {
    match operation {
        Operation::Charge | Operation::GiveBack { .. } | Operation::Refund => Purpose::Settle,
        Operation::Reset | Operation::Ban { .. } | Operation::LiftBan => Purpose::Forget,
        _ => Purpose::Admit,
    }
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

    /// A program with many requests in flight pays for each of these.
    #[test]
    fn futures_are_small() {
        let config = Config::parse("limits: {a: {policies: [gcra 1/s]}}", "limits.yaml").unwrap();
        let gate = Registry::open(&config).unwrap().gate("a");
        let (check, acquire) = (gate.check("k"), gate.acquire("k", Span::SECOND));
        assert!(size_of_val(&check) <= 1_024, "{}", size_of_val(&check));
        assert!(size_of_val(&acquire) <= 2_048, "{}", size_of_val(&acquire));
    }
}
