//! Requests that are asked at the same time, so that a store sends them as one call.
//!
//! [`batched`] polls many futures in turn. While it does, [`Batch::current`] names their batch on this thread. A store
//! over a network holds their calls back until the [end](Batch::at_end), and then sends them as one.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// Maximum number of futures in one batch, so that a server isn't occupied for long by one call.
const MOST: usize = 128;

/// Asks several requests at the same time, and returns their answers in the same order.
///
/// Each request is decided separately, in the order of the futures. The embedded store decides each one
/// immediately. A Redis server gets up to 128 requests in one call of its script, and a cluster in one call
/// per slot. This applies in a tokio runtime. If this future is dropped, requests that weren't sent are never sent.
///
/// Requests of a limiter or gate are futures that may move, and need no allocation of their own. Others, such as
/// `async` blocks, are put into a `Box::pin`.
///
/// ```
/// # use std::future::ready;
/// # use std::pin::pin;
/// # use std::task::{Context, Poll, Waker};
/// let answers = sluicegate_core::batched([ready(1), ready(2)]);
/// # let mut context = Context::from_waker(Waker::noop());
/// # let Poll::Ready(answers) = pin!(answers).poll(&mut context) else { panic!() };
/// assert_eq!(answers, [1, 2]);
/// ```
pub fn batched<I>(requests: I) -> Batched<<I::Item as IntoFuture>::IntoFuture>
where
    I: IntoIterator,
    I::Item: IntoFuture<IntoFuture: Unpin>,
{
    let pending = |request: I::Item| Asked::Pending(request.into_future());
    Batched { asked: requests.into_iter().map(pending).collect() }
}

/// The future of several requests that are asked at the same time, made by [`batched`].
#[must_use = "requests aren't sent before their future is polled"]
pub struct Batched<F: Future> {
    asked: Vec<Asked<F>>,
}

enum Asked<F: Future> {
    Pending(F),
    Answered(Option<F::Output>),
}

// Answers are never pinned.
impl<F: Future + Unpin> Unpin for Batched<F> {}

impl<F: Future + Unpin> Future for Batched<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut is_pending = false;
        for some in self.asked.chunks_mut(MOST) {
            let _open = Open::begin();
            for asked in some {
                if let Asked::Pending(future) = asked {
                    match Pin::new(future).poll(context) {
                        Poll::Ready(answer) => *asked = Asked::Answered(Some(answer)),
                        Poll::Pending => is_pending = true,
                    }
                }
            }
        }
        if is_pending {
            return Poll::Pending;
        }
        let answer = |asked: &mut Asked<F>| match asked {
            Asked::Answered(answer) => answer.take(),
            Asked::Pending(_) => None,
        };
        Poll::Ready(self.asked.iter_mut().filter_map(answer).collect())
    }
}

impl<F: Future> fmt::Debug for Batched<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batched").field("requests", &self.asked.len()).finish_non_exhaustive()
    }
}

/// A batch of requests that a thread is asking.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Batch(u64);

impl Batch {
    /// Returns the batch that this thread is asking; `None` outside of [`batched`].
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(|current| current.as_ref().map(|(batch, _)| *batch))
    }

    /// Calls the function once all requests of this thread's batch were asked, or immediately without a batch.
    pub fn at_end(end: impl FnOnce() + 'static) {
        let mut end = Some(end);
        CURRENT.with_borrow_mut(|current| {
            if let Some((_, ends)) = current
                && let Some(end) = end.take()
            {
                ends.push(Box::new(end));
            }
        });
        if let Some(end) = end {
            end();
        }
    }

    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

type End = Box<dyn FnOnce()>;

thread_local! {
    static CURRENT: RefCell<Option<(Batch, Vec<End>)>> = const { RefCell::new(None) };
}

/// The current batch of this thread, until it is dropped. A batch within another one is part of it.
struct Open {
    is_outermost: bool,
}

impl Open {
    fn begin() -> Self {
        let is_outermost = CURRENT.with_borrow_mut(|current| {
            let is_outermost = current.is_none();
            current.get_or_insert_with(|| (Batch::new(), Vec::new()));
            is_outermost
        });
        Self { is_outermost }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.is_outermost {
            let ended = CURRENT.take();
            ended.into_iter().flat_map(|(_, ends)| ends).for_each(|end| end());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Waker;

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_batch_ends_when_all_were_asked_and_the_next_poll_is_another_batch() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let request = |number: usize| {
            let (log, mut first) = (Rc::clone(&log), None);
            poll_fn(move |_| {
                log.borrow_mut().push(format!("ask {number}"));
                let told = Rc::clone(&log);
                Batch::at_end(move || told.borrow_mut().push(format!("end {number}")));
                let batch = Batch::current();
                match first.replace(batch) {
                    Some(before) => Poll::Ready((number, before, batch)),
                    None => Poll::Pending,
                }
            })
        };
        let mut all = batched([request(1), request(2)]);
        assert!(poll(Pin::new(&mut all)).is_pending());
        assert_eq!(log.take(), ["ask 1", "ask 2", "end 1", "end 2"]);
        let Poll::Ready(answers) = poll(Pin::new(&mut all)) else { panic!("it was asked twice") };
        assert_eq!(log.take(), ["ask 1", "ask 2", "end 1", "end 2"]);
        let [(1, before, after), (2, ..)] = answers[..] else { panic!("{answers:?}") };
        assert!(before.is_some() && after.is_some() && before != after);
        assert_eq!((answers[1].1, answers[1].2), (before, after));
        assert_eq!(Batch::current(), None);
        Batch::at_end(move || log.borrow_mut().push("none".to_owned()));
    }

    #[test]
    fn a_batch_has_at_most_128_requests_and_one_within_it_is_part_of_it() {
        let request = || poll_fn(|_| Poll::Ready(Batch::current()));
        let mut all = batched((0..200).map(|_| request()));
        let Poll::Ready(batches) = poll(Pin::new(&mut all)) else { panic!("none waits") };
        let distinct: std::collections::HashSet<_> = batches.iter().collect();
        assert_eq!((distinct.len(), batches[0] == batches[127]), (2, true));
        let mut nested = batched([batched([request(), request()]), batched([request()])]);
        let Poll::Ready(nested) = poll(Pin::new(&mut nested)) else { panic!("none waits") };
        assert!(nested.concat().iter().all(|batch| *batch == nested[0][0] && batch.is_some()));
    }

    #[test]
    fn a_request_that_panics_ends_its_batch() {
        let ended = Rc::new(Cell::new(false));
        let told = Rc::clone(&ended);
        let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let mut all = batched([poll_fn(move |_| -> Poll<()> {
                let told = Rc::clone(&told);
                Batch::at_end(move || told.set(true));
                panic!("on purpose")
            })]);
            let _ = poll(Pin::new(&mut all));
        }));
        assert!(panics.is_err() && ended.get() && Batch::current().is_none());
    }
}
