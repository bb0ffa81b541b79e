//! The same operations without waiting, for stores that answer immediately.

use sluicegate_core::{Decision, Error, Operation, Span};

use super::super::limiter_with_fields::LimiterWithFields;
use super::super::purpose::Purpose;
use super::super::resolved::Resolved;
use super::super::route::Route;
use super::{Gate, purpose};
use crate::ask::Ask;
use crate::limiter::{Reservation, would_block};

impl Gate {
    /// [`Gate::check`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::check`]; [`RequestErrorKind::WouldBlock`](crate::RequestErrorKind::WouldBlock)
    /// if the store can't answer immediately, and then nothing was asked. The same holds for all
    /// methods that end in `_now`.
    #[inline]
    pub fn check_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Check, &ask.into())
    }

    /// [`Gate::peek`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::check_now`].
    pub fn peek_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Peek, &ask.into())
    }

    /// [`Gate::reserve`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::reserve`] and [`Gate::check_now`].
    pub fn reserve_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> Result<Reservation, Error> {
        let (ask, within, resolved) = (ask.into(), within.into(), self.resolved());
        match resolved.route(&self.shared, &self.cell, &ask, Purpose::Admit)? {
            Route::Bypass(bypass) => {
                let operation = Operation::Reserve { within };
                Ok(Reservation::of_nothing(bypass.decide(operation)))
            }
            Route::Ask(limiter, reduced) => limiter.reserve_now(reduced.unwrap_or(ask), within),
        }
    }

    /// [`Gate::take_up_to`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::check_now`].
    pub fn take_up_to_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::TakeUpTo, &ask.into())
    }

    /// [`Gate::charge`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::charge`] and [`Gate::check_now`].
    pub fn charge_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Charge, &ask.into())
    }

    /// [`Gate::refund`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::charge_now`].
    pub fn refund_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Refund, &ask.into())
    }

    /// [`Gate::reset`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::charge_now`].
    pub fn reset_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Reset, &ask.into())
    }

    /// [`Gate::ban`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::ban`] and [`Gate::charge_now`].
    pub fn ban_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> Result<Decision, Error> {
        self.ask_now(Operation::Ban { lasts: lasts.into() }, &ask.into())
    }

    /// [`Gate::lift_ban`] without waiting.
    ///
    /// # Errors
    /// Like [`Gate::ban_now`].
    pub fn lift_ban_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::LiftBan, &ask.into())
    }

    #[inline]
    fn ask_now(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, Error> {
        self.ask_at_once(operation, ask)
            .unwrap_or_else(|| Err(would_block(format_args!("`{}`", self.name()))))
    }

    /// The answer if the store has it immediately; `None` otherwise, and then nothing was asked.
    #[inline]
    pub(crate) fn ask_at_once(
        &self,
        operation: Operation,
        ask: &Ask<'_>,
    ) -> Option<Result<Decision, Error>> {
        let resolved = self.resolved();
        // Most requests take this path.
        if let Some(limiter) = resolved.plain_for(ask) {
            return limiter.ask_at_once(operation, ask);
        }
        let answer = self.ask_at_once_and_tell(&resolved, operation, ask, |_| ())?;
        Some(answer.map(|(decision, _)| decision))
    }

    /// The same, calling `read` with the limiter that answers.
    pub(super) fn ask_at_once_and_tell<T>(
        &self,
        resolved: &Resolved,
        operation: Operation,
        ask: &Ask<'_>,
        tell: fn(&LimiterWithFields) -> T,
    ) -> Option<Result<(Decision, Option<T>), Error>> {
        match resolved.route(&self.shared, &self.cell, ask, purpose(operation)) {
            Ok(Route::Bypass(bypass)) => Some(Ok((bypass.decide(operation), None))),
            Ok(Route::Ask(limiter, reduced)) => {
                let answer = limiter.ask_at_once(operation, reduced.as_ref().unwrap_or(ask))?;
                Some(answer.map(|decision| (decision, Some(tell(&limiter)))))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
