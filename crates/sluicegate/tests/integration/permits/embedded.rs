//! Permits of the embedded store, whose clock is driven with the timers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer, Settled};
use sluicegate::decision::HoldFound;
use sluicegate::error::RequestErrorKind;
use sluicegate::store::Queued;
use sluicegate::testing::ManualClock;
use sluicegate::{Ask, Config, Limiter, MemoryStore, Registry, Usage};
use tokio::time::timeout;

struct World {
    limiter: Limiter<MemoryStore>,
    clock: Arc<ManualClock>,
    renewals: Arc<Renewals>,
}

/// When holds were renewed, by the tokio clock.
#[derive(Default)]
struct Renewals(Mutex<Vec<tokio::time::Instant>>);

impl Observer for Renewals {
    fn answered(&self, _: &Answered<'_>) {}

    fn settled(&self, settled: &Settled<'_>) {
        if matches!(settled.operation, sluicegate::store::Operation::Renew { .. }) {
            self.0.lock().unwrap().push(tokio::time::Instant::now());
        }
    }
}

fn world(specs: &[&str]) -> World {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let renewals = Arc::new(Renewals::default());
    let limit = sluicegate::Limit::new("export", specs).unwrap();
    let limiter = Limiter::builder(store, limit).observer(renewals.clone()).build();
    World { limiter, clock, renewals }
}

impl World {
    /// Lets time pass for the store and for timers.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds * 10 {
            self.clock.advance(Duration::from_millis(100));
            tokio::time::advance(Duration::from_millis(100)).await;
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn left(&self) -> u64 {
        self.limiter.peek("acme").now().unwrap().remaining().unwrap()
    }

    fn renewals(&self) -> Vec<tokio::time::Instant> {
        self.renewals.0.lock().unwrap().clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_in_flight_until_it_is_dropped() {
    let world = world(&["concurrency 2 hold 30s"]);
    let first = world.limiter.permit("acme").await.unwrap();
    let second = world.limiter.permit("acme").await.unwrap();
    assert!(first.is_allowed() && second.is_allowed() && world.left() == 0);
    let denied = world.limiter.permit("acme").await.unwrap();
    assert!(denied.is_denied() && denied.token().is_none() && !denied.is_lost());
    drop(denied);
    assert_eq!(world.left(), 0, "a denial holds nothing");
    drop(first);
    assert_eq!(world.left(), 1);
    drop(second);
    assert_eq!(world.left(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_waited_for_in_the_queue_of_its_limit() {
    let world = world(&["concurrency 1 hold 30s queue 2 priorities 2"]);
    let first = world.limiter.permit("acme").await.unwrap();
    let (served, mut served_first) = tokio::sync::mpsc::unbounded_channel();
    for priority in [1, 0] {
        let (limiter, served) = (world.limiter.clone(), served.clone());
        tokio::spawn(async move {
            let ask = Ask::new("acme").priority(priority);
            let permit = limiter.permit(ask).within(Duration::from_secs(60)).await.unwrap();
            served.send(priority).unwrap();
            // It is renewed meanwhile, like any other.
            tokio::time::sleep(Duration::from_secs(45)).await;
            assert!(permit.is_allowed() && !permit.is_lost());
        });
        world.pass(1).await;
    }
    let start = tokio::time::Instant::now();
    let third = world.limiter.permit("acme").within(Duration::from_secs(60)).await.unwrap();
    assert_eq!(third.queued(), Some(Queued::Full));
    assert_eq!(start.elapsed(), Duration::ZERO, "a full queue denies at once");

    drop(first);
    world.pass(1).await;
    assert_eq!(served_first.try_recv(), Ok(0), "who came later has the higher priority");
    world.pass(40).await;
    assert!(!world.renewals().is_empty() && served_first.try_recv().is_err());
    world.pass(10).await;
    assert_eq!(served_first.try_recv(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_cancelled_task_release() {
    let world = world(&["concurrency 1 hold 30s"]);
    let limiter = world.limiter.clone();
    let panics = tokio::spawn(async move {
        let permit = limiter.permit("acme").await.unwrap();
        assert!(permit.is_denied(), "on purpose");
    });
    assert!(panics.await.unwrap_err().is_panic());
    assert_eq!(world.left(), 1);

    let limiter = world.limiter.clone();
    let (told, has_begun) = tokio::sync::oneshot::channel();
    let cancelled = tokio::spawn(async move {
        let _permit = limiter.permit("acme").await.unwrap();
        told.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    has_begun.await.unwrap();
    assert_eq!(world.left(), 0);
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    assert_eq!(world.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn it_renews_itself_between_a_quarter_and_a_third_of_its_hold_until_its_life_is_over() {
    let world = world(&["concurrency 1 hold 30s"]);
    let start = tokio::time::Instant::now();
    let permit = world.limiter.permit("acme").max_life(Duration::from_secs(240));
    let permit = permit.await.unwrap();
    world.pass(200).await;
    assert!(!permit.is_lost() && world.left() == 0);
    let renewals = world.renewals();
    let mut last = start;
    for renewal in &renewals {
        let passed = renewal.duration_since(last).as_secs_f64();
        assert!((7.4..=10.2).contains(&passed), "{passed}");
        last = *renewal;
    }
    assert!((19..=26).contains(&renewals.len()), "{}", renewals.len());
    assert!(timeout(Duration::ZERO, permit.lost()).await.is_err());
    world.pass(39).await;
    assert!(!permit.is_lost() && world.left() == 0, "a second is left");
    world.pass(1).await;
    assert!(permit.is_lost() && world.left() == 1);
    permit.lost().await;
    let renewed = world.renewals().len();
    world.pass(60).await;
    assert_eq!(world.renewals().len(), renewed, "it is over");
}

#[tokio::test(start_paused = true)]
async fn permits_that_are_due_at_about_the_same_time_are_renewed_together() {
    let world = world(&["concurrency 2000 hold 30s"]);
    let mut permits = Vec::new();
    for _ in 0..10 {
        for _ in 0..100 {
            permits.push(world.limiter.permit("acme").await.unwrap());
        }
        world.pass(0).await;
        tokio::time::advance(Duration::from_millis(100)).await;
    }
    world.pass(29).await;
    let renewals = world.renewals();
    assert!(renewals.len() >= 3_000, "{}", renewals.len());
    let mut instants = renewals;
    instants.dedup();
    assert!(instants.len() <= 8, "{} times", instants.len());
    drop(permits);
    assert_eq!(world.left(), 2_000);
    let renewed = world.renewals().len();
    world.pass(60).await;
    assert_eq!(world.renewals().len(), renewed, "nobody is left");
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_told_at_the_next_renewal() {
    let world = world(&["concurrency 1 hold 30s"]);
    let permit = world.limiter.permit("acme").await.unwrap();
    assert!(world.limiter.reset("acme").await.unwrap().is_allowed());
    let start = tokio::time::Instant::now();
    permit.lost().await;
    assert!(start.elapsed() <= Duration::from_secs(10));
    assert!(permit.is_lost());
    let other = world.limiter.permit("acme").await.unwrap();
    drop(permit);
    assert_eq!(world.left(), 0, "what is lost releases nobody else");
    drop(other);
    assert_eq!(world.left(), 1);
}

/// The store and this machine have separate clocks. A renewed hold's end counts from the request.
#[tokio::test(start_paused = true)]
async fn a_permit_whose_time_ran_out_here_stays_lost_though_the_store_has_it() {
    let world = world(&["concurrency 1 hold 30s"]);
    let permit = tokio::task::spawn_blocking({
        let limiter = world.limiter.clone();
        // Outside of async code, and inside of the runtime.
        move || limiter.permit("acme").now().unwrap()
    });
    let permit = permit.await.unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    assert!(permit.is_lost(), "nobody has renewed it in time");
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert!(permit.is_lost() && world.left() == 0);
    drop(permit);
    assert_eq!(world.left(), 1);
}

#[test]
fn without_a_runtime_it_is_not_renewed_and_released_at_once() {
    let world = world(&["concurrency 1 hold 30s"]);
    let permit = world.limiter.permit("acme").now().unwrap();
    assert!(permit.is_allowed() && world.left() == 0);
    drop(permit);
    assert_eq!(world.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_waits_gets_what_comes_free_long_before_its_hold_would_have_ended() {
    let world = world(&["concurrency 1 hold 1h"]);
    let first = world.limiter.permit("acme").await.unwrap();
    let limiter = world.limiter.clone();
    let waits = tokio::spawn(async move {
        limiter.permit("acme").within(Duration::from_secs(10)).await.unwrap()
    });
    world.pass(3).await;
    assert!(!waits.is_finished());
    drop(first);
    world.pass(1).await;
    assert!(waits.is_finished());
    let second = waits.await.unwrap();
    assert!(second.is_allowed());

    let start = tokio::time::Instant::now();
    let third = world.limiter.permit("acme").within(Duration::from_secs(1)).await.unwrap();
    assert!(third.is_denied());
    assert_eq!(start.elapsed(), Duration::from_secs(1), "a last time at the end");
    let many = Ask::new("acme").cost(2);
    let hopeless = world.limiter.permit(many).within(Duration::from_secs(1)).await.unwrap();
    assert!(hopeless.is_denied());
    assert_eq!(start.elapsed(), Duration::from_secs(1), "immediately");
}

#[tokio::test(start_paused = true)]
async fn a_permit_settles_what_other_policies_charged() {
    let world = world(&["concurrency 3 hold 30s as calls", "fixed_window 9000/h as tokens"]);
    let left = || {
        let decision = world.limiter.peek("acme").now().unwrap();
        [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
    };
    let ask = || Ask::new("acme").cost_of("calls", 1).cost_of("tokens", 1_000);
    let [settled, dropped, cancelled] = [
        world.limiter.permit(ask()).await.unwrap(),
        world.limiter.permit(ask()).await.unwrap(),
        world.limiter.permit(ask()).await.unwrap(),
    ];
    assert_eq!(left(), [0, 6_000]);
    let decision = settled.settle(Usage::of("tokens", 400)).await.unwrap().unwrap();
    assert_eq!(decision.hold_found(), Some(HoldFound::Live));
    assert_eq!(left(), [1, 6_600]);
    drop(dropped);
    assert_eq!(left(), [2, 6_600], "as charged");
    let wrong = cancelled.settle(Usage::of("token", 400)).await.unwrap_err();
    assert_eq!(wrong.as_request().unwrap().kind(), RequestErrorKind::Invalid);
    assert_eq!(left(), [3, 6_600], "it is released all the same");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_is_taken_out_is_somebody_else_s() {
    let world = world(&["concurrency 1 hold 30s"]);
    let token = world.limiter.permit("acme").await.unwrap().into_token().unwrap();
    assert_eq!(world.left(), 0);
    world.pass(29).await;
    assert!(world.renewals().is_empty() && world.left() == 0);
    assert!(world.limiter.settle(&token, Usage::as_charged()).now().unwrap().is_allowed());
    assert_eq!(world.left(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_gate_gives_permits_of_several_limits_and_of_keyed_ones() {
    let config = "limits: {user: {policies: [concurrency 1 hold 30s], allow: [root]}, team: {policies: [concurrency 3 hold 1min]}}";
    let registry = Registry::open(&Config::parse(config, "limits.yaml").unwrap()).unwrap();
    let both = registry.gate("user").and(registry.gate("team")).unwrap();
    let left = |limit: &str, key: &str| registry.gate(limit).peek(key).now().unwrap().remaining();
    let permit = both.permit(Ask::new("alice").and("red")).await.unwrap();
    let listed = both.permit(Ask::new("root").and("red")).await.unwrap();
    assert_eq!((left("user", "alice"), left("team", "red")), (Some(0), Some(1)));
    let alone = registry.gate("user").permit("root").await.unwrap();
    assert!(alone.is_allowed() && alone.token().is_none());
    drop((permit, listed, alone));
    assert_eq!((left("user", "alice"), left("team", "red")), (Some(1), Some(3)));

    let make = async |_: String| Ok::<_, std::io::Error>(["concurrency 2 hold 30s"]);
    let keyed = registry.keyed("plan", make).get("acme").await.unwrap();
    let permit = keyed.permit("acme").await.unwrap();
    assert_eq!(keyed.peek("acme").now().unwrap().remaining(), Some(1));
    drop(permit);
    assert_eq!(keyed.peek("acme").now().unwrap().remaining(), Some(2));
}

/// Runs tasks that end in every way, and counts those that are in flight.
#[tokio::test(start_paused = true)]
async fn never_more_are_in_flight_than_there_are_permits() {
    let world = world(&["concurrency 5 hold 30s"]);
    let [now, most, served] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for number in 0..200_u64 {
        let (limiter, now, most, served) =
            (world.limiter.clone(), now.clone(), most.clone(), served.clone());
        tasks.push(tokio::spawn(async move {
            struct Leaves(Arc<AtomicU64>);
            impl Drop for Leaves {
                fn drop(&mut self) {
                    self.0.fetch_sub(1, Ordering::SeqCst);
                }
            }
            let permit = limiter.permit("acme").within(Duration::from_secs(60)).await.unwrap();
            if permit.is_denied() {
                return;
            }
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let _leaves = Leaves(now);
            served.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(number % 7 * 300)).await;
            assert!(number % 11 != 0, "on purpose");
        }));
    }
    for step in 0..60 {
        world.pass(1).await;
        tasks[step * 3].abort();
    }
    assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (5, 0));
    assert!(served.load(Ordering::SeqCst) > 60);
    assert_eq!(world.left(), 5);
}
