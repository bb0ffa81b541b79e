//! Stores around stores work wherever a store does, and meet the requirements for every store. The service has its own
//! test for that.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use sluicegate::http::fixed;
use sluicegate::layers::Processes;
use sluicegate::middleware::{Middleware, Verdict};
use sluicegate::store::SharedStore;
use sluicegate::{Config, Denied, Gate, Limiter, MemoryStore, Registry, layers};
use sluicegate_testkit::layers::{Breaker, Failing, Fallback, stack};

fn registry(down: &Failing) -> Registry {
    let config = "limits: {login: {policies: [gcra 1/h burst 5]}}";
    let config = Config::parse(config, "limits.yaml").unwrap();
    Registry::builder(stack(down, MemoryStore::new())).config(&config).build()
}

/// Checks that five pass and the sixth is denied, all by the inner store. The failing one is no longer called after it
/// has failed three times.
fn assert_held(down: &Failing, passes: impl Fn() -> bool) {
    assert_eq!((0..9).filter(|_| passes()).count(), 5);
    assert_eq!(down.asked(), 3);
}

#[test]
fn layers_reach_limiters_and_gates() {
    let down = Failing::down();
    let limit = sluicegate::Limit::new("login", ["gcra 1/h burst 5"]).unwrap();
    let limiter = Limiter::new(stack(&down, MemoryStore::new()), limit);
    assert_held(&down, || limiter.check("alice").now().unwrap().is_allowed());
    assert!(Gate::from(limiter).check("alice").now().unwrap().is_denied());

    let down = Failing::down();
    let login = registry(&down).gate("login");
    assert_held(&down, || login.check("alice").now().unwrap().is_allowed());
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

    let down = Failing::down();
    let shop = Shop(registry(&down));
    assert_held(&down, || shop.login().is_ok());
}

#[test]
fn layers_reach_middleware() {
    let down = Failing::down();
    let middleware = Middleware::new(registry(&down).gate("login")).key(fixed("alice"));
    let request = http::Request::new(());
    assert_held(&down, || match middleware.decide(&request) {
        Verdict::Admit(_) => true,
        Verdict::Refuse(_) => false,
        other => panic!("{other:?}"),
    });
}

/// Layers as stores: alone, over a failing one, and behind the type-erased store.
mod suite {
    use super::*;

    sluicegate_conformance::suite!(
        each[[
            SharedStore::new(Breaker::new(MemoryStore::new())),
            SharedStore::new(Fallback(MemoryStore::new(), MemoryStore::new())),
            SharedStore::new(stack(&Failing::down(), MemoryStore::new())),
            SharedStore::new(layers::Breaker::new(layers::DenyCache::new(MemoryStore::new()))),
            SharedStore::new(layers::Leases::new(layers::Breaker::new(MemoryStore::new()))),
            SharedStore::new(layers::Fallback::new(MemoryStore::new(), Processes::Counted)),
        ]]
    );
}
