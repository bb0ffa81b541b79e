//! Waiting for a turn: the order of callers, in one process and in two.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the trace of two processes needs a clock that both have"
)]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sluicegate::store::{KeyPrefix, Span, Store as _};
use sluicegate::testing::{Clock, Timestamp};
use sluicegate::{Limiter, MemoryStore, RedisStore};
use sluicegate_testkit::processes::{Process, say, told};
use sluicegate_testkit::servers;
use sluicegate_testkit::wait::until_async;
use tokio::time::Instant;

/// The store's time is that of the (paused) runtime.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_700_000_000_000_000 + elapsed).unwrap()
    }
}

fn embedded(specs: &[&str]) -> Limiter<MemoryStore> {
    let store = MemoryStore::builder().clock(Arc::new(RuntimeClock(Instant::now()))).build();
    Limiter::new(store, sluicegate::Limit::new("queue", specs).unwrap())
}

fn on_server(url: &str, prefix: &str, spec: &str) -> Limiter<RedisStore> {
    let prefix: KeyPrefix = prefix.parse().unwrap();
    let builder = RedisStore::builder(url).unwrap().prefix(prefix);
    let store = builder.deadline(Duration::from_secs(5)).build();
    Limiter::new(store, sluicegate::Limit::new("queue", [spec]).unwrap())
}

const LONG: Duration = Duration::from_secs(60);

/// Polls a future once: it has called the store and waits for its turn.
async fn until_it_waits<F: Future + Unpin>(future: &mut F) {
    tokio::select! {
        biased;
        _ = future => panic!("it was to wait"),
        () = tokio::task::yield_now() => {}
    }
}

/// A, B and C reserve seconds 1, 2 and 3. A stops waiting. D arrives, and gets A's second, not C's.
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_that_others_stand_behind_goes_to_the_next_and_nobody_shares_an_instant() {
    let limiter = embedded(&["gcra 1/s burst 1"]);
    assert!(limiter.check("k").now().unwrap().is_allowed());
    let start = Instant::now();
    let turn = || Box::pin(limiter.check("k").within(LONG));
    let (mut a, mut b, mut c) = (turn(), turn(), turn());
    until_it_waits(&mut a).await;
    until_it_waits(&mut b).await;
    until_it_waits(&mut c).await;
    drop(a);
    let d = turn();
    let acted = async |turn| {
        let decision: Result<sluicegate::Decision, _> = std::pin::pin!(turn).await;
        assert!(decision.unwrap().is_allowed());
        start.elapsed().as_secs()
    };
    let (b, c, d) = tokio::join!(acted(b), acted(c), acted(d));
    assert_eq!([b, c, d], [2, 3, 1]);
}

/// The last in the queue gives its turn back, and then the one before it is the last.
#[tokio::test(start_paused = true)]
async fn the_last_in_line_that_stops_waiting_gives_its_turn_to_the_next() {
    let limiter = embedded(&["token_bucket 1/s burst 1", "shaper 10/s queue 100"]);
    assert!(limiter.reserve("k", Duration::ZERO).await.unwrap().is_allowed());
    let start = Instant::now();
    let turn = || Box::pin(limiter.check("k").within(LONG));
    let (mut a, mut b, mut c) = (turn(), turn(), turn());
    until_it_waits(&mut a).await;
    until_it_waits(&mut b).await;
    until_it_waits(&mut c).await;
    drop(c);
    drop(b);
    assert!(turn().await.unwrap().is_allowed());
    assert_eq!(start.elapsed().as_secs(), 2, "B's second");
    drop(a);
}

/// Seed defect 0.16: twenty waiters for one unit a second accept a wait of 1.5 s. One passes. The others are refused
/// immediately, and each called the store once.
#[tokio::test(start_paused = true)]
async fn hopeless_waits_are_refused_at_once_and_one_deadline_covers_the_whole_wait() {
    let limiter = embedded(&["token_bucket 1/s burst 1"]);
    assert!(limiter.check("k").now().unwrap().is_allowed());
    let start = Instant::now();
    let mut passed = Vec::new();
    let waits = (0..20).map(|_| async {
        let decision = limiter.check("k").within(Duration::from_millis(1_500)).await.unwrap();
        (decision.is_allowed(), start.elapsed().as_millis())
    });
    for wait in futures_in_order(waits).await {
        match wait {
            (true, after) => passed.push(after),
            (false, after) => assert_eq!(after, 0, "a refusal that waited"),
        }
    }
    assert_eq!(passed, [1_000]);
}

/// The policies that give callers an instant.
const RESERVABLE: [&str; 6] = [
    "token_bucket 1/h burst 1",
    "gcra 1/h burst 1",
    "leaky_bucket 1/h capacity 1",
    "smooth 1/h burst 0s",
    "warmup 1/h over 10h",
    "shaper 1/h queue 99",
];

/// Seed 3.4: the wait of a reservation is compared with the maximum wait that it accepts. A refused one gets its answer
/// immediately and takes nothing.
#[tokio::test(start_paused = true)]
async fn a_reservation_is_made_if_its_wait_fits_and_takes_nothing_if_not() {
    for spec in RESERVABLE {
        let limiter = embedded(&[spec]);
        let start = Instant::now();
        let reserve = async |within| limiter.reserve("k", within).await.unwrap();
        assert_eq!(reserve(Duration::ZERO).await.wait(), Duration::ZERO, "{spec}");
        let mut before = Duration::ZERO;
        for place in 1..=3 {
            let refused = reserve(Duration::ZERO).await;
            assert!(refused.is_denied(), "{spec}: place {place}");
            let wait = refused.retry_after().duration().unwrap();
            assert!(wait > before, "{spec}: place {place} after {wait:?}");
            let shorter = wait - Duration::from_micros(1);
            assert!(reserve(shorter).await.is_denied(), "{spec}: place {place}");
            let made = reserve(wait).await;
            assert!(made.is_allowed() && made.wait() == wait, "{spec}: place {place} {made:?}");
            before = wait;
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited for an answer");
    }
}

/// Checks reservations on servers, whose clocks continue in the meantime.
#[test]
fn a_server_makes_a_reservation_if_its_wait_fits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for server in servers::shared_each().unwrap() {
        for spec in RESERVABLE {
            let limiter = on_server(&server.url(), &servers::fresh_prefix("reserve"), spec);
            let reserve = |within| runtime.block_on(limiter.reserve("k", within)).unwrap();
            assert_eq!(reserve(Duration::ZERO).wait(), Duration::ZERO, "{spec}");
            let refused = reserve(Duration::ZERO).retry_after().duration().unwrap();
            let (wait, half) = (refused, refused / 2);
            assert!(reserve(half).is_denied(), "{spec}");
            let made = reserve(wait);
            assert!(made.is_allowed() && made.wait() <= wait && made.wait() > half, "{made:?}");
        }
    }
}

async fn futures_in_order<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// Seed defect 3.1: a hundred callers of 1/s, and one that takes five.
#[tokio::test(start_paused = true)]
async fn a_hundred_waiters_act_one_after_another() {
    for spec in ["smooth 1/s burst 1s", "gcra 1/s burst 1", "shaper 1/s queue 200"] {
        let limiter = embedded(&[spec]);
        let start = Instant::now();
        let waits = (0..100).map(|_| async {
            let decision = limiter.check("k").within(Duration::from_secs(1_000)).await.unwrap();
            assert!(decision.is_allowed(), "{spec}");
            start.elapsed().as_secs()
        });
        let acted = futures_in_order(waits).await;
        assert_eq!(acted, (0..100).collect::<Vec<_>>(), "{spec}");
    }
    let limiter = embedded(&["smooth 1/s burst 1s"]);
    let start = Instant::now();
    let five = sluicegate::Ask::new("k").cost(5);
    assert!(limiter.check(five).within(LONG).await.unwrap().is_allowed());
    assert!(limiter.check("k").within(LONG).await.unwrap().is_allowed());
    assert_eq!(start.elapsed().as_secs(), 5);
}

/// With n waiters the server gets n calls: each gets its instant with the answer to its request.
#[test]
fn a_turn_given_back_on_a_server_is_the_next_callers() {
    for server in servers::shared_each().unwrap() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // Slow enough that no instant comes before the end of the test.
            let limiter =
                on_server(&server.url(), &servers::fresh_prefix("queue"), "gcra 1/h burst 1");
            let long = Duration::from_secs(100 * 3_600);
            assert!(limiter.check("k").await.unwrap().is_allowed());
            let hours = async || {
                let reservation = limiter.reserve("k", Duration::from_secs(86_400)).await.unwrap();
                Span::from(reservation.wait()).as_micros().div_ceil(3_600_000_000)
            };
            // B waits in the background and is dropped while it does.
            let waiting = tokio::spawn({
                let limiter = limiter.clone();
                async move { limiter.check("k").within(long).await }
            });
            let queue = async |is_as_expected: fn(Option<u64>) -> bool| {
                until_async("B's place in the queue", async || {
                    let retry = limiter.peek("k").await.unwrap().retry_after().as_secs_ceil();
                    if is_as_expected(retry) { Ok(()) } else { Err(retry) }
                })
                .await;
            };
            queue(|retry| retry > Some(3_600)).await;
            waiting.abort();
            assert!(waiting.await.unwrap_err().is_cancelled());
            // Given back by a task of its own, after the abort.
            queue(|retry| retry <= Some(3_600)).await;
            assert_eq!(hours().await, 1);
            assert_eq!(hours().await, 2);
        });
    }
}

/// The bounds of an instant that a call was given, in µs since the epoch.
#[derive(Clone, Copy, Debug)]
struct Told {
    asked: u64,
    answered: u64,
    earliest: u64,
    latest: u64,
}

fn now() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

const INTERVAL: u64 = 20_000;
const BURST: u64 = 3;
const WAITERS: usize = 60;

#[test]
#[ignore = "a process of `two_processes_queue_in_the_order_of_the_store`"]
fn process_that_queues() {
    let [url, prefix] = told();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let all = runtime.block_on(async {
        let limiter = on_server(&url, &prefix, "token_bucket 50/s burst 3");
        limiter.store().ping().await.unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for waiter in 0..WAITERS {
            let limiter = limiter.clone();
            tasks.spawn(async move {
                let asked = now();
                let turn = limiter.reserve("queue", Duration::from_secs(60)).await.unwrap();
                let answered = now();
                assert!(turn.is_allowed());
                let wait = Span::from(turn.wait()).as_micros();
                tokio::time::sleep(turn.wait()).await;
                assert!(now() >= asked + wait, "it acted before its instant");
                Told { asked, answered, earliest: asked + wait, latest: answered + wait }
            });
            // Some send their request immediately, some later.
            if waiter % 7 == 0 {
                tokio::task::yield_now().await;
            }
        }
        tasks.join_all().await
    });
    for Told { asked, answered, earliest, latest } in all {
        say(format_args!("{asked} {answered} {earliest} {latest}"));
    }
}

/// Two processes queue for one key on one server, and the auditor has both traces. In every interval at most burst +
/// rate × length act, and no two share an instant once the burst is used. A caller that has its answer before another
/// request acts before that one.
#[test]
fn two_processes_queue_in_the_order_of_the_store() {
    for server in servers::shared_each().unwrap() {
        let prefix = servers::fresh_prefix("queue");
        let process = || Process::start("queueing::process_that_queues", &[&server.url(), &prefix]);
        let processes = [process(), process()];
        let mut told = Vec::new();
        for line in processes.into_iter().flat_map(Process::finish) {
            let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
            let [asked, answered, earliest, latest] = numbers[..] else { panic!("{line}") };
            told.push(Told { asked, answered, earliest, latest });
        }
        assert_eq!(told.len(), 2 * WAITERS);
        audit(told);
    }
}

fn audit(mut told: Vec<Told>) {
    // An act whose bounds lie within an interval happened in it. One whose bounds only overlap the interval says nothing.
    told.sort_by_key(|told| told.latest);
    for from in &told {
        let surely_later = told.iter().filter(|to| to.earliest >= from.earliest);
        for (to, acts) in surely_later.zip(1_u64..) {
            let length = to.latest - from.earliest;
            let most = BURST + length / INTERVAL;
            assert!(acts <= most, "{acts} acts within {length} us: {from:?} to {to:?}");
        }
    }
    for one in &told {
        for other in told.iter().filter(|other| one.answered < other.asked) {
            assert!(
                one.earliest <= other.latest,
                "{other:?} came later than {one:?} and acts sooner"
            );
        }
    }
    // All were admitted, so the last acts when the burst and the refill allow, and no later.
    let (first, last) = (told[0], told[told.len() - 1]);
    let needed = (u64::try_from(told.len()).unwrap() - BURST) * INTERVAL;
    let idle = told.windows(2).filter(|pair| pair[1].earliest > pair[0].latest + INTERVAL).count();
    if idle == 0 {
        assert!(last.earliest <= first.latest + needed + INTERVAL, "turns were lost");
    }
}
