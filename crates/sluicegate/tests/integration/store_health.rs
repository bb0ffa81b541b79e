//! The log lines about a store that fails and recovers: a real server, killed and started again.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests may do what tests may")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use sluicegate::decision::Source;
use sluicegate::error::{StoreError, StoreErrorKind};
use sluicegate::http::fixed;
use sluicegate::middleware::{Middleware, Verdict};
use sluicegate::store::{Answer, BoxFuture, MemoryLimit, OpenOptions, OpenedLimit, Store, StoreId};
use sluicegate::{Config, Decision, Error, Limit, Limiter, MemoryStore, RedisStore, Registry};
use sluicegate_testkit::layers::{Failing, Outage, Unsteady};
use sluicegate_testkit::servers::{Server, fresh_prefix};
use sluicegate_testkit::wait::until_async;

use crate::log;

fn store(server: &Server) -> RedisStore {
    let prefix = fresh_prefix("health").parse().unwrap();
    let store = RedisStore::builder(&server.url()).unwrap().prefix(prefix);
    store.deadline(Duration::from_secs(5)).build()
}

fn registry(server: &Server, limits: &str) -> Registry {
    let config = Config::parse(&format!("limits: {limits}"), "limits.yaml").unwrap();
    Registry::builder(store(server)).config(&config).build()
}

/// Sends checks until the store has answered, and returns the number of failures.
async fn failures(mut check: impl AsyncFnMut() -> Result<Decision, Error>) -> u64 {
    let mut failed = 0;
    until_async("an answer of the store", async || match check().await {
        Ok(decision) if decision.source() == Source::Store => Ok(()),
        other => {
            failed += 1;
            Err(format!("{other:?}"))
        }
    })
    .await;
    failed
}

/// Checks for one line of each kind. The second one must count the failed requests.
#[track_caller]
fn assert_told(told: &[String], then: &str, failed: u64) {
    let [fails, answers] = told else { panic!("{told:?}") };
    assert!(fails.starts_with("the store fails: "), "{fails}");
    assert!(fails.contains("127.0.0.1"), "the error of the store: {fails}");
    assert!(fails.ends_with(then), "{fails}");
    let counted = format!("the store answers again: {failed} requests failed in ");
    assert!(answers.starts_with(&counted), "{answers}");
}

#[tokio::test]
async fn a_limiter_tells_that_its_store_fails_and_that_it_answers_again() {
    let mut server = Server::start().unwrap();
    let limiter = Limiter::new(store(&server), Limit::new("api", ["gcra 9/s"]).unwrap());
    let mut failed = 3;
    let told = log::messages_of(async {
        assert!(limiter.check("alice").await.is_ok());
        server.kill().unwrap();
        assert!(limiter.check("alice").await.is_err());
        assert!(limiter.clone().peek("alice").await.is_err());
        assert!(limiter.charge("alice").await.is_err());
        server.restart().unwrap();
        failed += failures(async || limiter.check("alice").await).await;
    });
    let told = told.await;
    assert_told(&told, "requests get an error: `on_store_failure` is `error`", failed);
}

#[tokio::test]
async fn a_reservation_that_cannot_be_cancelled_tells_that_the_store_fails() {
    let mut server = Server::start().unwrap();
    let limiter = Limiter::new(store(&server), Limit::new("api", ["gcra 9/s"]).unwrap());
    let told = log::messages_of(async {
        let reserved = limiter.reserve("alice", Duration::from_secs(1)).await.unwrap();
        server.kill().unwrap();
        assert!(reserved.cancel().await.is_err());
    });
    assert!(matches!(&told.await[..], [line] if line.starts_with("the store fails: ")));
}

#[tokio::test]
async fn gates_of_one_registry_tell_once_that_everything_passes() {
    let mut server = Server::start().unwrap();
    let limits = "{api: {policies: [gcra 9/s], deadline: 5s, on_store_failure: allow}, \
                   sms: {policies: [gcra 9/s], deadline: 5s, on_store_failure: deny}}";
    let registry = registry(&server, limits);
    let (api, sms) = (registry.gate("api"), registry.gate("sms"));
    let mut failed = 3;
    let told = log::messages_of(async {
        // The store has not been called yet.
        server.kill().unwrap();
        let passes = api.check("alice").await.unwrap();
        assert!(passes.is_allowed() && passes.source() == Source::Fallback);
        assert!(sms.check("alice").await.unwrap().is_denied());
        assert!(
            registry
                .keyed("api", async |_: String| Ok::<_, std::io::Error>(["gcra 5/s"]))
                .check("alice")
                .await
                .unwrap()
                .is_allowed()
        );
        server.restart().unwrap();
        failed += failures(async || sms.check("alice").await).await;
        assert_eq!(failures(async || api.check("alice").await).await, 0);
    });
    let told = told.await;
    assert_told(&told, "requests pass uncounted: `on_store_failure` is `allow`", failed);
}

#[tokio::test]
async fn a_middleware_tells_that_its_store_fails() {
    let mut server = Server::start().unwrap();
    for (on_failure, is_served, then) in [
        ("error", false, "requests get an error: `on_store_failure` is `error`"),
        ("deny", false, "requests are denied: `on_store_failure` is `deny`"),
        ("allow", true, "requests pass uncounted: `on_store_failure` is `allow`"),
    ] {
        let limit = format!("policies: [gcra 9/s], deadline: 5s, on_store_failure: {on_failure}");
        let registry = registry(&server, &format!("{{api: {{{limit}}}}}"));
        let api = registry.gate("api");
        let middleware = Middleware::new(api.clone()).key(fixed("all"));
        let serve = async || {
            let verdict = middleware.decide(&Request::new(()));
            assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
            verdict.admission(&Request::new(())).await.is_ok()
        };
        let mut failed = 2;
        let told = log::messages_of(async {
            assert!(serve().await);
            server.kill().unwrap();
            assert_eq!([serve().await, serve().await], [is_served; 2]);
            server.restart().unwrap();
            failed += failures(async || api.check("alice").await).await;
            assert!(serve().await);
        });
        let told = told.await;
        assert_told(&told, then, failed);
    }
}

#[tokio::test]
async fn a_thousand_requests_that_fail_are_one_line() {
    let mut server = Server::start().unwrap();
    server.kill().unwrap();
    let registry = registry(&server, "{api: {policies: [gcra 9/s], on_store_failure: allow}}");
    let api = registry.gate("api");
    let told = log::messages_of(async {
        for _ in 0..1_000 {
            assert_eq!(api.check("alice").await.unwrap().source(), Source::Fallback);
        }
    });
    assert!(matches!(&told.await[..], [line] if line.starts_with("the store fails: ")));
}

/// A store that never waits fails in its own way: there is no awaited answer that could show a recovery.
#[test]
fn a_thousand_failures_at_once_are_one_line() {
    let limiter = Limiter::new(Failing::down(), Limit::new("api", ["gcra 9/s"]).unwrap());
    let told = log::warnings(|| {
        for _ in 0..1_000 {
            assert!(limiter.check("alice").now().is_err());
        }
    });
    assert!(matches!(&told[..], [line] if line.starts_with("the store fails: ")), "{told:?}");
}

/// A store over a network that fails on demand.
struct Flapping(MemoryStore, Arc<AtomicBool>);
struct FlappingLimit(MemoryLimit, Arc<AtomicBool>);

impl Store for Flapping {
    type Opened = FlappingLimit;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.0)
    }

    fn id(&self) -> StoreId {
        self.0.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> FlappingLimit {
        FlappingLimit(self.0.open(limit, options), Arc::clone(&self.1))
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.ping()
    }
}

impl OpenedLimit for FlappingLimit {
    fn inner(&self) -> Option<&dyn OpenedLimit> {
        Some(&self.0)
    }

    fn limit(&self) -> &Limit {
        self.0.limit()
    }

    fn ask<'a>(
        &'a self,
        request: sluicegate::store::Request<'a>,
    ) -> Answer<impl Future<Output = Result<Decision, Error>> + Send + 'a> {
        Answer::Later(async move {
            if self.1.load(Ordering::Relaxed) {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "away").into());
            }
            self.0.ask(request).wait().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_and_goes_does_not_fill_the_log() {
    let is_away = Arc::new(AtomicBool::new(false));
    let store = Flapping(MemoryStore::new(), Arc::clone(&is_away));
    let limiter = Limiter::new(store, Limit::new("api", ["gcra 9/s"]).unwrap());
    let told = log::messages_of(async {
        for change in 1..=200_u32 {
            is_away.store(change % 2 == 1, Ordering::Relaxed);
            assert_eq!(limiter.check("alice").await.is_err(), change % 2 == 1);
            tokio::time::advance(Duration::from_millis(50)).await;
        }
        is_away.store(true, Ordering::Relaxed);
        assert!(limiter.check("alice").await.is_err());
    });
    let fails = "the store fails: away. Until it answers again, \
                 requests get an error: `on_store_failure` is `error`";
    let again = format!("{fails}; 198 changes were left out since the last such line");
    assert_eq!(told.await, [fails, "the store answers again: 1 request failed in 50 ms", &again]);
}

/// They were a warning for each request, in addition to the line about the store.
#[test]
fn a_thousand_charges_refunds_and_releases_that_fail_are_one_line() {
    const REQUESTS: usize = 1_000;
    let store = Unsteady::new(MemoryStore::new());
    let limits = "{page: {policies: [fixed_window 100000/h]}, \
                   export: {policies: [concurrency 1000 hold 1s]}}";
    let config = Config::parse(&format!("limits: {limits}"), "limits.yaml").unwrap();
    let registry = Registry::builder(store.clone()).config(&config).build();
    let middleware = |limit: &str| Middleware::new(registry.gate(limit)).key(fixed("all"));
    let serve = async |middleware: &Middleware| {
        let Verdict::Admit(admission) = middleware.decide(&Request::new(())) else { panic!() };
        store.set(Outage::Away(StoreErrorKind::Unavailable));
        let _ = admission.settle(&Response::new(())).await;
        store.set(None);
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let told = log::warnings(|| {
        runtime.block_on(async {
            let charges = middleware("page").charge_after(|_| Some(1));
            let refunds = middleware("page").refund_if(|_| true);
            for _ in 0..REQUESTS {
                serve(&charges).await;
                serve(&refunds).await;
            }
            let export = registry.gate("export");
            let mut permits = Vec::new();
            for _ in 0..REQUESTS {
                permits.push(export.permit("all").await.unwrap());
            }
            store.set(Outage::Away(StoreErrorKind::Unavailable));
            drop(permits);
            // By then the tasks that release them have given up.
            tokio::time::sleep(Duration::from_secs(10)).await;
        });
    });
    assert!(matches!(&told[..], [line] if line.starts_with("the store fails: ")), "{told:?}");
}
