//! What is called in an async function may be async too.

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
    /// The result. It is found before the method of the trait below is.
    pub fn resolve(self) -> Ready<R> {
        ready(self.0)
    }
}

/// Of what isn't a result itself.
pub trait ResolveFuture<R, V>: Sized {
    fn resolve(self) -> V::Future
    where
        V: Answers<R>;
}

impl<R, V> ResolveFuture<R, V> for Resolve<R, V> {
    fn resolve(self) -> V::Future
    where
        V: Answers<R>,
    {
        self.0.answer()
    }
}

/// A future of a result.
#[diagnostic::on_unimplemented(
    message = "this is to answer a call that returns `{R}`, and gives something else",
    label = "gives `{Self}`",
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
