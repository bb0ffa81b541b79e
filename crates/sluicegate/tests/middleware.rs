//! What middleware is made of, without a framework.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the helpers of tests may do what tests may")]

use std::future::ready;
use std::sync::Arc;

use http::{Request, Response, StatusCode};
use sluicegate::http::{Peer, User, fixed};
use sluicegate::middleware::{Admission, Charge, Middleware, Pending, Refusal, Settling, Verdict};
use sluicegate::{Caller, DeniedReason, Limiter, ManualClock, MemoryStore, Timestamp};

/// A limit whose time stands still, with all of its requests under one key.
fn limited(policy: &str) -> (Middleware, impl Fn() -> u64) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1 << 50).unwrap()));
    let store = MemoryStore::builder().clock(clock).build();
    let limiter = Limiter::new(store, sluicegate::limit("api", [policy]).unwrap());
    let asked = limiter.clone();
    let left = move || asked.peek_now("all").unwrap().remaining().unwrap();
    (Middleware::new(limiter).key(fixed("all")), left)
}

fn request() -> Request<()> {
    let peer = Peer(([192, 0, 2, 7], 4711).into());
    Request::builder().extension(peer).extension(User::new("alice")).body(()).unwrap()
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
    response.extensions_mut().insert(Charge(4));
    admission.settle(&response).await.write(response.headers_mut());
    assert_eq!(left(), 6);
    assert_eq!(response.headers()["ratelimit"], "\"fixed_window\";r=6;t=3600");
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
    let middleware = middleware.charge_after(|_| None);
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
    let admission = admitted(&middleware.caller(sluicegate::Switch::Off));
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
    let admission = verdict.admission().await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 1);
    assert!(admission.caller().is_some());
}

#[tokio::test]
async fn a_refusal_says_why_and_has_its_response() {
    let (middleware, _) = limited("fixed_window 1/h");
    let _ = admitted(&middleware);
    let refusal = middleware.decide(&request()).admission().await.unwrap_err();
    assert_eq!(refusal.denied().reason(), DeniedReason::Limited);
    let response = refusal.response(&request());
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(response.headers()["retry-after"], "3600");
}
