//! Permits at a gate.

use std::sync::Arc;

use arc_swap::Guard;
use sluicegate_core::{BoxFuture, Decision, Error, HoldToken, Operation, Span};
use tokio::time::{Instant, timeout_at};

use super::super::limiter_with_fields::LimiterWithFields;
use super::super::purpose::Purpose;
use super::super::resolved::Resolved;
use super::super::route::{Bypass, Route};
use super::Gate;
use crate::ask::Ask;
use crate::limiter::{end_of, would_block};
use crate::permit::{Held, Keeper, Pauses, Permit, PermitAsk, Terms};
use crate::usage::Usage;

impl Gate {
    /// Asks for a permit, like [`Limiter::permit`](crate::Limiter::permit): of several limits together
    /// it holds what each charged. If none is asked, because they are off or the key is on a list, the
    /// permit holds nothing.
    ///
    /// ```
    /// use sluicegate::{Ask, Config, Registry};
    ///
    /// let config = "limits: {user: {policies: [concurrency 1 hold 30s]}, team: {policies: [concurrency 8 hold 1min]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let export = registry.gate("user").and(registry.gate("team"))?;
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let permit = export.permit(Ask::new("alice").and("red")).await?;
    /// assert!(permit.is_allowed());
    /// assert!(export.permit(Ask::new("alice").and("red")).await?.is_denied());
    /// drop(permit);
    /// assert_eq!(registry.gate("team").peek("red").await?.remaining(), Some(8));
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn permit<'a>(&self, ask: impl Into<Ask<'a>>) -> PermitAsk<'a> {
        PermitAsk::new(self.clone(), ask.into())
    }

    /// Whether who takes of these limits has to hold what it takes.
    pub(crate) fn has_permits(&self) -> bool {
        self.resolved().has_permits
    }

    /// Waits for a permit, and calls `tell` with the limiter that answers.
    pub(crate) async fn permit_and_tell<T>(
        &self,
        ask: &Ask<'_>,
        within: Span,
        terms: Terms,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Permit, Option<T>), Error> {
        let keeper: Arc<dyn Keeper> = Arc::new(self.clone());
        let end = (!within.is_zero()).then(|| end_of(within));
        let mut pauses = end.map(Pauses::until);
        let mut changes = self.shared.changes();
        loop {
            changes.mark_unchanged();
            let taken = self.take_and_tell(&keeper, ask, (terms, end), tell).await;
            let next = pauses.as_mut().and_then(|pauses| match &taken {
                Ok((permit, _)) => pauses.after(permit),
                Err(error) => pauses.after_error(error),
            });
            let Some(next) = next else { return taken };
            // A new configuration ends the wait early.
            let _ = timeout_at(next, changes.changed()).await;
        }
    }

    async fn take_and_tell<T>(
        &self,
        keeper: &Arc<dyn Keeper>,
        ask: &Ask<'_>,
        (terms, queue_until): (Terms, Option<Instant>),
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Permit, Option<T>), Error> {
        let resolved = Guard::into_inner(self.resolved());
        match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
            Route::Ask(limiter, reduced) => {
                let ask = reduced.as_ref().unwrap_or(ask);
                let permit = limiter.take_permit(ask, terms, keeper, queue_until).await?;
                Ok((permit, Some(tell(&limiter))))
            }
            Route::Bypass(bypass) => Ok((holding_nothing(bypass), None)),
        }
    }

    /// The permit if the store can answer immediately; `None` otherwise, and then nothing was asked.
    pub(super) fn permit_at_once<T>(
        &self,
        resolved: &Resolved,
        keeper: &Arc<dyn Keeper>,
        ask: &Ask<'_>,
        terms: Terms,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Option<Result<(Permit, Option<T>), Error>> {
        match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit) {
            Ok(Route::Bypass(bypass)) => Some(Ok((holding_nothing(bypass), None))),
            Ok(Route::Ask(limiter, reduced)) => {
                let ask = reduced.as_ref().unwrap_or(ask);
                let permit = limiter.take_permit_at_once(ask, terms, keeper)?;
                Some(permit.map(|permit| (permit, Some(tell(&limiter)))))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// The permit of a request that no limit is asked about.
fn holding_nothing(bypass: Bypass<'_, '_>) -> Permit {
    Permit::new(bypass.decide(Operation::Check), Held::nothing())
}

impl Keeper for Gate {
    fn take<'a, 'k: 'a>(
        &'a self,
        own: &'a Arc<dyn Keeper>,
        ask: &'a Ask<'k>,
        terms: Terms,
        queue_until: Option<Instant>,
    ) -> BoxFuture<'a, Result<Permit, Error>> {
        Box::pin(async move {
            self.take_and_tell(own, ask, (terms, queue_until), |_| ())
                .await
                .map(|(permit, _)| permit)
        })
    }

    fn take_now(
        &self,
        own: &Arc<dyn Keeper>,
        ask: &Ask<'_>,
        terms: Terms,
    ) -> Result<Permit, Error> {
        let taken = self.permit_at_once(&self.resolved(), own, ask, terms, |_| ());
        let taken = taken.unwrap_or_else(|| Err(would_block(format_args!("`{}`", self.name()))));
        taken.map(|(permit, _)| permit)
    }

    fn renew_held<'a>(
        &'a self,
        token: &'a HoldToken,
        lasts: Span,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(self.renew(token, lasts))
    }

    fn settle_held<'a, 'u: 'a>(
        &'a self,
        token: &'a HoldToken,
        usage: &'a Usage<'u>,
    ) -> BoxFuture<'a, Result<Decision, Error>> {
        Box::pin(self.settle_unless(token, usage, |_, _| false))
    }

    fn settle_held_at_once(
        &self,
        token: &HoldToken,
        usage: &Usage<'_>,
    ) -> Option<Result<Decision, Error>> {
        self.settle_at_once_unless(token, usage, |_, _| false)
    }
}
