//! Where state lives and decisions are made atomically.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use crate::answer::{Answer, BoxFuture};
use crate::banned_key::BannedKey;
use crate::bell::Bell;
use crate::decision::Decision;
use crate::failure::{Error, NodeId, StoreError};
use crate::hold::HoldId;
use crate::holder::Holder;
use crate::limit::Limit;
use crate::listing::Listing;
use crate::measure::Measure;
use crate::open_options::OpenOptions;
use crate::page::Page;
use crate::request::Request;
use crate::time::Span;

/// Holds the state of limits and decides atomically. A store opens limits; opened limits answer
/// requests.
///
/// Stores stack: a layer that changes answers (a breaker, a fallback, a cache) is a store around a
/// store, and its opened limit holds the one that the store inside opened. A layer names what is
/// [inside](Store::inner), and every call that it doesn't implement goes there. A store at the bottom has
/// nothing inside: what it doesn't implement, it doesn't have, and its answers say so.
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
///     fn inner(&self) -> Option<&dyn Store> {
///         Some(&self.0)
///     }
///
///     fn id(&self) -> StoreId {
///         self.0.id()
///     }
///
///     fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
///         CountingLimit(self.0.open(limit, options), Arc::clone(&self.1))
///     }
///
///     fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
///         self.0.ping()
///     }
/// }
///
/// impl<L: OpenedLimit> OpenedLimit for CountingLimit<L> {
///     fn inner(&self) -> Option<&dyn OpenedLimit> {
///         Some(&self.0)
///     }
///
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
    /// A limit that this store has opened.
    type Opened: OpenedLimit
    where
        Self: Sized;

    /// The store inside of a layer, which gets every call that the layer doesn't implement. `None` for a store at
    /// the bottom.
    fn inner(&self) -> Option<&dyn Store>;

    /// Which store this is. A layer returns the id of the store inside.
    fn id(&self) -> StoreId;

    /// Prepares a limit, so that a decision looks up nothing by name. Doesn't connect to anything.
    /// Limits with the same name share state: their policies find it by policy name.
    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened
    where
        Self: Sized;

    /// Checks whether the store can decide now.
    ///
    /// # Errors
    /// If it can't; the message says why.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Checks what [`ping`](Self::ping) does, and whatever else these limits need, now or later, opened with
    /// these options: for who sets a store up. Returns what could not be checked, one sentence each. At the
    /// bottom, unless implemented, that is everything but the ping.
    ///
    /// # Errors
    /// Returns an error if the store lacks something; the message says what.
    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        match self.inner() {
            Some(inner) => inner.rehearse(limits),
            None => Box::pin(async {
                self.ping().await?;
                let rest = "it answers a ping; whether it has all that the limits need is unknown";
                Ok(vec![rest.to_owned()])
            }),
        }
    }

    /// Does one short step of maintenance, such as dropping expired states. Call it about a
    /// hundred times a second. A layer that implements it maintains the store inside, too.
    fn maintain(&self) {
        if let Some(inner) = self.inner() {
            inner.maintain();
        }
    }

    /// The size of the store, as far as it knows.
    fn stats(&self) -> StoreStats {
        self.inner().map_or_else(StoreStats::default, Store::stats)
    }

    /// What the store counts, for a metrics page. A layer adds its own to those of the store inside;
    /// all numbers of one name stand together.
    fn measures(&self) -> Vec<Measure> {
        self.inner().map_or_else(Vec::new, Store::measures)
    }
}

/// A limit that a store has opened. It owns everything it needs to answer, including its store.
pub trait OpenedLimit: Send + Sync + 'static {
    /// The limit inside of one that a layer has opened, which gets every call that isn't implemented. `None` for
    /// a store at the bottom.
    fn inner(&self) -> Option<&dyn OpenedLimit>;

    /// The limit that was opened.
    fn limit(&self) -> &Limit;

    /// Answers a request: immediately if the store can, otherwise with a future.
    ///
    /// Nothing happens before that future is first polled. If it is dropped later, the request may
    /// have reached the store all the same.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a>
    where
        Self: Sized;

    /// The answer if the limit has it immediately; `None` otherwise, and then nothing was asked.
    ///
    /// The same as the answer of [`OpenedLimit::ask`]; what erases types can give it without
    /// boxing a future that nobody awaits.
    #[inline]
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>>
    where
        Self: Sized,
    {
        self.ask(request).now()
    }

    /// A bell for the ticket of who waits, or is about to wait, under an id: it rings when it is time to ask
    /// again sooner than was said. `None` if the store tells nobody: then whoever waits has to ask more often.
    fn bell(&self, id: HoldId) -> Option<Bell> {
        self.inner()?.bell(id)
    }

    /// Answers a request that brings a [ticket](crate::Ticket) when its turn has come, or when it has waited for
    /// `within`: for a store that keeps the place itself as long as this is awaited, as a service does. `None` if
    /// whoever waits has to ask again.
    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>> {
        self.inner()?.wait_in_queue(request, within)
    }

    /// A page of those who have something in flight of a key, in the order of their ends: for whoever looks
    /// after a service. Only a limit with a `concurrency` policy has such a list. Who is on it is ended by
    /// [settling](Request::settle) its id for [what was charged](crate::Used::AsCharged).
    ///
    /// At the bottom, unless implemented, the answer is that the store has no such list.
    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        match self.inner() {
            Some(inner) => inner.holders(key, page),
            None => Box::pin(ready(Err(Listing::<Holder>::unsupported(self.limit()).into()))),
        }
    }

    /// A page of the keys that this limit bans, for whoever looks after a service. Only a limit with a
    /// [`Ban`](crate::Ban) has such a list.
    ///
    /// At the bottom, unless implemented, the answer is that the store has no such list.
    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        match self.inner() {
            Some(inner) => inner.bans(page),
            None => Box::pin(ready(Err(Listing::<BannedKey>::unsupported(self.limit()).into()))),
        }
    }

    /// The nodes that a request goes to, each once, if the store has several: a node fails, or is slow,
    /// as a unit. None at all stand for the whole store.
    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        self.inner().map_or_else(Vec::new, |inner| inner.nodes(request))
    }
}

/// Identifies a store: two connections to one store have equal ids, two stores have different ones.
/// Prints as the store's address, without a password.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct StoreId(Arc<str>);

impl StoreId {
    /// The id of the store at `address`, which no other store may have.
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

/// The size of a store. `None` for what the store doesn't know.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Stored keys, each counted once per policy that has a state for it.
    pub keys: Option<u64>,
    /// The maximum of [`keys`](Self::keys).
    pub max_keys: Option<u64>,
    /// Keys evicted to make room although their state differed from a fresh one, since the start.
    pub evicted_live: Option<u64>,
    /// Bytes used by the stored keys.
    pub bytes: Option<u64>,
    /// The maximum of [`bytes`](Self::bytes).
    pub max_bytes: Option<u64>,
}

impl<S: Store> Store for Arc<S> {
    type Opened = S::Opened;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&**self)
    }

    fn id(&self) -> StoreId {
        S::id(self)
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> S::Opened {
        S::open(self, limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        S::ping(self)
    }
}
