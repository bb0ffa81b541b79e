//! Stores, which keep state and decide atomically.

use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use crate::answer::{Answer, BoxFuture};
use crate::banned_key::BannedKey;
use crate::bell::Bell;
use crate::board::{Post, Posted};
use crate::decision::Decision;
use crate::failure::{Error, NodeId, StoreError};
use crate::hold::HoldId;
use crate::holder::Holder;
use crate::limit::Limit;
use crate::listed_key::ListedKey;
use crate::listing::Listing;
use crate::measure::Measure;
use crate::open_options::OpenOptions;
use crate::page::Page;
use crate::request::Request;
use crate::settings::Settings;
use crate::time::Span;

/// A store, which keeps the state of limits and decides atomically. It opens limits, and opened
/// limits answer requests.
///
/// Stores stack. A layer is a store around another store that changes answers, such as a breaker, a
/// fallback or a cache. Its opened limit contains the limit that the inner store opened. A layer
/// names its [inner store](Store::inner), which gets each call that the layer doesn't implement. A
/// base store has no inner store. It lacks the features that it doesn't implement, and its answers
/// say so.
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

    /// Returns the inner store of a layer, which gets each call that the layer doesn't implement.
    ///
    /// `None` for a base store.
    fn inner(&self) -> Option<&dyn Store>;

    /// Returns the id of the store. A layer returns the id of its inner store.
    fn id(&self) -> StoreId;

    /// Prepares a limit, so that a decision looks up nothing by name. Doesn't connect to a server.
    ///
    /// Limits with the same name share state: their policies find it by policy name.
    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened
    where
        Self: Sized;

    /// Checks whether the store can decide now.
    ///
    /// # Errors
    /// Returns an error if it can't; the message says why.
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Checks [`ping`](Self::ping) and everything that these limits need, now or later, with these
    /// options.
    ///
    /// Use it when setting up a store. Returns the requirements that it could not check, one
    /// sentence each. By default a base store checks only the ping, and returns that the rest is
    /// unknown.
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

    /// Does one short step of maintenance, such as dropping expired states.
    ///
    /// Call it about a hundred times a second. A layer that implements it maintains its inner
    /// store, too.
    fn maintain(&self) {
        if let Some(inner) = self.inner() {
            inner.maintain();
        }
    }

    /// Returns the settings that the processes of the store share; `None` if it keeps none.
    fn settings(&self) -> Option<&dyn Settings> {
        self.inner()?.settings()
    }

    /// Gives back the units that this process has leased and not spent, and leases none from now on.
    ///
    /// Call it before a process ends, so that other processes get the units immediately. Otherwise
    /// the units are used up when their lease ends. Requests are still answered. A layer that
    /// implements it also calls its inner store. Units whose report fails stay charged.
    fn return_leases(&self) -> BoxFuture<'_, ()> {
        match self.inner() {
            Some(inner) => inner.return_leases(),
            None => Box::pin(ready(())),
        }
    }

    /// Returns the size of the store, as far as the store knows it.
    fn stats(&self) -> StoreStats {
        self.inner().map_or_else(StoreStats::default, Store::stats)
    }

    /// Returns the numbers that the store counts, for a metrics page.
    ///
    /// A layer adds its own to those of its inner store. All numbers of one name are adjacent.
    fn measures(&self) -> Vec<Measure> {
        self.inner().map_or_else(Vec::new, Store::measures)
    }
}

/// A limit that a store has opened. It owns everything it needs to answer, including its store.
pub trait OpenedLimit: Send + Sync + 'static {
    /// Returns the inner limit of a layer's limit, which gets each call that isn't implemented.
    ///
    /// `None` for a base store.
    fn inner(&self) -> Option<&dyn OpenedLimit>;

    /// Returns the limit that was opened.
    fn limit(&self) -> &Limit;

    /// Answers a request: immediately if the store can, otherwise with a future.
    ///
    /// Nothing happens before that future is first polled. If it is dropped later, the request may
    /// still have reached the store.
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a>
    where
        Self: Sized;

    /// Returns the answer if the limit has it immediately. Otherwise returns `None`, and no request
    /// was sent.
    ///
    /// The answer equals that of [`OpenedLimit::ask`]. Type-erasing wrappers use this method,
    /// because they don't have to box a future that isn't awaited.
    #[inline]
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>>
    where
        Self: Sized,
    {
        self.ask(request).now()
    }

    /// Returns a notifier for the ticket under this id. It fires when the caller should retry
    /// earlier than the decision said.
    ///
    /// The caller may be waiting or about to wait. `None` if the store sends no notifications;
    /// waiters must then retry more often.
    fn bell(&self, id: HoldId) -> Option<Bell> {
        self.inner()?.bell(id)
    }

    /// Answers a request with a [ticket](crate::Ticket) once its turn has come, or `within` has
    /// passed.
    ///
    /// A store implements it if it keeps the ticket itself while the answer is awaited, as a
    /// service does. `None` if the waiter has to repeat its request.
    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>> {
        self.inner()?.wait_in_queue(request, within)
    }

    /// Returns a page of the holders of a key, in the order of their ends.
    ///
    /// It is meant for the operators of a service. Only a limit with a `concurrency` policy has
    /// such a list. To end a hold, [settle](Request::settle) its id as charged.
    ///
    /// By default a base store answers that it has no such list.
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

    /// Returns a page of the keys that this limit bans.
    ///
    /// It is meant for the operators of a service. Only a limit with a [`Ban`](crate::Ban) has such
    /// a list.
    ///
    /// By default a base store answers that it has no such list.
    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        match self.inner() {
            Some(inner) => inner.bans(page),
            None => Box::pin(ready(Err(Listing::<BannedKey>::unsupported(self.limit()).into()))),
        }
    }

    /// Returns a page of the keys with a stored state under this limit that begin with `prefix`.
    ///
    /// It is meant for the operators of a service. A store that keeps only a fingerprint of a key has no such list.
    ///
    /// By default a base store answers that it has no such list.
    fn keys<'a>(
        &'a self,
        prefix: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<ListedKey>, Error>> {
        match self.inner() {
            Some(inner) => inner.keys(prefix, page),
            None => Box::pin(ready(Err(Listing::<ListedKey>::unsupported(self.limit()).into()))),
        }
    }

    /// Puts an entry on the board of a key, if there is one, and returns all entries in the order of
    /// their names.
    ///
    /// Processes that share a store tell each other by this what they do about a key. By default a
    /// base store answers that it has no boards.
    fn exchange<'a>(
        &'a self,
        key: &'a [u8],
        post: Option<Post<'a>>,
    ) -> BoxFuture<'a, Result<Vec<Posted>, Error>> {
        match self.inner() {
            Some(inner) => inner.exchange(key, post),
            None => Box::pin(ready(Err(Post::unsupported(self.limit()).into()))),
        }
    }

    /// Returns the nodes that a request goes to, each once, if the store has several.
    ///
    /// A node fails or is slow as a unit. An empty list means the whole store.
    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        self.inner().map_or_else(Vec::new, |inner| inner.nodes(request))
    }
}

/// The id of a store. Two connections to one store have equal ids; two stores have different ones.
///
/// Prints as the store's address, without a password.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct StoreId(Arc<str>);

impl StoreId {
    /// Creates the id of the store at `address`, which no other store may have.
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

/// The size of a store. `None` for a number that the store doesn't know.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct StoreStats {
    /// Stored keys, each counted once per policy that has a state for it.
    pub keys: Option<u64>,
    /// The maximum of [`keys`](Self::keys).
    pub max_keys: Option<u64>,
    /// Keys evicted to free memory although their state differed from a fresh one, since the start.
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
