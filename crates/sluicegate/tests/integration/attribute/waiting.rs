//! Calls that wait for their turn.

use std::time::Duration;

use sluicegate::error::DeniedReason;
use sluicegate::{Denied, Registry, limit};
use tokio::time::Instant;

use crate::attribute::support::{Setup, on_runtime_time};

#[limit("gcra 1/s", name = "turn", key = "{key}", wait = "1500ms", registry = limits)]
async fn turn(limits: &Registry, key: &str) -> Result<Instant, Denied> {
    Ok(Instant::now())
}

#[limit("fixed_window 1/s", name = "window", key = "k", wait = "1500ms", registry = limits)]
async fn window(limits: &Registry) -> Result<Instant, Denied> {
    Ok(Instant::now())
}

#[limit("gcra 1/s", name = "impatient", key = "k", registry = limits)]
async fn impatient(limits: &Registry) -> Result<Instant, Denied> {
    Ok(Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_wait_runs_when_it_is_its_turn() {
    let (limits, start) = (on_runtime_time(), Instant::now());
    assert_eq!(turn(&limits, "k").await.unwrap() - start, Duration::ZERO);
    assert_eq!(turn(&limits, "k").await.unwrap() - start, Duration::from_secs(1));
    assert_eq!(window(&limits).await.unwrap() - start, Duration::from_secs(1));
    assert_eq!(window(&limits).await.unwrap() - start, Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_a_call_is_refused_at_once() {
    let (limits, start) = (on_runtime_time(), Instant::now());
    assert!(impatient(&limits).await.is_ok());
    let denied = impatient(&limits).await.unwrap_err();
    assert_eq!(denied.reason(), DeniedReason::Limited);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Seed 3.10: a speed with a maximum wait, and a denial with its retry-after.
#[tokio::test(start_paused = true)]
async fn a_speed_waits_as_long_as_it_may_and_then_says_when_to_come_back() {
    #[limit("smooth 1/s", key = "k", wait = "2500ms", registry = limits)]
    async fn speed(limits: &Registry) -> Result<Instant, Denied> {
        Ok(Instant::now())
    }
    let (limits, start) = (on_runtime_time(), Instant::now());
    let ended = crate::attribute::support::all((0..5).map(|_| speed(&limits)), || {
        start.elapsed().as_secs()
    })
    .await;
    let (passed, denied): (Vec<_>, Vec<_>) =
        ended.into_iter().partition(|(answer, _)| answer.is_ok());
    let seconds: Vec<_> =
        passed.into_iter().map(|(answer, _)| (answer.unwrap() - start).as_secs()).collect();
    assert_eq!(seconds, [0, 1, 2]);
    for (answer, at) in denied {
        assert_eq!(at, 0, "it was refused at once");
        let denied = answer.unwrap_err();
        assert_eq!(denied.reason(), DeniedReason::Limited);
        // The queue is three seconds long, and half a second is the excess over the maximum wait.
        assert_eq!(denied.retry_after().duration(), Some(Duration::from_millis(500)));
        assert!(denied.to_string().ends_with("is exhausted: retry in 500 ms"), "{denied}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_that_can_t_end_in_time_are_refused_at_once_and_take_nothing() {
    let (limits, start) = (on_runtime_time(), Instant::now());
    let (a, b, c) = tokio::join!(turn(&limits, "k"), turn(&limits, "k"), async {
        let denied = turn(&limits, "k").await.unwrap_err();
        assert_eq!(denied.reason(), DeniedReason::Limited);
        start.elapsed()
    });
    assert_eq!(a.unwrap() - start, Duration::ZERO);
    assert_eq!(b.unwrap() - start, Duration::from_secs(1));
    assert_eq!(c, Duration::ZERO, "it doesn't wait for what can't come");
    assert_eq!(turn(&limits, "k").await.unwrap() - start, Duration::from_secs(2));
}

/// A window that others keep filling is retried repeatedly, under the deadline of the first request.
///
/// Seed defect 0.16.
#[tokio::test(start_paused = true)]
async fn one_deadline_covers_the_whole_wait() {
    let (limits, start) = (on_runtime_time(), Instant::now());
    let calls = (0..5).map(|_| window(&limits));
    let ended = crate::attribute::support::all(calls, || start.elapsed()).await;
    let passed: Vec<_> = ended.iter().filter_map(|(answer, _)| answer.as_ref().ok()).collect();
    assert_eq!(passed.len(), 2, "at once, and after a second");
    for (answer, at) in &ended {
        if answer.is_err() {
            assert!(*at <= Duration::from_millis(1_500), "{at:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_wait_may_be_an_expression() {
    #[limit("gcra 1/s", name = "patience", key = "k", wait = patience * 2, registry = limits)]
    async fn patient(limits: &Registry, patience: Duration) -> Result<Instant, Denied> {
        Ok(Instant::now())
    }
    let (limits, start) = (on_runtime_time(), Instant::now());
    assert!(patient(&limits, Duration::ZERO).await.is_ok());
    assert!(patient(&limits, Duration::from_millis(499)).await.is_err());
    let ran = patient(&limits, Duration::from_millis(500)).await.unwrap();
    assert_eq!(ran - start, Duration::from_secs(1));
}

/// A shaper admits all calls and returns an instant for each.
#[tokio::test(start_paused = true)]
async fn a_shaper_lets_each_call_run_when_its_turn_is() {
    #[limit("shaper 1/s queue 2", name = "shaped", key = "k", registry = limits)]
    async fn shaped(limits: &Registry) -> Result<Instant, Denied> {
        Ok(Instant::now())
    }
    let (limits, start) = (on_runtime_time(), Instant::now());
    let ended = crate::attribute::support::all((0..4).map(|_| shaped(&limits)), || {
        start.elapsed().as_secs()
    })
    .await;
    let at: Vec<_> = ended.iter().map(|(answer, at)| (answer.is_ok(), *at)).collect();
    assert_eq!(at, [(true, 0), (true, 1), (true, 2), (false, 0)]);
}

/// Consecutive calls are shaped. Calls that begin together see the same queue.
#[tokio::test(start_paused = true)]
async fn a_shaper_that_is_charged_by_results_lets_each_call_run_when_its_turn_is() {
    #[limit("shaper 1/s queue 2", name = "later", key = "k", charge_if = Result::is_ok, registry = limits)]
    async fn later(limits: &Registry, passes: bool) -> Result<Instant, Denied> {
        if passes { Ok(Instant::now()) } else { Err(missing(limits).unwrap_err()) }
    }
    #[limit("gcra 1/h", key = user, missing = refuse, registry = limits)]
    fn missing(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let (limits, start) = (on_runtime_time(), Instant::now());
    for expected in [0, 1, 2] {
        let ran = later(&limits, true).await.unwrap();
        assert_eq!((ran - start).as_secs(), expected);
    }
    for _ in 0..2 {
        assert_eq!(later(&limits, false).await.unwrap_err().reason(), DeniedReason::NoKey);
        assert_eq!(start.elapsed().as_secs(), 3, "the second one was free");
    }
    later(&limits, true).await.unwrap();
    let (a, b) = tokio::join!(later(&limits, true), later(&limits, true));
    assert_eq!([a, b].map(|ran| (ran.unwrap() - start).as_secs()), [4, 4]);
    assert_eq!((later(&limits, true).await.unwrap() - start).as_secs(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_shadow_of_a_shaper_that_is_charged_by_results_delays_nothing() {
    #[limit("shaper 1/s queue 2", name = "trial", key = "k", shadow, charge_if = |_| true, registry = limits)]
    async fn trial(limits: &Registry) -> Instant {
        Instant::now()
    }
    let (limits, start) = (on_runtime_time(), Instant::now());
    assert_eq!([trial(&limits).await - start, trial(&limits).await - start], [Duration::ZERO; 2]);
}

#[test]
fn a_shaper_that_is_charged_by_results_delays_functions_that_are_not_async() {
    #[limit("shaper 20/s queue 9", name = "blocked", key = "k", charge_if = |_| true, registry = limits)]
    fn blocked(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let (limits, start) = (Setup::real_time(), Instant::now());
    (0..3).for_each(|_| blocked(&limits).unwrap());
    assert!(start.elapsed() >= Duration::from_millis(99), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_it_waits_gives_its_turn_back() {
    let (limits, start) = (on_runtime_time(), Instant::now());
    turn(&limits, "k").await.unwrap();
    {
        let mut waiting = Box::pin(turn(&limits, "k"));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("it was to wait"),
            () = tokio::task::yield_now() => {}
        }
    }
    assert_eq!(turn(&limits, "k").await.unwrap() - start, Duration::from_secs(1));
}

#[limit("gcra 100/s", name = "blocking", key = "k", wait = "10s", registry = limits)]
fn blocking(limits: &Registry) -> Result<(), Denied> {
    Ok(())
}

/// Uses the real clock: every call must pass, wherever it waits.
#[test]
fn a_function_that_is_not_async_waits_on_its_thread() {
    let limits = Setup::real_time();
    assert!((0..3).all(|_| blocking(&limits).is_ok()));
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    one.block_on(async { assert!((0..3).all(|_| blocking(&limits).is_ok())) });
    let many =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    many.block_on(async { assert!((0..3).all(|_| blocking(&limits).is_ok())) });
    let task = many.spawn(async move { (0..3).all(|_| blocking(&limits).is_ok()) });
    assert!(many.block_on(task).unwrap());
}

#[test]
fn a_function_that_is_not_async_is_refused_at_once_when_waiting_is_hopeless() {
    #[limit("gcra 1/h", name = "hopeless", key = "k", wait = "10s", registry = limits)]
    fn hopeless(limits: &Registry) -> Result<(), Denied> {
        Ok(())
    }
    let limits = Setup::real_time();
    assert!(hopeless(&limits).is_ok());
    assert_eq!(hopeless(&limits).unwrap_err().reason(), DeniedReason::Limited);
}
