//! The same operations without waiting, for stores that answer immediately.

use std::fmt;

use sluicegate_core::{
    Decision, Error, OpenedLimit as _, Operation, Receipt, Request, RequestError, RequestErrorKind,
    Span, Store, Timestamp,
};

use super::{Limiter, Reservation};
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    /// [`Limiter::check`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::check`]; [`RequestErrorKind::WouldBlock`] if the store can't answer
    /// immediately, and then nothing was asked. The same holds for all methods that end in `_now`.
    #[inline]
    pub fn check_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Check, &ask.into())
    }

    /// [`Limiter::peek`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::check_now`].
    pub fn peek_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Peek, &ask.into())
    }

    /// [`Limiter::reserve`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::reserve`] and [`Limiter::check_now`].
    pub fn reserve_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        within: impl Into<Span>,
    ) -> Result<Reservation<S>, Error> {
        let ask = ask.into();
        let decision = self.ask_now(Operation::Reserve { within: within.into() }, &ask)?;
        Ok(Reservation::new(decision, self, ask.time()))
    }

    /// [`Limiter::take_up_to`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::check_now`].
    pub fn take_up_to_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::TakeUpTo, &ask.into())
    }

    /// [`Limiter::charge`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::charge`] and [`Limiter::check_now`].
    pub fn charge_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Charge, &ask.into())
    }

    /// [`Limiter::refund`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::charge_now`].
    pub fn refund_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Refund, &ask.into())
    }

    /// [`Limiter::reset`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::charge_now`].
    pub fn reset_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Reset, &ask.into())
    }

    /// [`Limiter::ban`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::ban`] and [`Limiter::charge_now`].
    pub fn ban_now<'a>(
        &self,
        ask: impl Into<Ask<'a>>,
        lasts: impl Into<Span>,
    ) -> Result<Decision, Error> {
        self.ask_now(Operation::Ban { lasts: lasts.into() }, &ask.into())
    }

    /// [`Limiter::lift_ban`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::ban_now`].
    pub fn lift_ban_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::LiftBan, &ask.into())
    }

    /// [`Limiter::cancel`] without waiting.
    ///
    /// # Errors
    /// Like [`Limiter::cancel`] and [`Limiter::check_now`].
    pub fn cancel_now(&self, receipt: &Receipt) -> Result<bool, Error> {
        self.cancel_at_now(receipt, None)
    }

    pub(super) fn cancel_at_now(
        &self,
        receipt: &Receipt,
        at: Option<Timestamp>,
    ) -> Result<bool, Error> {
        let answer = self.inner.opened.ask(Request::cancel(receipt).at(at)).now();
        if let Some(Err(Error::Store(error))) = &answer {
            self.note_failure(error);
        }
        answer.unwrap_or_else(|| Err(self.would_block())).map(|it| it.is_allowed())
    }

    #[inline]
    pub(super) fn ask_now(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, Error> {
        match self.ask_at_once(operation, ask) {
            Some(answer) => answer,
            None => Err(self.would_block()),
        }
    }

    #[cold]
    pub(super) fn would_block(&self) -> Error {
        would_block(format_args!("limit `{}`", self.limit().name()))
    }
}

/// The error for asking `what` to answer immediately, although its store has to be awaited.
#[cold]
pub(crate) fn would_block(what: fmt::Arguments<'_>) -> Error {
    let message = format!(
        "the store of {what} can't answer immediately: call the method without `_now`, and `await` it"
    );
    RequestError::new(RequestErrorKind::WouldBlock, message).into()
}
