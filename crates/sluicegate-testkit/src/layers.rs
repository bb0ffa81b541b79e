//! Small layers around stores and a store that fails, for tests.
//!
//! They show how little code a layer takes, and tests send them through everything that calls a
//! store.

use std::future::{Future, Ready, ready};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_core::{
    Answer, BannedKey, BoxFuture, Decision, Error, Holder, Limit, Listing, OpenOptions,
    OpenedLimit, Page, Request, Store, StoreError, StoreErrorKind, StoreId,
};

/// Stops calling the store after three failures in a row.
#[derive(Debug)]
pub struct Breaker<S>(S, Arc<AtomicU32>);
/// A limit opened in a [`Breaker`].
#[derive(Debug)]
pub struct BreakerLimit<L>(L, Arc<AtomicU32>);

impl<S: Store> Store for Breaker<S> {
    type Opened = BreakerLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        BreakerLimit(self.0.open(limit, options), Arc::clone(&self.1))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for BreakerLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        if self.1.load(Ordering::Relaxed) >= 3 {
            let open = StoreError::new(StoreErrorKind::Unavailable, "the breaker is open");
            return Answer::Now(Err(open.into()));
        }
        self.0.ask(request).inspect(|answer| match answer {
            Err(Error::Store(_)) => drop(self.1.fetch_add(1, Ordering::Relaxed)),
            _ => self.1.store(0, Ordering::Relaxed),
        })
    }
}

impl<S> Breaker<S> {
    /// Creates a closed breaker.
    pub fn new(store: S) -> Self {
        Self(store, Arc::default())
    }
}

/// A store that calls its second store if the first one fails.
#[derive(Debug)]
pub struct Fallback<A, B>(pub A, pub B);
/// A limit opened in a [`Fallback`].
#[derive(Debug)]
pub struct FallbackLimit<A, B>(A, B);

impl<A: Store, B: Store> Store for Fallback<A, B> {
    type Opened = FallbackLimit<A::Opened, B::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        FallbackLimit(self.0.open(limit.clone(), options.clone()), self.1.open(limit, options))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            match self.0.ping().await {
                Ok(()) => Ok(()),
                Err(_) => self.1.ping().await,
            }
        })
    }
}

impl<A: OpenedLimit, B: OpenedLimit> OpenedLimit for FallbackLimit<A, B> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn holders<'a>(
        &'a self,
        key: &'a [u8],
        page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(async move {
            match self.0.holders(key, page).await {
                Err(Error::Store(_)) => self.1.holders(key, page).await,
                listed => listed,
            }
        })
    }

    fn bans<'a>(&'a self, page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        Box::pin(async move {
            match self.0.bans(page).await {
                Err(Error::Store(_)) => self.1.bans(page).await,
                listed => listed,
            }
        })
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        match self.0.ask(request) {
            Answer::Now(Err(Error::Store(_))) => self.1.ask(request).boxed(),
            Answer::Now(answer) => Answer::Now(answer),
            Answer::Later(first) => Answer::<BoxFuture<'a, _>>::Later(Box::pin(async move {
                match first.await {
                    Err(Error::Store(_)) => self.1.ask(request).wait().await,
                    answer => answer,
                }
            })),
        }
    }
}

/// A store whose answers are all async, including immediate ones.
#[derive(Clone, Debug)]
pub struct Awaited<S>(pub S);
/// A limit opened in an [`Awaited`].
#[derive(Debug)]
pub struct AwaitedLimit<L>(L);

impl<S: Store> Store for Awaited<S> {
    type Opened = AwaitedLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        AwaitedLimit(self.0.open(limit, options))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl<L: OpenedLimit> OpenedLimit for AwaitedLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(async move { self.0.ask(request).wait().await })
    }
}

/// A store that counts the limits it opens.
#[derive(Clone, Debug)]
pub struct Counting<S>(S, Arc<AtomicU32>);

impl<S> Counting<S> {
    /// Wraps a store and starts the count at 0.
    pub fn new(store: S) -> Self {
        Self(store, Arc::default())
    }

    /// Returns the number of opened limits.
    #[must_use]
    pub fn opened(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }
}

impl<S: Store> Store for Counting<S> {
    type Opened = S::Opened;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.open(limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

/// A store that always fails in one way, and counts the requests.
#[derive(Clone, Debug)]
pub struct Failing {
    error: Error,
    asked: Arc<AtomicU32>,
}

/// A limit opened in a [`Failing`] store.
#[derive(Debug)]
pub struct FailingLimit(Failing, Limit);

impl Failing {
    /// Creates a store that fails with an error of this kind.
    #[must_use]
    pub fn new(kind: StoreErrorKind) -> Self {
        Self::with(StoreError::new(kind, "failed on purpose"))
    }

    /// Creates a store that fails with this error.
    pub fn with(error: impl Into<Error>) -> Self {
        Self { error: error.into(), asked: Arc::default() }
    }

    /// Creates a store that is down.
    #[must_use]
    pub fn down() -> Self {
        Self::new(StoreErrorKind::Unavailable)
    }

    /// Returns the number of requests.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Store for Failing {
    type Opened = FailingLimit;

    fn inner(&self) -> Option<&dyn Store> {
        None
    }

    fn id(&self) -> StoreId {
        StoreId::new("failing:")
    }

    fn open(&self, limit: Limit, _: OpenOptions) -> FailingLimit {
        FailingLimit(self.clone(), limit)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        let error = match &self.error {
            Error::Store(error) => error.clone(),
            other => StoreError::new(StoreErrorKind::Unexpected, other.to_string()),
        };
        Box::pin(ready(Err(error)))
    }
}

impl OpenedLimit for FailingLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        None
    }

    fn limit(&self) -> &Limit {
        &self.1
    }

    fn holders<'a>(
        &'a self,
        _key: &'a [u8],
        _page: Page<'a>,
    ) -> BoxFuture<'a, Result<Listing<Holder>, Error>> {
        Box::pin(ready(Err(self.0.error.clone())))
    }

    fn bans<'a>(&'a self, _page: Page<'a>) -> BoxFuture<'a, Result<Listing<BannedKey>, Error>> {
        Box::pin(ready(Err(self.0.error.clone())))
    }

    fn ask<'a>(
        &'a self,
        _: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        Answer::<Ready<_>>::Now(Err(self.0.error.clone()))
    }
}

/// A store that fails whenever a test says so, and counts the requests that reach the inner store.
/// Clones fail together.
#[derive(Clone, Debug)]
pub struct Unsteady<S>(S, Arc<Unsteadiness>);
/// A limit opened in an [`Unsteady`] store.
#[derive(Debug)]
pub struct UnsteadyLimit<L>(L, Arc<Unsteadiness>);

#[derive(Debug, Default)]
struct Unsteadiness {
    outage: Mutex<Option<Outage>>,
    asked: AtomicU32,
}

/// The failure of an [`Unsteady`] store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outage {
    /// Fails with an error of this kind, and charges nothing.
    Away(StoreErrorKind),
    /// Charges the request, but the caller gets no answer.
    Silent,
}

impl Outage {
    fn error(self) -> StoreError {
        match self {
            Self::Away(kind) => StoreError::new(kind, "it is away"),
            Self::Silent => StoreError::new(StoreErrorKind::Timeout, "it is silent"),
        }
    }
}

impl Unsteadiness {
    fn now(&self) -> Option<Outage> {
        *self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Unsteady<S> {
    /// Wraps a store that doesn't fail yet.
    pub fn new(store: S) -> Self {
        Self(store, Arc::default())
    }

    /// Sets the failure from now on; `None` ends it.
    pub fn set(&self, outage: impl Into<Option<Outage>>) {
        *self.1.outage.lock().unwrap_or_else(PoisonError::into_inner) = outage.into();
    }

    /// Returns the number of requests that reached the inner store.
    #[must_use]
    pub fn asked(&self) -> u32 {
        self.1.asked.load(Ordering::Relaxed)
    }
}

impl<S: Store> Store for Unsteady<S> {
    type Opened = UnsteadyLimit<S::Opened>;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        UnsteadyLimit(self.0.open(limit, options), Arc::clone(&self.1))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        match self.1.now().map(Outage::error) {
            Some(error) => Box::pin(ready(Err(error))),
            None => self.0.ping(),
        }
    }
}

impl<L: OpenedLimit> OpenedLimit for UnsteadyLimit<L> {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        let outage = self.1.now();
        if let Some(away @ Outage::Away(_)) = outage {
            return Answer::Now(Err(away.error().into()));
        }
        self.1.asked.fetch_add(1, Ordering::Relaxed);
        self.0.ask(request).map(move |answer| match outage {
            Some(silent) => Err(silent.error().into()),
            None => answer,
        })
    }
}

/// Wraps a failing store in a breaker, with another store as a fallback.
pub fn stack(down: &Failing, store: impl Store) -> impl Store {
    Fallback(Breaker::new(down.clone()), store)
}
