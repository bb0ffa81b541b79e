//! Waiting at a gate, under one deadline.

use std::future::{Future, ready};

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Operation, SharedStore, Span};
use sluicegate_http::LimitFields;
use tokio::time::{Instant, timeout_at};

use super::super::limiter_with_fields::LimiterWithFields;
use super::super::purpose::Purpose;
use super::super::route::Route;
use super::{Gate, fields};
use crate::ask::Ask;
use crate::grant::Grant;
use crate::holding::Holding;
use crate::limiter::{Turn, end_of};
use crate::permit::Pauses;

impl Gate {
    /// Takes the cost, waiting for it at most `within` in total, like
    /// [`Limiter::acquire`](crate::Limiter::acquire). Needs a tokio runtime with time enabled. A
    /// limit that supports reservations queues its callers, and each keeps the instant it got.
    /// Other limits are asked again after the retry-after of the denial, or when the configuration
    /// changes. If the wait can't end in time, the request is denied immediately.
    ///
    /// # Errors
    /// Like [`Limiter::acquire`](crate::Limiter::acquire) and [`Gate::check`].
    pub fn acquire<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        let (ask, within) = (ask.into(), within.into());
        async move {
            let (decision, _) = self.acquire_and_tell(&ask, within, |_| ()).await?;
            Ok(decision)
        }
    }

    /// [`Gate::acquire`] with the response fields that the configuration wants clients to get; `None`
    /// if no limit was asked. What was taken is held as `holding` says. A limit with a
    /// [queue](crate::Queue) of permits is waited for there, like by [`Gate::wait_for_permit`]. A reservation
    /// holds nothing, so who holds asks again elsewhere, under a limit that supports reservations too.
    ///
    /// For a service that bounds how many requests ask the store at once: `pass` is awaited before
    /// each call to the store, and what it returns is dropped when the store has answered. So a
    /// request that waits for its turn holds no pass. The deadline goes on while `pass` is awaited.
    ///
    /// ```
    /// use sluicegate::{Config, Error, Holding, Registry, Span};
    ///
    /// let config = "limits: {mail: {policies: [gcra 20/s]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let mail = registry.gate("mail");
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?.block_on(async {
    /// let passes = tokio::sync::Semaphore::new(8);
    /// let pass = async || Ok::<_, Error>(passes.acquire().await.ok());
    /// let holding = Holding::as_needed();
    /// let (grant, fields) = mail.acquire_with_fields("smtp", Span::SECOND, holding, pass).await?;
    /// assert!(grant.is_allowed() && fields.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::acquire`], and those of `pass`.
    pub async fn acquire_with_fields<'a, P, F, E>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
        holding: Holding,
        pass: impl Fn() -> F,
    ) -> Result<(Grant, Option<LimitFields>), E>
    where
        F: Future<Output = Result<P, E>>,
        E: From<Error>,
    {
        let ask = ask.into();
        self.acquire_by_passes(&ask, (within.into(), Some(holding)), fields, pass).await
    }

    /// Waits for its turn, and calls `tell` with the limiter that answers.
    pub(crate) async fn acquire_and_tell<T>(
        &self,
        ask: &Ask<'_>,
        within: Span,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Decision, Option<T>), Error> {
        let pass = || ready(Ok::<(), Error>(()));
        let how = (within, None);
        let (grant, told) = self.acquire_by_passes(ask, how, tell, pass).await?;
        Ok((grant.into_decision(), told))
    }

    async fn acquire_by_passes<T, P, F, E>(
        &self,
        ask: &Ask<'_>,
        (within, holding): (Span, Option<Holding>),
        tell: fn(&LimiterWithFields) -> T,
        pass: impl Fn() -> F,
    ) -> Result<(Grant, Option<T>), E>
    where
        F: Future<Output = Result<P, E>>,
        E: From<Error>,
    {
        let end = end_of(within);
        let mut changes = self.shared.changes();
        let mut pauses = Pauses::until(end);
        loop {
            changes.mark_unchanged();
            if let Some(waited) =
                self.wait_in_queue(ask, (within, end), holding, tell, &pass).await?
            {
                return Ok(waited);
            }
            let passed = pass().await?;
            let asked = self.ask_for_turn(ask, end, holding, tell).await;
            drop(passed);
            let next = match asked {
                Ok((Turn::Held(grant), told)) => return Ok((grant, told)),
                Ok((Turn::Final(decision), told)) => {
                    return Ok((Grant::of_nothing(decision), told));
                }
                Ok((Turn::Later(decision, turn), told)) => {
                    return Ok((Grant::of_nothing(turn.come(decision).await), told));
                }
                Ok((Turn::Again(next), _)) => next,
                Err(error) => match pauses.after_error(&error) {
                    Some(next) => next,
                    None => return Err(error.into()),
                },
            };
            // A new configuration ends the wait early. The sender lives as long as the gate.
            let _ = timeout_at(next, changes.changed()).await;
        }
    }

    /// Waits in the limit's queue. `None` if it has none that the ask could wait in, and if there is no time to
    /// wait; then nothing was asked.
    async fn wait_in_queue<T, P, F, E>(
        &self,
        ask: &Ask<'_>,
        (within, end): (Span, Instant),
        holding: Option<Holding>,
        tell: fn(&LimiterWithFields) -> T,
        pass: &impl Fn() -> F,
    ) -> Result<Option<(Grant, Option<T>)>, E>
    where
        F: Future<Output = Result<P, E>>,
        E: From<Error>,
    {
        let Some(holding) = holding.filter(|_| !within.is_zero()) else { return Ok(None) };
        let resolved = Guard::into_inner(self.resolved());
        let route = resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)?;
        let Route::Ask(limiter, reduced) = route else { return Ok(None) };
        let ask = reduced.as_ref().unwrap_or(ask);
        let Some(hold) = limiter.hold_in_queue(ask, holding)? else { return Ok(None) };
        // It is seldom, and large.
        let waited = Box::pin(limiter.queue(ask, hold, end, pass)).await?;
        let grant = Grant::new(waited.decision, waited.token);
        Ok(Some((grant, Some(tell(&limiter)))))
    }

    /// Asks once.
    async fn ask_for_turn<T>(
        &self,
        ask: &Ask<'_>,
        end: Instant,
        holding: Option<Holding>,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Turn<SharedStore>, Option<T>), Error> {
        let resolved = Guard::into_inner(self.resolved());
        let (limiter, reduced) =
            match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
                Route::Ask(limiter, reduced) => (limiter, reduced),
                Route::Bypass(bypass) => {
                    let decision = bypass.decide(Operation::Check);
                    return Ok((Turn::Final(decision), None));
                }
            };
        let turn = limiter.ask_for_turn(reduced.as_ref().unwrap_or(ask), end, holding).await?;
        Ok((turn, Some(tell(&limiter))))
    }
}
