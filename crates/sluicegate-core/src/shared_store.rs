//! Any store or stack of stores behind one type.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::answer::{Answer, BoxFuture};
use crate::banned_keys::BannedKeys;
use crate::bell::Bell;
use crate::decision::Decision;
use crate::failure::{Error, NodeId, StoreError};
use crate::hold::HoldId;
use crate::holders::Holders;
use crate::limit::Limit;
use crate::measure::Measure;
use crate::page::Page;
use crate::request::Request;
use crate::store::{OpenOptions, OpenedLimit, Store, StoreId, StoreStats};
use crate::time::Span;

/// Any store or stack of stores behind one type, for choosing a store at run time.
///
/// An immediate answer stays immediate, at the price of one indirect call; only futures are boxed.
/// Cloning is cheap, and clones share one store.
///
/// ```
/// # use std::future::{Future, Pending};
/// # use sluicegate_core::*;
/// # struct Deny;
/// # struct Denies(Limit);
/// # impl Store for Deny {
/// #     type Opened = Denies;
/// #     fn id(&self) -> StoreId { StoreId::new("deny") }
/// #     fn open(&self, limit: Limit, _: OpenOptions) -> Denies { Denies(limit) }
/// # }
/// # impl OpenedLimit for Denies {
/// #     fn limit(&self) -> &Limit { &self.0 }
/// #     fn ask<'a>(&'a self, _: Request<'a>)
/// #         -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
/// #         Answer::<Pending<_>>::Now(Ok(Decision::fallback(&self.0, false)))
/// #     }
/// # }
/// let store = SharedStore::new(Deny);
/// let limit = Limit::new("login".parse()?, vec!["gcra 1/s".parse()?])?;
/// let opened = store.open(limit, OpenOptions::default());
/// assert!(opened.ask(Request::check(b"alice")).now().unwrap()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedStore(Arc<dyn ErasedStore>);

/// A limit that a [`SharedStore`] has opened. Cloning is cheap.
#[derive(Clone)]
pub struct SharedLimit(Arc<dyn ErasedLimit>);

impl SharedStore {
    /// Erases the type of a store.
    pub fn new(store: impl Store) -> Self {
        Self(Arc::new(store))
    }
}

impl SharedLimit {
    /// Erases the type of an opened limit.
    pub fn new(opened: impl OpenedLimit) -> Self {
        Self(Arc::new(opened))
    }
}

trait ErasedStore: Send + Sync {
    fn id(&self) -> StoreId;
    fn open(&self, limit: Limit, options: OpenOptions) -> SharedLimit;
    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>>;
    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;
    fn maintain(&self);
    fn stats(&self) -> StoreStats;
    fn measures(&self) -> Vec<Measure>;
}

impl<S: Store> ErasedStore for S {
    fn id(&self) -> StoreId {
        Store::id(self)
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> SharedLimit {
        SharedLimit::new(Store::open(self, limit, options))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(Store::ping(self))
    }

    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        Box::pin(Store::rehearse(self, limits))
    }

    fn maintain(&self) {
        Store::maintain(self);
    }

    fn stats(&self) -> StoreStats {
        Store::stats(self)
    }

    fn measures(&self) -> Vec<Measure> {
        Store::measures(self)
    }
}

trait ErasedLimit: Send + Sync {
    fn limit(&self) -> &Limit;
    fn ask<'a>(&'a self, request: Request<'a>) -> Answer<BoxFuture<'a, Result<Decision, Error>>>;
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>>;
    fn bell(&self, id: HoldId) -> Option<Bell>;
    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>>;
    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Holders, Error>>;
    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<BannedKeys, Error>>;
    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId>;
}

impl<L: OpenedLimit> ErasedLimit for L {
    fn limit(&self) -> &Limit {
        OpenedLimit::limit(self)
    }

    #[inline]
    fn ask<'a>(&'a self, request: Request<'a>) -> Answer<BoxFuture<'a, Result<Decision, Error>>> {
        OpenedLimit::ask(self, request).boxed()
    }

    #[inline]
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        OpenedLimit::ask_now(self, request)
    }

    fn bell(&self, id: HoldId) -> Option<Bell> {
        OpenedLimit::bell(self, id)
    }

    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>> {
        OpenedLimit::wait_in_queue(self, request, within)
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Holders, Error>> {
        OpenedLimit::holders(self, key, page)
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<BannedKeys, Error>> {
        OpenedLimit::bans(self, page)
    }

    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        OpenedLimit::nodes(self, request)
    }
}

impl Store for SharedStore {
    type Opened = SharedLimit;

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> SharedLimit {
        self.0.open(limit, options)
    }

    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.0.ping()
    }

    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send {
        self.0.rehearse(limits)
    }

    fn maintain(&self) {
        self.0.maintain();
    }

    fn stats(&self) -> StoreStats {
        self.0.stats()
    }

    fn measures(&self) -> Vec<Measure> {
        self.0.measures()
    }
}

impl OpenedLimit for SharedLimit {
    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    #[inline]
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.ask(request)
    }

    #[inline]
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        self.0.ask_now(request)
    }

    fn bell(&self, id: HoldId) -> Option<Bell> {
        self.0.bell(id)
    }

    fn wait_in_queue<'a>(
        &'a self,
        request: Request<'a>,
        within: Span,
    ) -> Option<BoxFuture<'a, Result<Decision, Error>>> {
        self.0.wait_in_queue(request, within)
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Holders, Error>> {
        self.0.holders(key, page)
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<BannedKeys, Error>> {
        self.0.bans(page)
    }

    fn nodes(&self, request: &Request<'_>) -> Vec<NodeId> {
        self.0.nodes(request)
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedStore").field(&Store::id(self)).finish()
    }
}

impl fmt::Debug for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedLimit").field(self.0.limit().name()).finish()
    }
}
