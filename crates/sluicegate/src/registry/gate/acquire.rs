//! Waiting at a gate, under one deadline.

use std::future::Future;
use std::time::Duration;

use arc_swap::Guard;
use sluicegate_core::{Operation, RetryAfter, StoreError};
use tokio::time::{Instant, timeout_at};

use super::super::route::{Purpose, Route};
use super::{Gate, bypassed, ruled};
use crate::ask::Ask;
use crate::ruling::Ruling;

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
        within: Duration,
    ) -> impl Future<Output = Result<Ruling, StoreError>> + Send {
        self.wait_for(ask.into(), within)
    }

    async fn wait_for(&self, ask: Ask<'_>, within: Duration) -> Result<Ruling, StoreError> {
        let start = Instant::now();
        // Far future deadlines mean "as long as it takes".
        let end = start.checked_add(within).unwrap_or_else(|| start + FOREVER);
        let mut changes = self.shared.changes();
        loop {
            changes.mark_unchanged();
            let (ruling, is_final) = self.try_to_pass(ask.clone(), end).await?;
            let next = match ruling.retry_after() {
                RetryAfter::After(retry) if !is_final => Instant::now().checked_add(retry.into()),
                _ => None,
            };
            let Some(next) = next.filter(|next| *next <= end) else {
                return Ok(ruling);
            };
            // Woken early when another configuration is in force; the sender lives as long as the
            // gate.
            let _ = timeout_at(next, changes.changed()).await;
        }
    }

    /// Asks once, or waits for the turn that a limit gives; tells whether there is no use in
    /// asking again.
    async fn try_to_pass(&self, ask: Ask<'_>, end: Instant) -> Result<(Ruling, bool), StoreError> {
        let resolved = Guard::into_inner(self.resolved());
        let key = ask.key();
        match resolved.route(&self.shared, &self.cell, ask, Purpose::Admit)? {
            Route::Bypass { allowed, by } => {
                Ok((bypassed(allowed, by, key, Operation::Check), true))
            }
            Route::Ask(limiter, ask) => {
                let queues = limiter.limit().can_reserve();
                // A limit that doesn't queue answers at once, and says what can't be waited for.
                let left = if queues {
                    end.saturating_duration_since(Instant::now())
                } else {
                    Duration::ZERO
                };
                let decision = limiter.wait_for(ask, left).await?;
                Ok((ruled(decision, &limiter), queues))
            }
        }
    }
}

const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
