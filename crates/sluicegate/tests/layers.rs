//! Stores around stores, a few lines each: they go wherever a store goes, and are held to what every
//! store is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::{Future, Ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sluicegate::http::fixed;
use sluicegate::middleware::{Middleware, Verdict};
use sluicegate::{
    Answer, BoxFuture, Config, Decision, Denied, Error, Gate, Limit, Limiter, MemoryStore,
    OpenOptions, OpenedLimit, Registry, Request, SharedStore, Store, StoreError, StoreErrorKind,
    StoreId,
};

/// Asks no more once the store has failed so many times in a row.
struct Breaker<S>(S, Arc<AtomicU32>);
struct BreakerLimit<L>(L, Arc<AtomicU32>);

impl<S: Store> Store for Breaker<S> {
    type Opened = BreakerLimit<S::Opened>;

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        BreakerLimit(self.0.open(limit, options), Arc::clone(&self.1))
    }
}

impl<L: OpenedLimit> OpenedLimit for BreakerLimit<L> {
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

/// Asks the second store when the first one fails.
struct Fallback<A, B>(A, B);
struct FallbackLimit<A, B>(A, B);

impl<A: Store, B: Store> Store for Fallback<A, B> {
    type Opened = FallbackLimit<A::Opened, B::Opened>;

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> Self::Opened {
        FallbackLimit(self.0.open(limit.clone(), options.clone()), self.1.open(limit, options))
    }
}

impl<A: OpenedLimit, B: OpenedLimit> OpenedLimit for FallbackLimit<A, B> {
    fn limit(&self) -> &Limit {
        self.0.limit()
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

/// A store that is down, and counts who asks it all the same.
#[derive(Clone, Default)]
struct Down(Arc<AtomicU32>);
struct DownLimit(Down, Limit);

impl Store for Down {
    type Opened = DownLimit;

    fn id(&self) -> StoreId {
        StoreId::new("down:")
    }

    fn open(&self, limit: Limit, _: OpenOptions) -> DownLimit {
        DownLimit(self.clone(), limit)
    }
}

impl OpenedLimit for DownLimit {
    fn limit(&self) -> &Limit {
        &self.1
    }

    fn ask<'a>(
        &'a self,
        _: Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        self.0.0.fetch_add(1, Ordering::Relaxed);
        let error = StoreError::new(StoreErrorKind::Unavailable, "down on purpose");
        Answer::<Ready<_>>::Now(Err(error.into()))
    }
}

/// What is down behind a breaker, with an embedded store to fall back on.
fn stack(down: &Down) -> impl Store {
    let breaker = Breaker(down.clone(), Arc::default());
    Fallback(breaker, MemoryStore::new())
}

fn registry(down: &Down) -> Registry {
    let config = "limits: {login: {policies: [gcra 1/h burst 5]}}";
    let config = Config::parse(config, "limits.yaml").unwrap();
    Registry::builder(stack(down)).config(&config).build()
}

/// Five pass and the sixth is denied, all by the store behind; the one that is down is let alone
/// when it has failed three times.
fn assert_held(down: &Down, passes: impl Fn() -> bool) {
    assert_eq!((0..9).filter(|_| passes()).count(), 5);
    assert_eq!(down.0.load(Ordering::Relaxed), 3);
}

#[test]
fn layers_reach_limiters_and_gates() {
    let down = Down::default();
    let limit = sluicegate::limit("login", ["gcra 1/h burst 5"]).unwrap();
    let limiter = Limiter::new(stack(&down), limit);
    assert_held(&down, || limiter.check_now("alice").unwrap().is_allowed());
    assert!(Gate::from(limiter).check_now("alice").unwrap().is_denied());

    let down = Down::default();
    let login = registry(&down).gate("login");
    assert_held(&down, || login.check_now("alice").unwrap().is_allowed());
}

#[test]
#[cfg(feature = "macros")]
fn layers_reach_limited_functions() {
    struct Shop(Registry);

    impl Shop {
        #[sluicegate::limit("login", registry = self.0, key = "alice")]
        fn login(&self) -> Result<(), Denied> {
            Ok(())
        }
    }

    let down = Down::default();
    let shop = Shop(registry(&down));
    assert_held(&down, || shop.login().is_ok());
}

#[test]
fn layers_reach_middleware() {
    let down = Down::default();
    let middleware = Middleware::new(registry(&down).gate("login")).key(fixed("alice"));
    let request = http::Request::new(());
    assert_held(&down, || match middleware.decide(&request) {
        Verdict::Admit(_) => true,
        Verdict::Refuse(_) => false,
        other => panic!("{other:?}"),
    });
}

/// Layers are stores: by themselves, over one that fails, and behind the one erasure.
mod suite {
    use super::*;

    sluicegate_conformance::suite!(
        each[[
            SharedStore::new(Breaker(MemoryStore::new(), Arc::default())),
            SharedStore::new(Fallback(MemoryStore::new(), MemoryStore::new())),
            SharedStore::new(stack(&Down::default())),
        ]]
    );
}
