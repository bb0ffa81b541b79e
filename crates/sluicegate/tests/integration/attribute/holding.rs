//! Functions that hold their units until they have returned.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sluicegate::error::DeniedReason;
use sluicegate::middleware::Charge;
use sluicegate::{Config, Denied, Registry, limit};

const LIMITS: &str = "
limits:
  export: {policies: [concurrency 1 hold 30s as open, fixed_window 100/h as units]}
  report: {policies: [concurrency 1 hold 30s queue 9 priorities 2]}
  queued: {policies: [concurrency 1 hold 1h queue 3]}
  llm: {policies: [fixed_window 9000/h as tokens]}
";

fn registry() -> Registry {
    Registry::open(&Config::parse(LIMITS, "limits.yaml").unwrap()).unwrap()
}

fn left(registry: &Registry, limit: &str, key: &str) -> Vec<u64> {
    let decision = registry.gate(limit).peek(key).now().unwrap();
    decision.policies().map(|policy| policy.remaining().unwrap()).collect()
}

#[limit("export", key = "all", registry = limits)]
fn export(limits: &Registry, work: impl FnOnce()) -> Result<(), Denied> {
    work();
    Ok(())
}

#[test]
fn a_function_is_in_flight_until_it_returns_or_panics() {
    let limits = registry();
    export(&limits, || {
        assert_eq!(left(&limits, "export", "all"), [0, 99]);
        let denied = export(&limits, || panic!("it is not called")).unwrap_err();
        assert_eq!(denied.reason(), DeniedReason::Limited);
    })
    .unwrap();
    assert_eq!(left(&limits, "export", "all"), [1, 99]);
    let panics = AssertUnwindSafe(|| export(&limits, || panic!("on purpose")));
    assert!(catch_unwind(panics).is_err());
    assert_eq!(left(&limits, "export", "all"), [1, 98]);
}

#[limit("export", key = "all", registry = limits, wait = "10s")]
async fn stream(limits: &Registry, lasts: Duration) -> Result<(), Denied> {
    tokio::time::sleep(lasts).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_async_function_is_in_flight_until_it_returns_or_is_cancelled_and_others_wait() {
    let limits = registry();
    let cancelled = stream(&limits, Duration::from_secs(3_600));
    assert!(tokio::time::timeout(Duration::from_secs(1), cancelled).await.is_err());
    assert_eq!(left(&limits, "export", "all"), [1, 99]);

    let start = tokio::time::Instant::now();
    let second = Duration::from_secs(1);
    let (first, other) = tokio::join!(stream(&limits, second), stream(&limits, second));
    assert!(first.is_ok() && other.is_ok());
    assert!(start.elapsed() >= 2 * second, "one after the other");
    assert_eq!(left(&limits, "export", "all"), [1, 97]);
}

#[limit("report", key = "all", registry = limits, wait = "10s", priority = u8::from(is_batch))]
async fn report(limits: &Registry, is_batch: bool, done: &Mutex<Vec<bool>>) -> Result<(), Denied> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    done.lock().unwrap().push(is_batch);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_permit_in_the_order_of_their_priority() {
    let (limits, done) = (registry(), Mutex::default());
    let call = |is_batch| report(&limits, is_batch, &done);
    let (first, batch, person) = tokio::join!(call(true), call(true), call(false));
    assert!(first.is_ok() && batch.is_ok() && person.is_ok());
    assert_eq!(*done.lock().unwrap(), [true, false, true], "who asked last goes first");
}

struct Reply {
    tokens: u64,
}

#[limit("llm", key = "{user}", cost = 1_000, registry = limits, hold = "60s",
        settle = |reply: &Result<Reply, Denied>| {
            reply.as_ref().ok().map(|reply| [("tokens", reply.tokens)])
        })]
async fn complete(limits: &Registry, user: &str, tokens: u64) -> Result<Reply, Denied> {
    tokio::task::yield_now().await;
    if tokens == 0 {
        return Err(registry().gate("nobody").enforce("").await.unwrap_err());
    }
    Ok(Reply { tokens })
}

#[limit("llm", key = "all", cost = 1_000, registry = limits, settle = used)]
fn count(limits: &Registry, tokens: u64) -> Result<u64, Denied> {
    Ok(tokens)
}

fn used(tokens: &Result<u64, Denied>) -> Charge {
    tokens.as_ref().map_or_else(|_| Charge::nothing(), |tokens| Charge::from(*tokens))
}

#[tokio::test]
async fn an_estimate_is_settled_for_what_the_result_says_was_used() {
    let limits = registry();
    assert_eq!(complete(&limits, "alice", 412).await.map(|reply| reply.tokens).unwrap(), 412);
    assert_eq!(left(&limits, "llm", "alice"), [8_588]);
    assert!(complete(&limits, "alice", 0).await.is_err());
    assert_eq!(left(&limits, "llm", "alice"), [7_588], "nothing is said: as charged");
    assert_eq!(complete(&limits, "alice", 2_000).await.map(|reply| reply.tokens).unwrap(), 2_000);
    assert_eq!(left(&limits, "llm", "alice"), [5_588], "what was used beyond is charged");
}

#[test]
fn a_function_that_is_not_async_settles_too() {
    let limits = registry();
    assert_eq!(count(&limits, 300).unwrap(), 300);
    assert_eq!(left(&limits, "llm", "all"), [8_700]);
}

/// Other threads than the one that it blocks renew its hold.
#[test]
fn a_blocking_function_keeps_its_permit_for_longer_than_a_hold_whatever_is_around() {
    #[limit("concurrency 1 hold 100ms", key = "all", registry = limits)]
    fn long(limits: &Registry, renewed: &AtomicU64) -> Result<(), Denied> {
        sluicegate_testkit::wait::until_seldom("four renewals", || {
            let renewals = renewed.load(Ordering::SeqCst);
            if renewals >= 4 { Ok(()) } else { Err(renewals) }
        });
        Ok(())
    }

    struct Renewals(AtomicU64);
    impl sluicegate::admin::Observer for Renewals {
        fn answered(&self, _: &sluicegate::admin::Answered<'_>) {}
        fn settled(&self, settled: &sluicegate::admin::Settled<'_>) {
            let is_renewed = settled.outcome.is_ok_and(sluicegate::Decision::is_allowed);
            if is_renewed && matches!(settled.operation, sluicegate::store::Operation::Renew { .. })
            {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    let renewals = std::sync::Arc::new(Renewals(AtomicU64::new(0)));
    let limits =
        Registry::builder(sluicegate::MemoryStore::new()).observer(renewals.clone()).build();
    long(&limits, &renewals.0).unwrap();
    renewals.0.store(0, Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { long(&limits, &renewals.0) }).unwrap();
}

/// Removing the word `shadow` later changes only which calls are denied.
#[test]
fn a_shadow_holds_too_and_denies_nobody() {
    #[limit("export", key = "all", registry = limits, shadow)]
    fn trial(limits: &Registry, work: impl FnOnce()) {
        work();
    }
    let limits = registry();
    trial(&limits, || {
        assert_eq!(left(&limits, "export", "all"), [0, 99]);
        trial(&limits, || ());
    });
    assert_eq!(left(&limits, "export", "all"), [1, 99]);
}

#[limit("queued", key = "all", registry = limits, wait = "60s")]
async fn in_turn(limits: &Registry, number: u64, order: &Mutex<Vec<u64>>) -> Result<(), Denied> {
    order.lock().unwrap().push(number);
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn functions_wait_in_the_queue_of_their_limit() {
    let (limits, order) = (registry(), Mutex::default());
    let start = tokio::time::Instant::now();
    let call = |number| in_turn(&limits, number, &order);
    let (first, second, third, fourth, full) =
        tokio::join!(call(0), call(1), call(2), call(3), call(4));
    assert!([first, second, third, fourth].iter().all(Result::is_ok) && full.is_err());
    assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
    assert_eq!(start.elapsed(), Duration::from_secs(4), "nobody is idle");
}
