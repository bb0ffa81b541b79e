//! A request that is built first, and sent by its ending.

mod cancel;
mod decide;
mod enforce;
mod give_back;
mod hold;
mod keeper;
mod list;
mod new_numbers;
mod of_keyed;
mod of_limiter;
mod pause;
mod permit;
mod reserve;
mod settle;
mod target;
mod verbs;
mod wait;
mod with;

use std::fmt;
use std::future::ready;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_core::{BoxFuture, Error, RequestError, RequestErrorKind, Timestamp};

use crate::ask::Ask;
use crate::blocking;

pub use sluicegate_core::{Batched, KeyPart, batched};

pub use cancel::ToCancel;
pub use decide::ToDecide;
pub use enforce::ToEnforce;
pub use give_back::ToGiveBack;
pub use hold::ToHold;
pub use list::{ToListBans, ToListHolders, ToListKeys, ToRevoke};
pub(crate) use new_numbers::NewNumbers;
pub use of_keyed::{AboutKey, ToGet};
pub use pause::ToPause;
pub use permit::ToPermit;
pub use reserve::ToReserve;
pub use settle::{ToRenew, ToSettle};
pub(crate) use settle::{settle, settle_at_once};
pub(crate) use target::{Charged, Found};
pub use target::{Settles, Target};
pub use with::WithNumbers;
pub(crate) use with::policies_of;
#[cfg(feature = "config")]
pub(crate) use with::{no_limit, numbers_for_several};

/// A request to a [`Limiter`](crate::Limiter), a [`Gate`](crate::Gate) or a [`Registry`](crate::Registry) that is not
/// sent yet.
///
/// Methods refine it. One of three endings sends it:
///
/// - `.await` works with every store. A store over a network needs a tokio runtime.
/// - [`now`](Question::now) never waits. It is for stores that answer immediately, such as the embedded one.
/// - [`blocking`](Question::blocking) blocks the thread until the store has answered. It needs no runtime.
///
/// ```
/// use sluicegate::{Limiter, MemoryStore};
///
/// let limit = sluicegate::Limit::new("llm", ["token_bucket 60/min as requests", "token_bucket 90000/min as tokens"])?;
/// let limiter = Limiter::new(MemoryStore::new(), limit);
/// let decision = limiter.check("alice").cost_of("requests", 1).cost_of("tokens", 1_200).now()?;
/// assert_eq!(decision.outcome("tokens").unwrap().remaining(), Some(88_800));
/// assert!(limiter.check("alice").cost(100).blocking()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Nothing is sent before the future is first polled. A store that answers immediately does so at the first poll,
/// without an allocation.
#[must_use = "a request is sent by its ending: `.await`, `now()` or `blocking()`"]
pub struct Question<'a, T, V: Verb<T>>(State<'a, T, V>);

/// The target of a request.
enum Asked<'a, T> {
    Given(&'a T),
    /// The target with the numbers of the request.
    WithNumbers(T),
}

enum State<'a, T, V: Verb<T>> {
    Unasked(Asked<'a, T>, V),
    Waiting(BoxFuture<'a, Result<V::Output, V::Error>>),
    /// The request is wrong, so it is never sent.
    Refused(Error),
    /// Already answered, or changed after it was sent.
    Sent,
}

impl<T> Asked<'_, T> {
    #[inline]
    const fn get(&self) -> &T {
        match self {
            Self::Given(target) => target,
            Self::WithNumbers(target) => target,
        }
    }
}

/// A verb: the kind of request to a target.
pub trait Verb<T>: Sized + Send {
    /// The caller's result.
    type Output: Send;
    /// The caller's result if the request can't be answered.
    type Error: From<Error> + Send;

    /// Whether the result has work in the background, such as a permit's renewal.
    #[doc(hidden)]
    const WORKS_ON: bool = false;

    /// Returns the answer if the store has it immediately. Otherwise returns `None` and sends nothing.
    fn at_once(&self, _: &T) -> Option<Result<Self::Output, Self::Error>> {
        None
    }

    /// Sends the request, and awaits the store.
    fn later(self, target: &T) -> impl Future<Output = Result<Self::Output, Self::Error>> + Send;
}

/// A verb that stores can answer immediately.
#[diagnostic::on_unimplemented(
    message = "a request that may wait can't end by `now()`",
    label = "it may wait",
    note = "end it by `.await`, or by `.blocking()` in a thread that may block"
)]
pub trait AtOnce {}

/// A verb about keys and costs.
pub trait Refines<'a>: Sized {
    /// Returns this verb with its keys and costs replaced by the result of `change`.
    #[must_use]
    fn refine(self, change: impl FnOnce(Ask<'a>) -> Ask<'a>) -> Self;
}

impl<'a, T, V: Verb<T>> Question<'a, T, V> {
    #[inline]
    pub(crate) const fn new(target: &'a T, verb: V) -> Self {
        Self(State::Unasked(Asked::Given(target), verb))
    }

    /// Returns the request with another verb.
    #[inline]
    fn map<W: Verb<T>>(self, change: impl FnOnce(V) -> W) -> Question<'a, T, W> {
        Question(match self.0 {
            State::Unasked(target, verb) => State::Unasked(target, change(verb)),
            State::Refused(error) => State::Refused(error),
            State::Waiting(_) | State::Sent => State::Sent,
        })
    }
}

impl<'k, T, V: Verb<T> + Refines<'k>> Question<'_, T, V> {
    /// Sets the cost under every policy that [`cost_of`](Self::cost_of) doesn't name: from 1 to 2^53 − 1 units.
    /// Default: each policy's own cost, which is 1 unless the policy says otherwise.
    #[inline]
    pub fn cost(self, units: u64) -> Self {
        self.refine(|ask| ask.cost(units))
    }

    /// Sets the cost under the policy named `policy`: from 0 to 2^53 − 1 units.
    ///
    /// A policy with cost 0 is not charged and never refuses. Neither are policies that aren't named, unless
    /// [`cost`](Self::cost) sets their cost.
    #[inline]
    pub fn cost_of(self, policy: &'k str, units: u64) -> Self {
        self.refine(|ask| ask.cost_of(policy, units))
    }

    /// Adds the key, and optionally the cost, for the next of several limits that are decided together.
    #[inline]
    pub fn and(self, next: impl Into<Ask<'k>>) -> Self {
        self.refine(|ask| ask.and(next))
    }

    /// Gives the request an id, so that a repeat is charged nothing. See [`Ask::request_id`].
    #[inline]
    pub fn id(self, id: impl AsRef<[u8]>) -> Self {
        self.refine(|ask| ask.request_id(id))
    }

    /// Sets for how long a repeat is recognized by its [id](Self::id): 1 s to a day. Default: a minute.
    #[inline]
    pub fn known_for(self, lasts: Duration) -> Self {
        self.refine(|ask| ask.known_for(lasts))
    }

    /// Sets the time at which the request is evaluated, for a limiter with
    /// [`TimeSource::Injected`](crate::store::TimeSource::Injected).
    #[inline]
    pub fn at(self, time: Timestamp) -> Self {
        self.refine(|ask| ask.at(time))
    }

    /// Sets the priority in a queue of permits: from 0, the highest and the default, to 15.
    #[inline]
    pub fn priority(self, priority: u8) -> Self {
        self.refine(|ask| ask.priority(priority))
    }

    #[inline]
    fn refine(self, change: impl FnOnce(Ask<'k>) -> Ask<'k>) -> Self {
        self.map(|verb| verb.refine(change))
    }
}

impl<'a, T, V: Verb<T>> Question<'a, T, V> {
    /// Sends the request without waiting.
    ///
    /// # Errors
    /// Returns the errors of awaiting it, or [`RequestErrorKind::WouldBlock`] if the store can't answer immediately. In
    /// that case nothing was sent.
    #[inline]
    pub fn now(self) -> Result<V::Output, V::Error>
    where
        V: AtOnce,
    {
        match self.at_once() {
            Some(answer) => answer,
            None if matches!(self.0, State::Unasked(..)) => Err(would_block().into()),
            None => Err(sent_before().into()),
        }
    }

    /// Sends the request, and blocks the thread until the store has answered.
    ///
    /// Works with every store and on every thread: outside of a runtime, and in a task, also of a runtime of one thread.
    /// A thread of the library does the work that a blocked runtime can't do.
    ///
    /// # Errors
    /// Returns the errors of awaiting it, or a store error if no thread can be started to wait for the store.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate::{Limiter, MemoryStore};
    ///
    /// let limiter = Limiter::new(MemoryStore::new(), sluicegate::Limit::new("mail", ["gcra 100/s"])?);
    /// for _ in 0..3 {
    ///     let turn = limiter.check("smtp").within(Duration::from_secs(5)).blocking()?;
    ///     assert!(turn.is_allowed());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn blocking(self) -> Result<V::Output, V::Error>
    where
        T: Send + Sync,
        V: 'a,
    {
        // The work of the result continues while this thread blocks again.
        let entered = if V::WORKS_ON { blocking::enter().map_err(Error::from)? } else { None };
        let answer = self.at_once();
        drop(entered);
        match answer {
            Some(answer) => answer,
            None => blocking::wait(self.later()).map_err(Error::from)?,
        }
    }

    /// Returns the answer if the store has it immediately. Otherwise returns `None` and sends nothing.
    #[inline]
    pub(crate) fn at_once(&self) -> Option<Result<V::Output, V::Error>> {
        match &self.0 {
            State::Unasked(target, verb) => verb.at_once(target.get()),
            State::Refused(error) => Some(Err(error.clone().into())),
            State::Waiting(_) | State::Sent => None,
        }
    }

    /// Returns the answer of a store that has to be awaited.
    pub(crate) fn later(self) -> BoxFuture<'a, Result<V::Output, V::Error>>
    where
        T: Send + Sync,
        V: 'a,
    {
        match self.0 {
            State::Unasked(Asked::Given(target), verb) => Box::pin(verb.later(target)),
            State::Unasked(Asked::WithNumbers(target), verb) => {
                Box::pin(async move { verb.later(&target).await })
            }
            State::Waiting(waiting) => waiting,
            State::Refused(error) => Box::pin(ready(Err(error.into()))),
            State::Sent => Box::pin(ready(Err(sent_before().into()))),
        }
    }
}

// Nothing in it is pinned: the part that waits is boxed.
impl<T, V: Verb<T>> Unpin for Question<'_, T, V> {}

impl<'a, T: Send + Sync, V: Verb<T> + 'a> Future for Question<'a, T, V> {
    type Output = Result<V::Output, V::Error>;

    #[inline]
    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<V::Output, V::Error>> {
        if let Some(answer) = self.at_once() {
            self.0 = State::Sent;
            return Poll::Ready(answer);
        }
        self.wait(context)
    }
}

impl<'a, T: Send + Sync, V: Verb<T> + 'a> Question<'a, T, V> {
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Result<V::Output, V::Error>> {
        let mut waiting = Self(std::mem::replace(&mut self.0, State::Sent)).later();
        let answer = waiting.as_mut().poll(context);
        if answer.is_pending() {
            self.0 = State::Waiting(waiting);
        }
        answer
    }
}

impl<T: fmt::Debug, V: Verb<T> + fmt::Debug> fmt::Debug for Question<'_, T, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut question = f.debug_struct("Question");
        if let State::Unasked(target, verb) = &self.0 {
            question.field("target", target.get()).field("verb", verb);
        }
        question.finish_non_exhaustive()
    }
}

#[cold]
fn would_block() -> Error {
    let message =
        "the answer has to be awaited: end the request by `.await` or `blocking()`, not by `now()`";
    RequestError::new(RequestErrorKind::WouldBlock, message).into()
}

#[cold]
fn sent_before() -> Error {
    let message = "the request was sent before: build a new one";
    RequestError::new(RequestErrorKind::Invalid, message).into()
}
