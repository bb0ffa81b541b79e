//! The parts of middleware, without a framework.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests may do what tests may")]

mod choice;
mod refunds;

use std::future::ready;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use sluicegate::error::{DeniedReason, StoreError, StoreErrorKind};
use sluicegate::http::{Peer, RequestView, User, fixed};
use sluicegate::middleware::{Admission, Charge, Middleware, Pending, Refusal, Settling, Verdict};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Ask, Caller, Denied, Limiter, MemoryStore};

use crate::log;

/// Returns a limit whose time stands still, with all of its requests under one key.
fn limited(policy: &str) -> (Middleware, impl Fn() -> u64) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
    let store = MemoryStore::builder().clock(clock).build();
    let limiter = Limiter::new(store, sluicegate::Limit::new("api", [policy]).unwrap());
    let asked = limiter.clone();
    let left = move || asked.peek("all").now().unwrap().remaining().unwrap();
    (Middleware::new(limiter).key(fixed("all")), left)
}

fn request() -> Request<()> {
    let peer = Peer(([192, 0, 2, 7], 4711).into());
    Request::builder().extension(peer).extension(User::new("alice")).body(()).unwrap()
}

/// Returns the output of a future that doesn't wait.
fn now<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

fn admitted(middleware: &Middleware) -> Admission {
    match middleware.decide(&request()) {
        Verdict::Admit(admission) => admission,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_framework_keeps_goes_between_threads() {
    fn goes<T: Send + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    is_shared::<Middleware>();
    is_shared::<Refusal>();
    goes::<Admission>();
    goes::<Pending>();
    goes::<Settling>();
    goes::<Verdict>();
}

#[tokio::test]
async fn a_response_tells_what_it_costs_and_is_told_what_is_left() {
    let (middleware, left) = limited("fixed_window 10/h");
    let middleware = middleware.charge_after(|response| response.charge());
    let admission = admitted(&middleware);
    assert_eq!(left(), 10);
    let mut response = Response::new(());
    response.extensions_mut().insert(Charge::from(4));
    admission.settle(&response).await.write(response.headers_mut());
    assert_eq!(left(), 6);
    assert_eq!(response.headers()["ratelimit"], "\"fixed_window\";r=6;t=3600");
}

/// Returns a middleware with two policies. Each request takes one unit of one policy, and its response some tokens of
/// the other.
fn gateway() -> (Middleware, impl Fn() -> [u64; 2]) {
    let policies = ["fixed_window 9/h as requests", "fixed_window 100/h as tokens"];
    let limiter =
        Limiter::new(MemoryStore::new(), sluicegate::Limit::new("llm", policies).unwrap());
    let asked = limiter.clone();
    let left = move || {
        let decision = asked.peek("all").now().unwrap();
        ["requests", "tokens"].map(|name| decision.outcome(name).unwrap().remaining().unwrap())
    };
    (Middleware::new(limiter).key(fixed("all")), left)
}

/// Functions return what they have: numbers, names with numbers, options of these, or a charge.
#[test]
fn a_charge_is_a_number_or_numbers_by_name() {
    let (middleware, left) = gateway();
    let settle = |middleware: Middleware| {
        let _ = log::warnings(|| drop(now(admitted(&middleware).settle(&Response::new(())))));
        left()
    };
    assert_eq!(settle(middleware.clone().cost(|_| 2)), [7, 98]);
    assert_eq!(settle(middleware.clone().cost(|_| [("tokens", 3)])), [7, 95]);
    assert_eq!(settle(middleware.clone().cost(|_| [("tokens", 0)])), [7, 95]);
    assert_eq!(settle(middleware.clone().cost(|_| 0)), [7, 95]);
    let both = |_: &dyn RequestView| Charge::nothing().cost(1).cost_of("tokens", 5);
    assert_eq!(settle(middleware.clone().cost(both)), [6, 90]);
    let after = |charge: Charge| settle(middleware.clone().charge_after(move |_| charge.clone()));
    assert_eq!(after(Charge::from(1)), [5, 89]);
    assert_eq!(after(Charge::from(Some([("tokens", 9)]))), [5, 80]);
    assert_eq!(after(None::<u64>.into()), [5, 80]);
    assert_eq!(after([("tokens", 0)].into()), [5, 80]);
    let used = std::collections::BTreeMap::from([("requests".to_owned(), 1), ("tokens".into(), 2)]);
    assert_eq!(after(used.into_iter().collect()), [4, 78]);
    assert_eq!(settle(middleware.clone().charge_after(|_| Some(4))), [0, 74]);
}

#[test]
fn what_a_cost_names_is_taken_before_the_response_and_the_rest_only_asked_about() {
    let (middleware, left) = gateway();
    let middleware = middleware.cost(|_| [("requests", 1)]);
    let after = middleware.clone().charge_after(|response| response.charge());
    let admission = admitted(&after);
    assert_eq!(left(), [8, 100]);
    let mut response = Response::new(());
    response.extensions_mut().insert(Charge::from([("tokens", 130)]));
    let fields = now(admission.settle(&response));
    fields.write(response.headers_mut());
    assert_eq!(response.headers()["ratelimit"], "\"requests\";r=8;t=3600, \"tokens\";r=0;t=3600");
    // Without tokens no request is taken either.
    let refusal = match after.decide(&request()) {
        Verdict::Refuse(refusal) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(refusal.denied().policy().unwrap().name().as_str(), "tokens");
    assert_eq!(left(), [8, 0]);
    // With an immediate charge, only the named policies are asked.
    let _ = admitted(&middleware);
    assert_eq!(left(), [7, 0]);
}

#[test]
fn a_mistake_that_a_handler_returns_is_logged_and_not_told_to_its_client() {
    let policies = ["fixed_window 9/h as tokens"];
    let limiter =
        Limiter::new(MemoryStore::new(), sluicegate::Limit::new("llm", policies).unwrap());
    let charge =
        || -> Result<_, Denied> { Ok(limiter.charge(Ask::new("acme").cost_of("token", 1)).now()?) };
    let told = log::warnings(|| {
        let response: Response<String> = charge().unwrap_err().to_response();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(!response.body().contains("token"), "{}", response.body());
        let failed = Denied::from(StoreError::new(StoreErrorKind::Timeout, "too slow"));
        let response: Response<String> = failed.to_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    });
    let [mistake] = &told[..] else { panic!("{told:?}") };
    assert!(mistake.starts_with("a request can't be decided: it is refused: "), "{mistake}");
    assert!(mistake.contains("`token`") && mistake.contains("tokens"), "{mistake}");
}

#[test]
fn an_unanswered_request_is_charged_what_was_not_taken_before() {
    let (middleware, left) = gateway();
    let middleware = middleware.cost(|_| [("requests", 2)]).charge_after(|_| None::<u64>);
    drop(admitted(&middleware));
    assert_eq!(left(), [7, 99]);
    drop(admitted(&middleware.clone().charge_unanswered([("tokens", 50)])));
    assert_eq!(left(), [5, 49]);
    drop(admitted(&middleware.charge_unanswered(0)));
    assert_eq!(left(), [3, 49]);
}

#[test]
fn a_policy_that_nobody_has_is_an_error_that_names_those_there_are() {
    let (middleware, left) = gateway();
    let told = log::warnings(|| {
        match middleware.clone().cost(|_| [("request", 1)]).decide(&request()) {
            Verdict::Refuse(refusal) => {
                assert_eq!(
                    refusal.response(&request()).status(),
                    StatusCode::INTERNAL_SERVER_ERROR
                );
            }
            other => panic!("{other:?}"),
        }
        let middleware = middleware.charge_after(|_| [("requests", 1), ("token\n", 1)]);
        let _ = now(admitted(&middleware).settle(&Response::new(())));
        drop(admitted(&middleware.charge_unanswered([("token", 1)])));
    });
    let [before, after, unanswered] = told.as_slice() else { panic!("{told:?}") };
    assert!(before.contains("no policy `request`: its policies are requests, tokens"), "{before}");
    let wanted = r"no limit here has a policy `token\n`: the policies are requests, tokens";
    assert!(after.contains("can't be charged") && after.contains(wanted), "{after}");
    assert!(unanswered.contains("no limit here has a policy `token`"), "{unanswered}");
    assert_eq!(left(), [9, 100], "nothing of it is charged");
}

/// A client that keeps sending requests stays denied, as with a check.
#[test]
fn a_denial_is_charged_by_policies_that_charge_denials_although_responses_charge_the_rest() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let policies = ["token_bucket 1/h burst 2 charge_denied"];
    let limiter = Limiter::new(store, sluicegate::Limit::new("api", policies).unwrap());
    let middleware = Middleware::new(limiter).key(fixed("all")).charge_after(|_| Some(2));
    let _ = now(admitted(&middleware).settle(&Response::new(())));
    clock.advance(Duration::from_secs(1_800));
    for _ in 0..3 {
        let Verdict::Refuse(refusal) = middleware.decide(&request()) else { panic!("admitted") };
        assert_eq!(refusal.response(&request()).headers()["retry-after"], "1800");
        clock.advance(Duration::from_secs(1_800));
    }
}

#[tokio::test]
async fn a_redirection_is_charged_and_told_nothing() {
    let (middleware, left) = limited("fixed_window 10/h");
    let redirection = Response::builder().status(StatusCode::SEE_OTHER).body(()).unwrap();
    let told = admitted(&middleware).settle(&redirection).await;
    assert_eq!((told.is_empty(), left()), (true, 9));
    let middleware = middleware.charge_after(|_| Some(3));
    let told = admitted(&middleware).settle(&redirection).await;
    assert_eq!((told.is_empty(), left()), (true, 6));
}

#[test]
fn an_admission_without_a_response_is_charged_all_the_same() {
    let (middleware, left) = limited("fixed_window 10/h cost 2");
    let middleware = middleware.charge_after(|_| None::<u64>);
    drop(admitted(&middleware));
    assert_eq!(left(), 8);
    drop(admitted(&middleware.clone().charge_unanswered(5)));
    assert_eq!(left(), 3);
    drop(admitted(&middleware.charge_unanswered(0)));
    assert_eq!(left(), 3);
}

#[tokio::test]
async fn a_handler_runs_for_its_caller_in_its_call_and_in_its_future() {
    let alice = || Caller::with_current(|caller| caller.user() == Some(&User::new("alice")));
    let (middleware, _) = limited("fixed_window 10/h");
    let admission = admitted(&middleware);
    assert!(admission.run(|| ready(alice())).await);
    assert!(admission.run(|| async { alice() }).await);
    assert_eq!(admission.caller().unwrap().user(), Some(&User::new("alice")));
    let admission = admitted(&middleware.caller(sluicegate::config::Switch::Off));
    assert!(!admission.run(|| async { alice() }).await);
    assert_eq!(admission.caller(), None);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_its_turn_has_come() {
    let (middleware, _) = limited("shaper 1/s queue 5");
    let _ = admitted(&middleware);
    let start = tokio::time::Instant::now();
    let verdict = middleware.decide(&request());
    assert!(matches!(verdict, Verdict::Wait(_)), "{verdict:?}");
    let admission = verdict.admission(&request()).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 1);
    assert!(admission.caller().is_some());
}

#[tokio::test]
async fn a_refusal_says_why_and_has_its_response() {
    let (middleware, _) = limited("fixed_window 1/h");
    let _ = admitted(&middleware);
    let refusal = middleware.decide(&request()).admission(&request()).await.unwrap_err();
    assert_eq!(refusal.denied().reason(), DeniedReason::Limited);
    let response = refusal.response(&request());
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "3600");
}
