//! Holding what is taken, to settle it for what was really used.

use std::future::Future;

use arc_swap::Guard;
use sluicegate_core::{Error, Hold, HoldId, Operation, Span};
use sluicegate_http::LimitFields;

use super::super::purpose::Purpose;
use super::super::route::Route;
use super::{Gate, fields, purpose};
use crate::ask::Ask;
use crate::grant::Grant;
use crate::holding::Holding;
use crate::limiter::{Waited, end_of, no_pass};
use crate::random_id::random_id;

impl Gate {
    /// Takes an estimate, or is denied, and holds what it took for `lasts`, like
    /// [`Limiter::hold`](crate::Limiter::hold). The token is of the limits that were asked: if none
    /// was, because they are off or the key is on a list, there is none.
    ///
    /// ```
    /// use sluicegate::{Ask, Config, Registry, Span, Usage};
    ///
    /// let config = "limits: {user: {policies: [fixed_window 900/h as tokens], allow: [root]}, team: {policies: [fixed_window 5000/h as tokens]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let both = registry.gate("user").and(registry.gate("team"))?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let ask = Ask::new("alice").cost(800).and(Ask::new("red").cost(800));
    /// let grant = both.hold(ask, Span::MINUTE).await?;
    /// let settled = both.settle(grant.token().unwrap(), Usage::of("tokens", 100)).await?;
    /// assert_eq!(settled.policy(0).unwrap().remaining(), Some(800));
    /// assert_eq!(settled.policy(1).unwrap().remaining(), Some(4_900));
    ///
    /// let listed = registry.gate("user").hold("root", Span::MINUTE).await?;
    /// assert!(listed.is_allowed() && listed.token().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Limiter::hold`](crate::Limiter::hold) and [`Gate::check`].
    pub fn hold<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> impl Future<Output = Result<Grant, Error>> + Send + 'a {
        let (ask, lasts) = (ask.into(), lasts.into());
        async move { self.grant(&ask, Hold { id: random_id()?, lasts }).await }
    }

    /// Takes permits, and waits in their queue for at most `within`, like
    /// [`Limiter::wait_for_permit`](crate::Limiter::wait_for_permit). A new configuration takes nobody's place
    /// away; who waits goes by the one that was in force when it came.
    ///
    /// # Errors
    /// Like [`Limiter::wait_for_permit`](crate::Limiter::wait_for_permit) and [`Gate::check`].
    pub fn wait_for_permit<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
        within: impl Into<Span>,
    ) -> impl Future<Output = Result<Grant, Error>> + Send + 'a {
        let (ask, lasts, end) = (ask.into(), lasts.into(), end_of(within.into()));
        async move {
            let hold = Hold { id: random_id()?, lasts };
            let resolved = Guard::into_inner(self.resolved());
            match resolved.route(&self.shared, &self.cell, &ask, Purpose::Admit)? {
                Route::Ask(limiter, reduced) => {
                    let ask = reduced.as_ref().unwrap_or(&ask);
                    let Waited { decision, token, .. } =
                        limiter.queue(ask, hold, end, no_pass).await?;
                    Ok(Grant::new(decision, token))
                }
                Route::Bypass(bypass) => Ok(Grant::of_nothing(bypass.decide(Operation::Check))),
            }
        }
    }

    /// [`Gate::hold`] under an id that the caller makes, like
    /// [`Limiter::hold_as`](crate::Limiter::hold_as).
    ///
    /// # Errors
    /// Like [`Limiter::hold_as`](crate::Limiter::hold_as) and [`Gate::check`].
    pub fn hold_as<'a>(
        &'a self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
        id: HoldId,
    ) -> impl Future<Output = Result<Grant, Error>> + Send + 'a {
        let (ask, lasts) = (ask.into(), lasts.into());
        async move { self.grant(&ask, Hold { id, lasts }).await }
    }

    /// [`Gate::hold`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::hold`] and [`Gate::check_now`].
    pub fn hold_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> Result<Grant, Error> {
        self.grant_now(&ask.into(), Hold { id: random_id()?, lasts: lasts.into() })
    }

    /// [`Gate::hold_as`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::hold_as`] and [`Gate::check_now`].
    pub fn hold_as_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
        id: HoldId,
    ) -> Result<Grant, Error> {
        self.grant_now(&ask.into(), Hold { id, lasts: lasts.into() })
    }

    /// Asks for an operation, holds what a check, a charge or a partial grant took as `holding` says, and
    /// tells the response fields that the configuration wants clients to get; `None` if no limit was
    /// asked. For a service, whose callers say all that.
    ///
    /// ```
    /// use sluicegate::{Config, Holding, Operation, Registry, Usage};
    ///
    /// let config = "limits: {jobs: {policies: [concurrency 2 hold 30s]}, api: {policies: [gcra 1/min burst 9]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let (jobs, api) = (registry.gate("jobs"), registry.gate("api"));
    /// let (grant, fields) = jobs.grant_with_fields(Operation::Check, "acme", Holding::as_needed()).await?;
    /// assert_eq!(grant.hold().map(|hold| hold.lasts), Some("30s".parse()?));
    /// assert!(grant.token().is_some() && fields.is_some());
    ///
    /// let (grant, _) = api.grant_with_fields(Operation::Charge, "acme", Holding::as_needed()).await?;
    /// assert!(grant.token().is_none(), "nothing is in flight, and nobody wanted it held");
    /// let holding = Holding::lasting("5s".parse::<sluicegate::Span>()?);
    /// let (grant, _) = api.grant_with_fields(Operation::Charge, "acme", holding).await?;
    /// let settled = registry.settle(grant.token().unwrap(), Usage::nothing()).await?;
    /// assert_eq!(settled.remaining(), Some(8));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::hold`];
    /// [`RequestErrorKind::Invalid`](crate::RequestErrorKind::Invalid) if another operation is to hold
    /// something.
    pub async fn grant_with_fields<'a>(
        &self,
        operation: Operation,
        ask: impl Into<Ask<'a>>,
        holding: Holding,
    ) -> Result<(Grant, Option<LimitFields>), Error> {
        let ask = ask.into();
        let resolved = Guard::into_inner(self.resolved());
        match resolved.route(&self.shared, &self.cell, &ask, purpose(operation))? {
            Route::Ask(limiter, reduced) => {
                let ask = reduced.as_ref().unwrap_or(&ask);
                let can_hold =
                    matches!(operation, Operation::Charge | Operation::Check | Operation::TakeUpTo);
                let hold = if can_hold || holding.is_wanted() {
                    holding.of(limiter.limit())?
                } else {
                    None
                };
                let grant = match hold {
                    Some(hold) => limiter.grant(operation, ask, hold).await?,
                    None => Grant::of_nothing(limiter.ask(operation, ask).await?),
                };
                Ok((grant, Some(fields(&limiter))))
            }
            Route::Bypass(bypass) => {
                let decision = bypass.decide(operation);
                Ok((Grant::of_nothing(decision), None))
            }
        }
    }

    async fn grant(&self, ask: &Ask<'_>, hold: Hold) -> Result<Grant, Error> {
        let resolved = Guard::into_inner(self.resolved());
        match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
            Route::Ask(limiter, reduced) => {
                let ask = reduced.as_ref().unwrap_or(ask);
                limiter.grant(Operation::Check, ask, hold).await
            }
            Route::Bypass(bypass) => Ok(Grant::of_nothing(bypass.decide(Operation::Check))),
        }
    }

    fn grant_now(&self, ask: &Ask<'_>, hold: Hold) -> Result<Grant, Error> {
        match self.resolved().route(&self.shared, &self.cell, ask, Purpose::Admit)? {
            Route::Ask(limiter, reduced) => {
                limiter.grant_now(reduced.as_ref().unwrap_or(ask), hold)
            }
            Route::Bypass(bypass) => Ok(Grant::of_nothing(bypass.decide(Operation::Check))),
        }
    }
}
