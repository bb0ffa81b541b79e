//! Waiting at a gate, under one deadline.

use std::future::Future;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Operation, RetryAfter, Span};
use tokio::time::{Instant, timeout_at};

use super::super::prepared::Prepared;
use super::super::purpose::Purpose;
use super::super::route::Route;
use super::{Gate, bypassed};
use crate::ask::Ask;
use crate::limiter::end_of;

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

    /// Waits for its turn, and calls `read` with the limiter that answers.
    pub(crate) async fn acquire_and_tell<T>(
        &self,
        ask: &Ask<'_>,
        within: Span,
        tell: fn(&Prepared) -> T,
    ) -> Result<(Decision, Option<T>), Error> {
        let end = end_of(within);
        let mut changes = self.shared.changes();
        loop {
            changes.mark_unchanged();
            let (decision, told, is_final) = self.try_to_pass(ask, end, tell).await?;
            let next = match decision.retry_after() {
                RetryAfter::After(retry) if !is_final => Instant::now().checked_add(retry.into()),
                _ => None,
            };
            let Some(next) = next.filter(|next| *next <= end) else {
                return Ok((decision, told));
            };
            // Dropped before the wait, to keep the future small.
            drop((decision, told));
            // A new configuration ends the wait early. The sender lives as long as the gate.
            let _ = timeout_at(next, changes.changed()).await;
        }
    }

    /// Asks once, or waits for the turn that a limit assigns. Says whether asking again is useless.
    async fn try_to_pass<T>(
        &self,
        ask: &Ask<'_>,
        end: Instant,
        tell: fn(&Prepared) -> T,
    ) -> Result<(Decision, Option<T>, bool), Error> {
        let resolved = Guard::into_inner(self.resolved());
        let (limiter, reduced) =
            match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
                Route::Ask(limiter, reduced) => (limiter, reduced),
                Route::Bypass { allowed, by } => {
                    let decision = bypassed(allowed, by, ask.key(), Operation::Check);
                    return Ok((decision, None, true));
                }
            };
        let queues = limiter.limit().can_reserve();
        // A limit without a queue answers immediately, and reports what can't wait.
        let end = if queues { end } else { Instant::now() };
        let decision = limiter.wait_for(reduced.as_ref().unwrap_or(ask), end).await?;
        Ok((decision, Some(tell(&limiter)), queues))
    }
}
