//! Limiters over the embedded store, and over stores that fail.

mod durations;
mod jitter;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sluicegate_core::{
    Clock, ManualClock, RetryAfter, Source, StoreError, StoreErrorKind, TimeSource, Timestamp,
};
use sluicegate_memory::MemoryStore;
use sluicegate_testkit::layers::Failing;
use tokio::time::Instant;

use super::*;
use crate::observe::{Answered, Observer};
use crate::policy::Ban;
use crate::question::{Question, Verb};

/// The store's time is that of the (paused) runtime.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.0.elapsed().as_micros()).unwrap();
        Timestamp::from_micros(1_700_000_000_000_000 + elapsed).unwrap()
    }
}

fn limiter(policies: &[&str]) -> Limiter<MemoryStore> {
    let store = MemoryStore::builder().clock(Arc::new(RuntimeClock(Instant::now()))).build();
    Limiter::new(store, Limit::new("l", policies).unwrap())
}

const NO_TIME: Duration = Duration::ZERO;

fn request_error(error: &Error) -> RequestErrorKind {
    error.as_request().unwrap().kind()
}

#[tokio::test(start_paused = true)]
async fn a_reservation_waits_until_its_instant() {
    let limiter = limiter(&["token_bucket 1/s burst 1"]);
    let start = Instant::now();
    for seconds in 0..3 {
        let decision = limiter.check("k").within(Duration::from_secs(5)).await.unwrap();
        assert!(decision.is_allowed());
        assert_eq!(start.elapsed().as_millis(), seconds * 1_000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_is_asked_again_when_it_said_it_would_pass() {
    let limiter = limiter(&["fixed_window 1/min"]);
    let start = Instant::now();
    assert!(limiter.check("k").within(NO_TIME).await.unwrap().is_allowed());
    assert!(limiter.check("k").within(Duration::from_secs(60)).await.unwrap().is_allowed());
    assert_eq!(start.elapsed().as_secs(), 60);
}

/// Covers each family, also with a queue, with one policy or two.
#[tokio::test(start_paused = true)]
async fn a_ban_that_ends_in_time_is_waited_out_by_every_algorithm() {
    let second = Duration::from_secs(1);
    for specs in [
        &["gcra 100/s burst 100"][..],
        &["token_bucket 100/s burst 100"],
        &["leaky_bucket 100/s capacity 100"],
        &["shaper 100/s queue 99"],
        &["smooth 100/s burst 1s start full"],
        &["warmup 100/s over 10s"],
        &["fixed_window 100/s"],
        &["sliding_window 100/s slices 10"],
        &["sliding_counter 100/s"],
        &["sliding_log 100/s"],
        &["concurrency 100 hold 1s queue 10"],
        &["gcra 100/s burst 100", "smooth 100/s burst 1s start full"],
        &["gcra 100/s burst 100", "fixed_window 100/s"],
    ] {
        let ban: Ban = "1/min for 1s".parse().unwrap();
        let limit = Limit::new("l", specs).unwrap().banning(ban);
        let store = MemoryStore::builder().clock(Arc::new(RuntimeClock(Instant::now()))).build();
        let limiter = Limiter::new(store, limit);
        let start = Instant::now();
        let _ = limiter.ban("k", second).await.unwrap();
        let within = Duration::from_secs(5);
        let acquire = async || {
            if specs[0].contains("queue 10") {
                let grant = limiter.check("k").hold(second).within(within).await.unwrap();
                return grant.into_decision();
            }
            limiter.check("k").within(within).await.unwrap()
        };
        let decision = acquire().await;
        assert!(decision.is_allowed(), "{specs:?}: {decision:?}");
        assert_eq!(start.elapsed(), second, "{specs:?}");

        // A ban that doesn't end in time is refused immediately.
        let _ = limiter.ban("k", Duration::from_secs(60)).await.unwrap();
        let start = Instant::now();
        let decision = acquire().await;
        assert_eq!(decision.retry_after(), RetryAfter::After(Duration::from_secs(60)), "{specs:?}");
        assert_eq!(start.elapsed(), NO_TIME, "{specs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_ends_in_time_is_waited_out() {
    let second = Duration::from_secs(1);
    for spec in ["gcra 100/s burst 100", "fixed_window 100/s", "concurrency 9 hold 1s queue 9"] {
        let store = MemoryStore::builder().clock(Arc::new(RuntimeClock(Instant::now()))).build();
        let limiter = Limiter::new(store, Limit::new("l", [spec]).unwrap());
        let acquire = async || {
            let grant = limiter.check("k").hold(second).within(5 * second).await.unwrap();
            grant.into_decision()
        };
        let start = Instant::now();
        let _ = limiter.pause("k", second).await.unwrap();
        assert!(acquire().await.is_allowed(), "{spec}");
        assert_eq!(start.elapsed(), second, "{spec}");

        // A pause that doesn't end in time is refused immediately.
        let _ = limiter.pause("k", 60 * second).await.unwrap();
        let start = Instant::now();
        let decision = acquire().await;
        assert_eq!(decision.retry_after(), RetryAfter::After(Duration::from_secs(60)), "{spec}");
        assert_eq!(start.elapsed(), NO_TIME, "{spec}");
        let denied = crate::Denied::from(decision);
        assert_eq!(denied.reason(), crate::denied::DeniedReason::Paused);
        assert_eq!(denied.to_string(), "limit `l` is paused: retry in 1 min");
        let problem = denied.problem().to_json();
        assert!(problem.contains(r#""code":"paused""#), "{problem}");
    }
}

#[test]
fn a_pause_of_no_length_is_refused_with_the_range() {
    let limiter = limiter(&["gcra 9/s"]);
    let error = limiter.pause("k", Duration::ZERO).now().unwrap_err();
    assert_eq!(error.to_string(), "a pause can't last 0s: write 1ms or longer");
}

#[tokio::test(start_paused = true)]
async fn a_hopeless_wait_is_refused_at_once_and_charges_nothing() {
    for spec in ["token_bucket 1/s burst 1", "fixed_window 1/s"] {
        let limiter = limiter(&[spec]);
        assert!(limiter.check("k").now().unwrap().is_allowed());
        let start = Instant::now();
        let decision = limiter.check("k").within(Duration::from_millis(999)).await.unwrap();
        assert!(decision.is_denied(), "{spec}");
        assert!(matches!(decision.retry_after(), RetryAfter::After(_)));
        let never = limiter.check(Ask::new("k").cost(2)).within(Duration::MAX).await.unwrap();
        assert_eq!(never.retry_after(), RetryAfter::Never, "{spec}");
        assert_eq!(start.elapsed(), NO_TIME, "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_deadline_covers_every_retry() {
    // Two callers wait for one unit a minute. One gets it. The other's next chance is beyond its deadline, which
    // doesn't start again.
    let limiter = limiter(&["fixed_window 1/min"]);
    assert!(limiter.check("k").now().unwrap().is_allowed());
    let start = Instant::now();
    let deadline = Duration::from_secs(90);
    let (first, second) =
        tokio::join!(limiter.check("k").within(deadline), limiter.check("k").within(deadline));
    let allowed = [first.unwrap(), second.unwrap()].map(|decision| decision.is_allowed());
    assert_eq!(allowed.iter().filter(|&&allowed| allowed).count(), 1);
    assert_eq!(start.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn callers_of_a_shaper_are_told_different_instants() {
    let limiter = limiter(&["shaper 10/s queue 9"]);
    let start = Instant::now();
    let wait = async |_| {
        assert!(limiter.check("k").within(Duration::from_secs(1)).await.unwrap().is_allowed());
        start.elapsed().as_millis()
    };
    let (a, b, c) = tokio::join!(wait(()), wait(()), wait(()));
    assert_eq!([a, b, c], [0, 100, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_nobody_could_bound_is_refused() {
    let mixed = limiter(&["shaper 1/s queue 9", "fixed_window 10/min"]);
    let error = mixed.check("k").within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(request_error(&error), RequestErrorKind::Unsupported);
    assert!(error.to_string().contains("limit of its own"));
    assert_eq!(mixed.peek("k").now().unwrap().policy(1).unwrap().remaining(), Some(10));
    let reserve = mixed.reserve("k", Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(request_error(&reserve), RequestErrorKind::Unsupported);
}

/// An unknown outcome counts as charged, so a retry would charge twice.
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_asks_a_failed_store_again_where_nothing_was_charged() {
    let second = Duration::from_secs(1);
    for (kind, is_again) in [
        (StoreErrorKind::Unavailable, true),
        (StoreErrorKind::Overloaded, true),
        (StoreErrorKind::Timeout, false),
        (StoreErrorKind::Disconnected, false),
    ] {
        for spec in ["gcra 1/s", "fixed_window 1/s"] {
            let limiter = Limiter::new(Failing::new(kind), Limit::new("l", [spec]).unwrap());
            let start = Instant::now();
            let error = limiter.check("k").within(second).await.unwrap_err();
            assert_eq!(error.as_store().unwrap().kind(), kind);
            let asked = limiter.store().asked();
            assert_eq!(asked > 1, is_again, "{kind:?} {spec}: {asked}");
            assert_eq!(start.elapsed(), if is_again { second } else { NO_TIME }, "{kind:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_store_is_answered_for_as_the_limiter_says_and_asked_once() {
    for kind in [StoreErrorKind::Timeout, StoreErrorKind::Unavailable, StoreErrorKind::Unexpected] {
        for policies in [["gcra 1/s"], ["fixed_window 1/s"]] {
            for (answer, expected) in [
                (OnStoreFailure::Error, None),
                (OnStoreFailure::Allow, Some(true)),
                (OnStoreFailure::Deny, Some(false)),
            ] {
                let limiter =
                    Limiter::builder(Failing::new(kind), Limit::new("l", policies).unwrap())
                        .on_store_failure(answer)
                        .build();
                let answers = [
                    limiter.check("k").await,
                    limiter.peek("k").await,
                    limiter.take("k").await,
                    limiter.check("k").within(NO_TIME).await,
                    limiter
                        .reserve("k", Duration::from_secs(1))
                        .await
                        .map(Reservation::into_decision),
                    limiter.check("k").now(),
                ];
                assert_eq!(limiter.store().asked(), 6);
                for answer in answers {
                    match answer {
                        Ok(decision) => {
                            assert_eq!(Some(decision.is_allowed()), expected);
                            assert_eq!(decision.source(), Source::Fallback);
                        }
                        Err(error) => {
                            assert_eq!((error.as_store().unwrap().kind(), expected), (kind, None));
                        }
                    }
                }
                // Nothing was charged, given back or forgotten, so an answer must not claim it.
                for answer in
                    [limiter.charge("k").await, limiter.refund("k").await, limiter.reset("k").await]
                {
                    assert_eq!(answer.unwrap_err().as_store().unwrap().kind(), kind);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_question_that_is_wrong_is_never_turned_into_allow() {
    for kind in
        [RequestErrorKind::Invalid, RequestErrorKind::Overflow, RequestErrorKind::Unsupported]
    {
        let failing = Failing::with(RequestError::new(kind, "wrong on purpose"));
        let limiter = Limiter::builder(failing, Limit::new("l", ["gcra 1/s"]).unwrap())
            .on_store_failure(OnStoreFailure::Allow)
            .build();
        assert_eq!(request_error(&limiter.check("k").await.unwrap_err()), kind);
        let malformed = limiter.check(Ask::new("k").cost(0)).await.unwrap_err();
        assert_eq!(request_error(&malformed), RequestErrorKind::Invalid);
        assert_eq!(limiter.store().asked(), 1, "a malformed one is not sent");
    }
}

#[test]
fn units_are_forced_given_back_taken_in_part_and_forgotten() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
    let limiter = Limiter::new(store, Limit::new("l", ["token_bucket 1/s burst 10"]).unwrap());
    let remaining = || limiter.peek("k").now().unwrap().remaining();
    assert_eq!(limiter.take(Ask::new("k").cost(12)).now().unwrap().granted(), 10);
    assert_eq!(remaining(), Some(0));
    assert!(limiter.charge(Ask::new("k").cost(5)).now().unwrap().is_allowed());
    clock.advance(Duration::from_secs(1));
    assert!(limiter.check("k").now().unwrap().is_denied());
    assert!(limiter.refund(Ask::new("k").cost(7)).now().unwrap().is_allowed());
    assert_eq!(remaining(), Some(3));
    let reserved = limiter.reserve(Ask::new("k").cost(5), Duration::from_secs(60)).now().unwrap();
    assert_eq!(Span::from(reserved.wait()).as_micros(), 2_000_000);
    assert_eq!(limiter.reset("k").now().unwrap().remaining(), Some(10));
    assert_eq!(remaining(), Some(10));
}

#[tokio::test]
async fn limiters_share_a_store_and_requests_carry_injected_time() {
    let store = MemoryStore::new();
    let limit = Limit::new("l", ["gcra 1/s"]).unwrap();
    let injected = || TimeSource::Injected { run: "r1".to_owned() };
    let first = Limiter::builder(store.clone(), limit.clone()).time(injected()).build();
    let second = Limiter::builder(store, limit).time(injected()).build();
    let at = |seconds: u64| Ask::new("k").at(Timestamp::from_micros(seconds * 1_000_000).unwrap());
    assert!(first.check(at(10)).await.unwrap().is_allowed());
    assert!(second.check(at(10)).await.unwrap().is_denied());
    assert!(second.check(at(11)).await.unwrap().is_allowed());
    let waiting = first.check(at(11)).within(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(request_error(&waiting), RequestErrorKind::Unsupported);
}

#[test]
fn a_limiter_can_go_to_other_threads_and_so_can_its_futures() {
    fn check<T: Send>(_: T) {}
    let limiter = limiter_without_runtime();
    check(limiter.clone());
    check(limiter.check("k").within(NO_TIME));
    check(limiter.check(&String::from("k")));
}

fn limiter_without_runtime() -> Limiter<MemoryStore> {
    Limiter::new(MemoryStore::new(), Limit::new("l", ["gcra 1/s"]).unwrap())
}

/// Counts its calls, and panics at every answer.
#[derive(Default)]
struct Panicking(AtomicU32);

impl Observer for Panicking {
    fn answered(&self, answered: &Answered<'_>) {
        assert_eq!(answered.limit.name().as_str(), "l");
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("on purpose");
    }
}

#[tokio::test]
async fn an_observer_that_panics_breaks_no_decision_and_no_unit_is_lost() {
    let observer = Arc::new(Panicking::default());
    let limiter =
        Limiter::builder(MemoryStore::new(), Limit::new("l", ["gcra 1/h burst 3"]).unwrap())
            .observer(observer.clone())
            .build();
    assert!(limiter.check("k").await.unwrap().is_allowed());
    assert!(limiter.check("k").now().unwrap().is_allowed());
    assert!(limiter.check("k").now().unwrap().is_allowed());
    assert!(limiter.check("k").now().unwrap().is_denied());
    assert!(limiter.reserve("k", Duration::ZERO).await.unwrap().is_denied());
    assert_eq!(observer.0.load(Ordering::Relaxed), 5);
}

/// The last answer: the caller's outcome, and the store's failure.
#[derive(Default)]
struct Last(std::sync::Mutex<Option<(Option<bool>, Option<StoreErrorKind>)>>);

impl Observer for Last {
    fn answered(&self, answered: &Answered<'_>) {
        let outcome = answered.outcome.ok().map(Decision::is_allowed);
        let failure = answered.failure.map(StoreError::kind);
        *self.0.lock().unwrap() = Some((outcome, failure));
    }
}

#[tokio::test]
async fn an_observer_hears_of_a_failure_that_the_limit_has_an_answer_for() {
    for (answer, outcome) in [
        (OnStoreFailure::Allow, Some(true)),
        (OnStoreFailure::Deny, Some(false)),
        (OnStoreFailure::Error, None),
    ] {
        let last = Arc::new(Last::default());
        let failing = Failing::new(StoreErrorKind::Timeout);
        let limiter = Limiter::builder(failing, Limit::new("l", ["gcra 1/s"]).unwrap())
            .on_store_failure(answer)
            .observer(last.clone())
            .build();
        let _ = limiter.check("k").await;
        assert_eq!(*last.0.lock().unwrap(), Some((outcome, Some(StoreErrorKind::Timeout))));
    }
}

#[test]
fn costs_by_name_touch_only_the_policies_named_in_every_operation() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(clock).build();
    let specs = ["fixed_window 9/d as requests", "token_bucket 1/d burst 999 cost 5 as tokens"];
    let limiter = Limiter::new(store, Limit::new("llm", specs).unwrap());
    let tokens = |units| Ask::new("k").cost_of("tokens", units);
    let requests = |units| Ask::new("k").cost_of("requests", units);
    let left = |decision: Result<Decision, Error>| {
        let decision = decision.unwrap();
        assert!(decision.is_allowed());
        [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
    };
    assert_eq!(left(limiter.check(tokens(300)).now()), [9, 699]);
    assert_eq!(left(limiter.check(requests(9)).now()), [0, 699]);
    assert_eq!(left(limiter.peek(tokens(699)).now()), [0, 699]);
    assert!(limiter.peek(tokens(700)).now().unwrap().is_denied());
    assert_eq!(left(limiter.charge(tokens(100)).now()), [0, 599]);
    let taken = limiter.take(tokens(1_000)).now().unwrap();
    assert_eq!((taken.granted(), left(Ok(taken))), (599, [0, 0]));
    assert_eq!(left(limiter.refund(tokens(300)).now()), [0, 300]);
    assert_eq!(left(limiter.refund(requests(1)).now()), [1, 300]);
    assert_eq!(left(limiter.check(tokens(0)).now()), [1, 300]);
    assert_eq!(left(limiter.check(Ask::new("k").cost(1).cost_of("tokens", 7)).now()), [0, 293]);
    assert_eq!(left(limiter.reset(requests(1)).now()), [9, 999]);
    assert_eq!(left(limiter.check("k").now()), [8, 994], "without a name, each at its own cost");
}

/// A shadow that would have refused was charged for others, and not for the request that passed.
#[test]
fn what_a_shadow_did_not_take_is_not_given_back() {
    let store = MemoryStore::builder().clock(Arc::new(ManualClock::default())).build();
    let specs = ["fixed_window 9/h", "fixed_window 1/h shadow as trial"];
    let limiter = Limiter::new(store, Limit::new("l", specs).unwrap());
    let (first, second) = (limiter.check("k").now().unwrap(), limiter.check("k").now().unwrap());
    let left = || {
        let decision = limiter.peek("k").now().unwrap();
        [0, 1].map(|index| decision.policy(index).unwrap().remaining().unwrap())
    };
    assert!(limiter.refund("k").taken_by(&second).now().unwrap().is_allowed());
    assert_eq!(left(), [8, 0]);
    assert!(limiter.refund("k").taken_by(&first).now().unwrap().is_allowed());
    assert_eq!(left(), [9, 1]);
}

/// Whether each decision that was observed is allowed, and whether it begins a ban.
#[derive(Default)]
struct Seen(std::sync::Mutex<Vec<(bool, bool)>>);

impl Seen {
    fn take(&self) -> Vec<(bool, bool)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Seen {
    fn answered(&self, answered: &Answered<'_>) {
        let decision = answered.outcome.unwrap();
        let begins = decision.ban().is_some_and(|ban| ban.begins);
        self.0.lock().unwrap().push((decision.is_allowed(), begins));
    }
}

/// Before, observers got a denial for each further call to the store.
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_is_observed_once_with_its_final_answer() {
    const ALLOWED: (bool, bool) = (true, false);
    const DENIED: (bool, bool) = (false, false);
    let seen = Arc::new(Seen::default());
    let observed = |spec: &str, ban: Option<&str>| {
        let limit = Limit::new("l", [spec]).unwrap();
        let limit = limit.banning(ban.map(|ban| ban.parse().unwrap()));
        let store = MemoryStore::builder().clock(Arc::new(RuntimeClock(Instant::now()))).build();
        Limiter::builder(store, limit).observer(seen.clone()).build()
    };
    let within = Duration::from_secs(90);

    let window = observed("fixed_window 1/min", None);
    let acquire = || window.check("k").within(within);
    let _ = tokio::join!(acquire(), acquire(), acquire());
    assert_eq!(seen.take(), [ALLOWED, ALLOWED, DENIED], "the last one's time was not enough");

    let booked = observed("gcra 1/min", Some("1/min for 1s"));
    let _ = booked.ban("k", Duration::from_secs(1)).await.unwrap();
    seen.take();
    assert!(booked.check("k").within(within).await.unwrap().is_allowed());
    assert_eq!(seen.take(), [ALLOWED], "once the ban has ended");

    let queue = observed("concurrency 1 hold 1s queue 9", None);
    for (within, expected) in [(9_000, ALLOWED), (500, DENIED), (9_000, ALLOWED)] {
        let within = Duration::from_millis(within);
        let _ = queue.check("k").hold(Duration::from_secs(1)).within(within).await.unwrap();
        assert_eq!(seen.take(), [expected], "{within:?}");
    }

    // The beginning of a ban is an event of its own.
    let window = observed("fixed_window 1/min", Some("1/min for 1s"));
    assert!(window.check("k").within(NO_TIME).await.unwrap().is_allowed());
    assert!(window.check("k").within(within).await.unwrap().is_allowed());
    assert_eq!(seen.take(), [ALLOWED, (false, true), ALLOWED]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_a_gate_that_waits_and_holds_is_observed_once() {
    let seen = Arc::new(Seen::default());
    let store = MemoryStore::builder().clock(Arc::new(RuntimeClock(Instant::now()))).build();
    let registry = crate::Registry::builder(store)
        .limit(Limit::new("l", ["fixed_window 1/min"]).unwrap())
        .observer(seen.clone())
        .build();
    let gate = registry.gate("l");
    for holding in [
        crate::decision::Holding::as_needed(),
        crate::decision::Holding::lasting(Duration::from_secs(60)),
    ] {
        let grant =
            gate.check("k").holding(holding).within(Duration::from_secs(3_600)).await.unwrap();
        assert!(grant.is_allowed());
        assert_eq!(seen.take(), [(true, false)], "{holding:?}");
    }
}
