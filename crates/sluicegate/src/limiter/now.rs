//! The same verbs at once, for stores that wait for nothing.

use std::fmt;

use sluicegate_core::{
    Decision, Error, OpenedLimit as _, Operation, Receipt, Request, RequestError, RequestErrorKind,
    Span, Store, Timestamp,
};

use super::{Limiter, Reservation};
use crate::ask::Ask;

impl<S: Store> Limiter<S> {
    /// [`Limiter::check`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::check`]; [`RequestErrorKind::WouldBlock`] where the store has to be waited
    /// for, and then nothing was asked. So do all verbs that end in `_now`.
    #[inline]
    pub fn check_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Check, &ask.into())
    }

    /// [`Limiter::peek`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::check_now`].
    pub fn peek_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Peek, &ask.into())
    }

    /// [`Limiter::reserve`] at once.
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

    /// [`Limiter::take_up_to`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::check_now`].
    pub fn take_up_to_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::TakeUpTo, &ask.into())
    }

    /// [`Limiter::charge`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::charge`] and [`Limiter::check_now`].
    pub fn charge_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Charge, &ask.into())
    }

    /// [`Limiter::refund`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::charge_now`].
    pub fn refund_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Refund, &ask.into())
    }

    /// [`Limiter::reset`] at once.
    ///
    /// # Errors
    /// Like [`Limiter::charge_now`].
    pub fn reset_now<'a>(&self, ask: impl Into<Ask<'a>>) -> Result<Decision, Error> {
        self.ask_now(Operation::Reset, &ask.into())
    }

    /// [`Limiter::cancel`] at once.
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
        answer.unwrap_or_else(|| Err(self.would_block())).map(|it| it.is_allowed())
    }

    #[inline]
    fn ask_now(&self, operation: Operation, ask: &Ask<'_>) -> Result<Decision, Error> {
        match self.ask_at_once(operation, ask) {
            Some(answer) => answer,
            None => Err(self.would_block()),
        }
    }

    #[cold]
    fn would_block(&self) -> Error {
        would_block(format_args!("limit `{}`", self.limit().name()))
    }
}

/// An answer at once was asked of `what`, whose store has to be waited for.
#[cold]
pub(crate) fn would_block(what: fmt::Arguments<'_>) -> Error {
    let message = format!(
        "{what} is in a store that has to be waited for: use the verb without `_now`, and `await` it"
    );
    RequestError::new(RequestErrorKind::WouldBlock, message).into()
}
