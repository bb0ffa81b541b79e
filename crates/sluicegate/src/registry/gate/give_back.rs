//! Giving back what one request took.

use std::future::Future;

use arc_swap::Guard;
use sluicegate_core::{Decision, Error};

use super::Gate;
use crate::ask::Ask;
use crate::limiter::would_block;
use crate::registry::limiter_with_fields::LimiterWithFields;
use crate::registry::purpose::Purpose;
use crate::registry::route::Route;

impl Gate {
    /// Gives back what is left of the units that an allowed request took, like
    /// [`Limiter::give_back`](crate::Limiter::give_back). If the limits have other numbers by now,
    /// or others of them are in force, nothing is given back: the answer is a
    /// [bypass](crate::Source::Bypass).
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {login: {policies: [sliding_log 3/min and 5/h]}}";
    /// let login = Registry::open(&Config::parse(config, "limits.yaml")?)?.gate("login");
    /// let taken = login.check_now("alice")?;
    /// let is_right = true;
    /// if is_right {
    ///     login.give_back_now("alice", &taken)?;
    /// }
    /// assert_eq!(login.peek_now("alice")?.remaining(), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`Gate::charge`].
    pub fn give_back<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        taken: &Decision,
    ) -> impl Future<Output = Result<Decision, Error>> + Send {
        let ask = ask.into();
        async move { self.give_back_and_tell(ask, taken, |_| ()).await.map(|(answer, _)| answer) }
    }

    /// [`Gate::give_back`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::charge_now`].
    pub fn give_back_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        taken: &Decision,
    ) -> Result<Decision, Error> {
        self.give_back_at_once(ask.into(), taken, |_| ())
            .unwrap_or_else(|| Err(would_block(format_args!("`{}`", self.name()))))
            .map(|(answer, _)| answer)
    }

    /// Gives back, and calls `tell` with the limiter that answers.
    pub(crate) async fn give_back_and_tell<T>(
        &self,
        ask: Ask<'_>,
        taken: &Decision,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Result<(Decision, Option<T>), Error> {
        let resolved = Guard::into_inner(self.resolved());
        let route = resolved.route(&self.shared, &self.cell, &ask, Purpose::Settle)?;
        if let Route::Ask(limiter, reduced) = route
            && let Some((operation, ask)) = limiter.giving_back(reduced.unwrap_or(ask), taken)
        {
            let answer = limiter.ask(operation, &ask).await?;
            return Ok((answer, Some(tell(&limiter))));
        }
        Ok((Decision::bypass(true), None))
    }

    /// The same if the store can answer immediately; `None` otherwise, and then nothing was given
    /// back.
    pub(crate) fn give_back_at_once<T>(
        &self,
        ask: Ask<'_>,
        taken: &Decision,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Option<Result<(Decision, Option<T>), Error>> {
        let resolved = self.resolved();
        let route = match resolved.route(&self.shared, &self.cell, &ask, Purpose::Settle) {
            Ok(route) => route,
            Err(error) => return Some(Err(error)),
        };
        if let Route::Ask(limiter, reduced) = route
            && let Some((operation, ask)) = limiter.giving_back(reduced.unwrap_or(ask), taken)
        {
            let answer = limiter.ask_at_once(operation, &ask)?;
            return Some(answer.map(|answer| (answer, Some(tell(&limiter)))));
        }
        Some(Ok((Decision::bypass(true), None)))
    }
}
