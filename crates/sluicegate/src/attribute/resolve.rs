//! Support for async functions that name async functions for a denied call.

use std::future::{IntoFuture, Ready, ready};
use std::marker::PhantomData;

/// A value that is a result, or a future of one.
#[derive(Debug)]
pub struct Resolve<R, V>(V, PhantomData<R>);

impl<R, V> Resolve<R, V> {
    pub const fn new(value: V) -> Self {
        Self(value, PhantomData)
    }
}

impl<R> Resolve<R, R> {
    /// Returns the result. It is found before the methods of the traits below are.
    pub fn resolve(self) -> Ready<R> {
        ready(self.0)
    }

    /// Returns the result, in a function that isn't async.
    #[inline]
    pub fn resolve_now(self) -> R {
        self.0
    }
}

/// Values that aren't a result themselves.
pub trait ResolveFuture<R, V>: Sized {
    fn resolve(self) -> V::Future
    where
        V: Answers<R>;

    fn resolve_now(self) -> R
    where
        V: AnswersNow<R>;
}

impl<R, V> ResolveFuture<R, V> for Resolve<R, V> {
    fn resolve(self) -> V::Future
    where
        V: Answers<R>,
    {
        self.0.answer()
    }

    fn resolve_now(self) -> R
    where
        V: AnswersNow<R>,
    {
        self.0.answer_now()
    }
}

/// A future of a result.
#[diagnostic::on_unimplemented(
    message = "this should return `{R}`, but returns something else",
    label = "returns `{Self}`",
    note = "return `{R}`, or a future of it"
)]
pub trait Answers<R> {
    type Future: Future<Output = R>;

    fn answer(self) -> Self::Future;
}

#[diagnostic::do_not_recommend]
impl<R, F: IntoFuture<Output = R>> Answers<R> for F {
    type Future = F::IntoFuture;

    fn answer(self) -> F::IntoFuture {
        self.into_future()
    }
}

/// Never implemented: it only produces the compiler's message.
#[diagnostic::on_unimplemented(
    message = "this should return `{R}`, but returns something else",
    label = "returns `{Self}`",
    note = "return `{R}`",
    note = "if it returns a future: name a function that is not async, or make the limited one `async`, which awaits it"
)]
pub trait AnswersNow<R> {
    fn answer_now(self) -> R;
}
