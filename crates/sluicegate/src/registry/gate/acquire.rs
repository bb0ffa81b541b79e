//! Waiting at a gate, under one deadline.

use std::future::Future;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error, Operation, RetryAfter, Span};
use tokio::time::{Instant, timeout_at};

use super::super::prepared::Prepared;
use super::super::route::{Purpose, Route};
use super::{Gate, bypassed};
use crate::ask::Ask;
use crate::limiter::end_of;

impl Gate {
    /// Takes the cost, waiting for it at most `within` altogether; needs a tokio runtime with time
    /// enabled. Like [`Limiter::acquire`](crate::Limiter::acquire): a limit that can be reserved
    /// queues its callers, each of whom keeps the instant it was given; any other is asked again
    /// when it said that it would pass, or when another configuration comes into force. A wait
    /// that can't end in time is denied at once.
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

    /// Waits for its turn, and reads something off the limiter that answers.
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
            // What is tried again is not kept while it waits.
            drop((decision, told));
            // Woken early when another configuration is in force; the sender lives as long as the
            // gate.
            let _ = timeout_at(next, changes.changed()).await;
        }
    }

    /// Asks once, or waits for the turn that a limit gives; tells whether there is no use in
    /// asking again.
    async fn try_to_pass<T>(
        &self,
        ask: &Ask<'_>,
        end: Instant,
        tell: fn(&Prepared) -> T,
    ) -> Result<(Decision, Option<T>, bool), Error> {
        let resolved = Guard::into_inner(self.resolved());
        match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
            Route::Bypass { allowed, by } => {
                Ok((bypassed(allowed, by, ask.key(), Operation::Check), None, true))
            }
            Route::Ask(limiter, reduced) => {
                let queues = limiter.limit().can_reserve();
                // A limit that doesn't queue answers at once, and says what can't be waited for.
                let end = if queues { end } else { Instant::now() };
                let decision = limiter.wait_for(reduced.as_ref().unwrap_or(ask), end).await?;
                Ok((decision, Some(tell(&limiter)), queues))
            }
        }
    }
}
