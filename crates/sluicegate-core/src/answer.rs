//! An answer that is there, or has to be waited for.

use std::future::Future;
use std::pin::Pin;

use crate::decision::Decision;
use crate::failure::Error;

/// What an [opened limit](crate::OpenedLimit) answers: at once, or after waiting.
#[must_use = "nothing is asked of a store that has to be waited for until somebody waits"]
#[derive(Debug)]
pub enum Answer<F> {
    /// The answer.
    Now(Result<Decision, Error>),
    /// What to wait for. Nothing was asked yet.
    Later(F),
}

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl<F: Future<Output = Result<Decision, Error>>> Answer<F> {
    /// The answer, if it takes no waiting; otherwise nothing was asked.
    #[inline]
    pub fn now(self) -> Option<Result<Decision, Error>> {
        match self {
            Self::Now(answer) => Some(answer),
            Self::Later(_) => None,
        }
    }

    /// The answer, whatever it takes.
    ///
    /// # Errors
    /// Those of the answer.
    pub async fn wait(self) -> Result<Decision, Error> {
        match self {
            Self::Now(answer) => answer,
            Self::Later(later) => later.await,
        }
    }

    /// Makes another answer of this one, when it is there.
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
            Self::Later(later) => Answer::Later(async move { change(later.await) }),
        }
    }

    /// Looks at the answer, when it is there.
    #[inline]
    pub fn inspect<'a>(
        self,
        look: impl FnOnce(Result<&Decision, &Error>) + Send + 'a,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a>
    where
        F: Send + 'a,
    {
        self.map(move |answer| {
            look(answer.as_ref());
            answer
        })
    }

    /// The same answer, of which what has to be waited for is on the heap.
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

impl<F> Answer<F> {
    /// Whether it is there.
    #[must_use]
    pub const fn is_now(&self) -> bool {
        matches!(self, Self::Now(_))
    }
}
