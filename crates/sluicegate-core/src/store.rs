//! Where state lives and decisions are made atomically.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use crate::answer::Answer;
use crate::decision::Decision;
use crate::failure::{Error, StoreError};
use crate::limit::Limit;
use crate::request::{Request, TimeSource};
use crate::time::Span;

/// A place where state lives and decisions are made atomically: it opens limits, which answer.
///
/// Stores stack. Whatever changes answers (a breaker, a fallback, a cache) is a store around a
/// store, and its opened limit holds the one that the inner store has opened: a layer is a few
/// lines.
///
/// ```
/// use std::future::Future;
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use sluicegate_core::*;
///
/// /// Counts the denials of whatever store is inside.
/// struct Counting<S>(S, Arc<AtomicU64>);
/// struct CountingLimit<L>(L, Arc<AtomicU64>);
///
/// impl<S: Store> Store for Counting<S> {
///     type Opened = CountingLimit<S::Opened>;
///
///     fn id(&self) -> StoreId {
///         self.0.id()
///     }
///
///     fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
///         CountingLimit(self.0.open(limit, options), Arc::clone(&self.1))
///     }
/// }
///
/// impl<L: OpenedLimit> OpenedLimit for CountingLimit<L> {
///     fn limit(&self) -> &Limit {
///         self.0.limit()
///     }
///
///     fn ask<'a>(
///         &'a self,
///         request: Request<'a>,
///     ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
///         self.0.ask(request).inspect(|answer| {
///             if answer.is_ok_and(|decision| decision.is_denied()) {
///                 self.1.fetch_add(1, Ordering::Relaxed);
///             }
///         })
///     }
/// }
/// ```
pub trait Store: Send + Sync + 'static {
    /// What a limit becomes that this store has opened.
    type Opened: OpenedLimit;

    /// Which store this is. A store around a store has the inner one's id.
    fn id(&self) -> StoreId;

    /// Prepares a limit, so that a decision looks nothing up by name. Connects to nothing.
    /// Whatever is opened under one limit name shares state: policies find theirs by name.
    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened;

    /// Finds out whether the store can decide now.
    ///
    /// # Errors
    /// The future ends with an error when it can't; the message says why.
    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        ready(Ok(()))
    }

    /// One step of tidying up, for whoever has a moment once a second or so. It never takes long.
    fn maintain(&self) {}

    /// What the store holds, as far as it knows.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
}

/// A limit that a store has opened. It owns all that it needs to answer, its store included.
pub trait OpenedLimit: Send + Sync + 'static {
    /// The limit that was opened.
    fn limit(&self) -> &Limit;

    /// Answers a request: at once, if that takes no waiting.
    ///
    /// Nothing happens before the future of an answer that has to be waited for is first polled.
    /// One that is dropped later may have been asked all the same.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a>;

    /// The node of the store that a request goes to, where there are several: what fails together
    /// and is slow together. `None` is the whole store.
    fn node(&self, _request: &Request<'_>) -> Option<NodeId> {
        None
    }
}

/// How a limit is opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Whose time its requests are judged by.
    pub time: TimeSource,
    /// How long one answer may take; what the store is set up with unless told.
    pub deadline: Option<Span>,
}

impl OpenOptions {
    /// Whose time requests are judged by.
    #[must_use]
    pub fn time(mut self, time: TimeSource) -> Self {
        self.time = time;
        self
    }

    /// How long one answer may take.
    #[must_use]
    pub fn deadline(mut self, deadline: impl Into<Span>) -> Self {
        self.deadline = Some(deadline.into());
        self
    }
}

/// Which store it is: equal for two ways to one store, different for two stores. It prints as the
/// store's address, without a password.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct StoreId(Arc<str>);

impl StoreId {
    /// The id of the store at an address, which must name it and no other.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self(address.into())
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One of a store's nodes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeId(pub u64);

/// What a store holds. `None` is what it doesn't know.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct StoreStats {
    /// The keys kept, counted once for each policy that keeps something of them.
    pub keys: Option<u64>,
    /// The most there may be.
    pub max_keys: Option<u64>,
    /// Keys that were forgotten to make room although they did not equal a fresh one.
    pub evicted_live: Option<u64>,
    /// Bytes taken for them.
    pub bytes: Option<u64>,
}

impl<S: Store> Store for Arc<S> {
    type Opened = S::Opened;

    fn id(&self) -> StoreId {
        S::id(self)
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> S::Opened {
        S::open(self, limit, options)
    }

    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        S::ping(self)
    }

    fn maintain(&self) {
        S::maintain(self);
    }

    fn stats(&self) -> StoreStats {
        S::stats(self)
    }
}
