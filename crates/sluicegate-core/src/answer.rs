//! An answer that is ready now, or a future for it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::decision::Decision;
use crate::failure::Error;

/// The answer of an [opened limit](crate::OpenedLimit): ready now, or a future for it.
#[must_use = "a pending answer sends no request until it is awaited"]
#[derive(Debug)]
pub enum Answer<F> {
    /// The answer is ready.
    Now(Result<Decision, Error>),
    /// A future for the answer. It sends no request until it is first polled.
    Later(F),
}

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<F: Future<Output = Result<Decision, Error>>> Answer<F> {
    /// Returns the answer if it is ready. Otherwise returns `None`, and no request was sent.
    #[inline]
    pub fn now(self) -> Option<Result<Decision, Error>> {
        match self {
            Self::Now(answer) => Some(answer),
            Self::Later(_) => None,
        }
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// Returns an error if the answer is one.
    pub fn wait(self) -> impl Future<Output = Result<Decision, Error>> {
        match self {
            Self::Now(answer) => Wait::Now { answer: Some(answer) },
            Self::Later(later) => Wait::Later { later },
        }
    }

    /// Transforms the answer, as soon as it is ready.
    #[inline]
    pub fn map<'a>(
        self,
        change: impl FnOnce(Result<Decision, Error>) -> Result<Decision, Error> + Send + 'a,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a>
    where
        F: Send + 'a,
    {
        match self {
            Self::Now(answer) => Answer::Now(change(answer)),
            Self::Later(later) => Answer::Later(Map { later, change: Some(change) }),
        }
    }

    /// Calls `look` with the answer, as soon as it is ready.
    #[inline]
    pub fn inspect<'a>(
        self,
        look: impl FnOnce(Result<&Decision, &Error>) + Send + 'a,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a>
    where
        F: Send + 'a,
    {
        match self {
            Self::Now(answer) => {
                look(answer.as_ref());
                Answer::Now(answer)
            }
            Self::Later(later) => Answer::Later(Inspect { later, look: Some(look) }),
        }
    }

    /// Boxes the future of the answer.
    #[inline]
    pub fn boxed<'a>(self) -> Answer<BoxFuture<'a, Result<Decision, Error>>>
    where
        F: Send + 'a,
    {
        match self {
            Self::Now(answer) => Answer::Now(answer),
            Self::Later(later) => Answer::Later(Box::pin(later)),
        }
    }
}

// Not an `async` block: it would store both the future it receives and the one it awaits. Each
// layer of a stack would then move both.
pin_project! {
    /// A future that transforms the answer.
    struct Map<F, C> {
        #[pin]
        later: F,
        change: Option<C>,
    }
}

impl<F, C> Future for Map<F, C>
where
    F: Future<Output = Result<Decision, Error>>,
    C: FnOnce(Result<Decision, Error>) -> Result<Decision, Error>,
{
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = ready!(this.later.poll(context));
        Poll::Ready(match this.change.take() {
            Some(change) => change(answer),
            // Polled again after completion, which violates the contract of `Future`.
            None => answer,
        })
    }
}

pin_project! {
    /// A future that shows the answer to a closure and returns it unchanged.
    struct Inspect<F, L> {
        #[pin]
        later: F,
        look: Option<L>,
    }
}

impl<F, L> Future for Inspect<F, L>
where
    F: Future<Output = Result<Decision, Error>>,
    L: FnOnce(Result<&Decision, &Error>),
{
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = this.later.poll(context);
        if let Poll::Ready(answer) = &answer
            && let Some(look) = this.look.take()
        {
            look(answer.as_ref());
        }
        answer
    }
}

pin_project! {
    /// A future that waits for the answer.
    #[project = WaitProjection]
    enum Wait<F> {
        Now { answer: Option<Result<Decision, Error>> },
        Later { #[pin] later: F },
    }
}

impl<F: Future<Output = Result<Decision, Error>>> Future for Wait<F> {
    type Output = Result<Decision, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project() {
            // Polled again after completion, which violates the contract of `Future`: never ready.
            WaitProjection::Now { answer } => answer.take().map_or(Poll::Pending, Poll::Ready),
            WaitProjection::Later { later } => later.poll(context),
        }
    }
}

impl<F> Answer<F> {
    /// Returns `true` if the answer is ready.
    #[must_use]
    pub const fn is_now(&self) -> bool {
        matches!(self, Self::Now(_))
    }
}
