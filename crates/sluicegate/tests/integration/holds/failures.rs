//! Holding and settling where the store fails.

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::OnStoreFailure;
use sluicegate::admin::{Answered, Observer, Settled};
use sluicegate::decision::{HoldFound, HoldId, HoldToken, Source};
use sluicegate::error::StoreErrorKind;
use sluicegate::layers::{Breaker, DenyCache, Fallback, Leases, Processes};
use sluicegate::store::Store;
use sluicegate::{Ask, Limiter, MemoryStore, Usage};
use sluicegate_testkit::layers::{Failing, Outage, Unsteady};

fn token() -> HoldToken {
    HoldToken::new(HoldId::from_bytes([7; 16]), [("l".parse().unwrap(), "k")]).unwrap()
}

fn limiter<S: Store>(store: S, answer: OnStoreFailure) -> Limiter<S> {
    let limit = sluicegate::Limit::new("l", ["fixed_window 9/h"]).unwrap();
    Limiter::builder(store, limit).on_store_failure(answer).build()
}

#[tokio::test]
async fn a_failed_store_may_allow_a_hold_and_never_settles() {
    let kind = StoreErrorKind::Timeout;
    for (answer, expected) in [
        (OnStoreFailure::Error, None),
        (OnStoreFailure::Allow, Some(true)),
        (OnStoreFailure::Deny, Some(false)),
        (OnStoreFailure::Local, None),
    ] {
        let limiter = limiter(Failing::new(kind), answer);
        for grant in [
            limiter.check("k").hold(Duration::from_secs(60)).await,
            limiter.check("k").hold(Duration::from_secs(60)).now(),
        ] {
            match grant {
                Ok(grant) => {
                    assert_eq!(Some(grant.is_allowed()), expected);
                    assert_eq!(grant.source(), Source::Fallback);
                    assert!(grant.token().is_none(), "there is nothing to settle");
                }
                Err(error) => {
                    assert_eq!((error.as_store().unwrap().kind(), expected), (kind, None));
                }
            }
        }
        let token = token();
        for error in [
            limiter.settle(&token, Usage::nothing()).await,
            limiter.settle(&token, Usage::nothing()).now(),
            limiter.renew(&token, Duration::from_secs(60)).await,
            limiter.renew(&token, Duration::from_secs(60)).now(),
        ] {
            assert_eq!(error.unwrap_err().as_store().unwrap().kind(), kind);
        }
        assert_eq!(limiter.store().asked(), 6);
    }
}

/// The observed failures.
#[derive(Default)]
struct Failures(Mutex<Vec<StoreErrorKind>>);

impl Observer for Failures {
    fn answered(&self, _: &Answered<'_>) {}

    fn settled(&self, settled: &Settled<'_>) {
        assert!(settled.outcome.is_err());
        self.0.lock().unwrap().push(settled.failure.unwrap().kind());
    }
}

#[test]
fn an_observer_hears_of_a_settlement_that_failed() {
    let failures = Arc::new(Failures::default());
    let limit = sluicegate::Limit::new("l", ["fixed_window 9/h"]).unwrap();
    let limiter = Limiter::builder(Failing::down(), limit).observer(failures.clone()).build();
    assert!(limiter.settle(&token(), Usage::nothing()).now().is_err());
    assert_eq!(*failures.0.lock().unwrap(), [StoreErrorKind::Unavailable]);
}

#[test]
#[cfg(feature = "metrics")]
fn metrics_count_a_settlement_that_failed() {
    let metrics = Arc::new(sluicegate::metrics::Metrics::new());
    let limit = sluicegate::Limit::new("l", ["fixed_window 9/h"]).unwrap();
    let limiter = Limiter::builder(Failing::down(), limit).observer(metrics.clone()).build();
    assert!(limiter.settle(&token(), Usage::nothing()).now().is_err());
    let text = metrics.render(sluicegate::metrics::MetricsFormat::Text).unwrap();
    assert!(text.contains("sluicegate_store_errors_total{kind=\"unavailable\"} 1"), "{text}");
}

/// A process may admit a request by its share, but its hold couldn't be settled with the store.
#[tokio::test]
async fn what_a_share_decides_has_no_token_and_holds_survive_an_outage() {
    let store = Unsteady::new(MemoryStore::new());
    let one = Processes::Number(NonZeroU16::MIN);
    let layers = DenyCache::new(Leases::new(Fallback::new(Breaker::new(store.clone()), one)));
    let limiter = limiter(layers, OnStoreFailure::Local);
    let grant = limiter.check(Ask::new("k").cost(4)).hold(Duration::from_secs(60)).await.unwrap();
    assert_eq!((grant.source(), grant.remaining()), (Source::Store, Some(5)));
    let token = grant.into_token().unwrap();

    store.set(Outage::Away(StoreErrorKind::Unavailable));
    let local = limiter.check("k").hold(Duration::from_secs(60)).await.unwrap();
    assert_eq!((local.source(), local.is_allowed()), (Source::Fallback, true));
    assert!(local.token().is_none());
    assert!(limiter.settle(&token, Usage::nothing()).await.unwrap_err().is_store_failure());
    assert!(limiter.renew(&token, Duration::from_secs(60)).await.unwrap_err().is_store_failure());

    store.set(None);
    let settled = sluicegate_testkit::wait::until_async("the store is asked again", async || {
        limiter.settle(&token, Usage::nothing()).await
    })
    .await;
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
}
