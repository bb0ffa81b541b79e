//! Any store or stack of stores behind one type.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use crate::answer::{Answer, BoxFuture};
use crate::decision::Decision;
use crate::failure::{Error, StoreError};
use crate::limit::Limit;
use crate::open_options::OpenOptions;
use crate::request::Request;
use crate::store::{OpenedLimit, Store, StoreId};

/// A store or stack of stores of any type, for choosing a store at run time.
///
/// An immediate answer stays immediate and costs one indirect call; only futures are boxed. Cloning
/// is cheap, and clones share one store.
///
/// ```
/// # use std::future::{Future, Pending, ready};
/// # use sluicegate_core::for_stores::*;
/// # use sluicegate_core::*;
/// # struct Deny;
/// # struct Denies(Limit);
/// # impl Store for Deny {
/// #     type Opened = Denies;
/// #     fn inner(&self) -> Option<&dyn Store> { None }
/// #     fn id(&self) -> StoreId { StoreId::new("deny") }
/// #     fn open(&self, limit: Limit, _: OpenOptions) -> Denies { Denies(limit) }
/// #     fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> { Box::pin(ready(Ok(()))) }
/// # }
/// # impl OpenedLimit for Denies {
/// #     fn inner(&self) -> Option<&dyn OpenedLimit> { None }
/// #     fn limit(&self) -> &Limit { &self.0 }
/// #     fn ask<'a>(&'a self, _: Request<'a>)
/// #         -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
/// #         Answer::<Pending<_>>::Now(Ok(Decision::fallback(&self.0, false)))
/// #     }
/// # }
/// let store = SharedStore::new(Deny);
/// let limit = Limit::new("login", vec!["gcra 1/s"])?;
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

/// A dyn-compatible form of the methods in `Store` that need a sized type.
trait ErasedStore: Store {
    fn open_shared(&self, limit: Limit, options: OpenOptions) -> SharedLimit;
}

impl<S: Store> ErasedStore for S {
    fn open_shared(&self, limit: Limit, options: OpenOptions) -> SharedLimit {
        SharedLimit::new(self.open(limit, options))
    }
}

/// A dyn-compatible form of the methods in `OpenedLimit` that need a sized type.
trait ErasedLimit: OpenedLimit {
    fn ask_boxed<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<BoxFuture<'a, Result<Decision, Error>>>;
    fn ask_at_once(&self, request: Request<'_>) -> Option<Result<Decision, Error>>;
}

impl<L: OpenedLimit> ErasedLimit for L {
    #[inline]
    fn ask_boxed<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<BoxFuture<'a, Result<Decision, Error>>> {
        self.ask(request).boxed()
    }

    #[inline]
    fn ask_at_once(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        self.ask_now(request)
    }
}

impl Store for SharedStore {
    type Opened = SharedLimit;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> SharedLimit {
        self.0.open_shared(limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl OpenedLimit for SharedLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&*self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    #[inline]
    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.ask_boxed(request)
    }

    #[inline]
    fn ask_now(&self, request: Request<'_>) -> Option<Result<Decision, Error>> {
        self.0.ask_at_once(request)
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedStore").field(&self.0.id()).finish()
    }
}

impl fmt::Debug for SharedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedLimit").field(self.0.limit().name()).finish()
    }
}
