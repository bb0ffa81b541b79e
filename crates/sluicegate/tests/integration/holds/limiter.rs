//! Holding and settling in the embedded store, whose clock is driven.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate::admin::{Answered, Observer, Settled};
use sluicegate::decision::{HoldFound, HoldId, HoldToken};
use sluicegate::error::RequestErrorKind;
use sluicegate::policy::LimitName;
use sluicegate::store::Operation;
use sluicegate::testing::ManualClock;
use sluicegate::{Ask, Error, Limit, Limiter, MemoryStore, Usage};

fn limiter(policies: &[&str]) -> (Limiter<MemoryStore>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(clock.clone()).build();
    (Limiter::new(store, Limit::new("llm", policies).unwrap()), clock)
}

fn kind(error: &Error) -> RequestErrorKind {
    error.as_request().unwrap_or_else(|| panic!("{error}")).kind()
}

fn left(limiter: &Limiter<MemoryStore>) -> Vec<u64> {
    let decision = limiter.peek("acme").now().unwrap();
    decision.policies().map(|policy| policy.remaining().unwrap()).collect()
}

const TWO: [&str; 2] =
    ["fixed_window 60/h as requests", "token_bucket 600/min burst 9000 as tokens"];

fn estimate<'a>() -> Ask<'a> {
    Ask::new("acme").cost_of("requests", 1).cost_of("tokens", 1_000)
}

#[test]
fn what_is_named_is_settled_and_the_rest_stays_as_charged() {
    let (limiter, _) = limiter(&TWO);
    let token = limiter
        .check(estimate())
        .hold(Duration::from_secs(60))
        .now()
        .unwrap()
        .into_token()
        .unwrap();
    assert_eq!(left(&limiter), [59, 8_000]);
    let settled = limiter.settle(&token, Usage::of("tokens", 412)).now().unwrap();
    let given: Vec<_> = settled.policies().map(|policy| policy.given_back()).collect();
    assert_eq!(given, [None, Some(588)]);
    assert_eq!(left(&limiter), [59, 8_588]);
}

#[test]
fn a_cancelled_hold_is_as_if_it_had_never_been_and_a_released_one_stays_charged() {
    let (limiter, clock) = limiter(&TWO);
    for (usage, expected) in [(Usage::nothing(), [60, 9_000]), (Usage::as_charged(), [59, 8_010])] {
        let token = limiter
            .check(estimate())
            .hold(Duration::from_secs(60))
            .now()
            .unwrap()
            .into_token()
            .unwrap();
        clock.advance(Duration::from_secs(1));
        assert!(limiter.settle(&token, usage).now().unwrap().is_allowed());
        assert_eq!(left(&limiter), expected);
    }
}

#[test]
fn what_was_used_beyond_is_charged_into_debt() {
    let (limiter, _) = limiter(&TWO);
    let token = limiter
        .check(estimate())
        .hold(Duration::from_secs(60))
        .now()
        .unwrap()
        .into_token()
        .unwrap();
    let settled =
        limiter.settle(&token, Usage::of("tokens", 9_600).and("requests", 2)).now().unwrap();
    assert!(settled.is_allowed(), "there was something to settle");
    assert_eq!(left(&limiter), [58, 0]);
    let retry = limiter.peek(Ask::new("acme").cost_of("tokens", 1)).now().unwrap().retry_after();
    // 600 units of debt and one more, at 10 a second.
    assert_eq!(retry.duration().unwrap().as_millis(), 60_100);
}

/// Debt and remaining units are those of a bucket. A usage that no state can hold changes nothing.
#[test]
fn a_usage_that_no_state_can_hold_settles_nothing() {
    let (limiter, _) = limiter(&TWO);
    let token = limiter
        .check(estimate())
        .hold(Duration::from_secs(60))
        .now()
        .unwrap()
        .into_token()
        .unwrap();
    let most = (1 << 53) - 1;
    let usage = Usage::of("tokens", most).and("requests", 0);
    assert_eq!(kind(&limiter.settle(&token, usage).now().unwrap_err()), RequestErrorKind::Overflow);
    assert_eq!(left(&limiter), [59, 8_000]);
    let again = limiter.settle(&token, Usage::nothing()).now().unwrap();
    assert_eq!(again.hold_found(), Some(HoldFound::Live));
    assert_eq!(left(&limiter), [60, 9_000]);
}

#[test]
fn what_charges_nothing_holds_nothing() {
    let (limiter, _) = limiter(&TWO);
    let denied = limiter
        .check(Ask::new("acme").cost_of("tokens", 9_001))
        .hold(Duration::from_secs(60))
        .now()
        .unwrap();
    assert!(denied.is_denied() && denied.token().is_none() && denied.hold().is_none());
    let free = limiter
        .check(Ask::new("acme").cost_of("tokens", 0))
        .hold(Duration::from_secs(60))
        .now()
        .unwrap();
    assert!(free.is_allowed() && free.token().is_none());
    assert_eq!(free.into_decision().remaining(), Some(60));
}

#[test]
fn a_hold_that_has_ended_stays_charged_and_a_renewed_one_lives_on() {
    let (limiter, clock) = limiter(&["fixed_window 9/h"]);
    let hold =
        || limiter.check(Ask::new("acme").cost(2)).hold(Duration::from_secs(10)).now().unwrap();
    let (ended, renewed) = (hold().into_token().unwrap(), hold().into_token().unwrap());
    let answer = limiter.renew(&renewed, Duration::from_secs(20)).now().unwrap();
    assert_eq!(answer.hold_found(), Some(HoldFound::Live));
    assert_eq!(answer.hold().map(|hold| hold.lasts), Some(Duration::from_secs(20)));
    clock.advance(Duration::from_secs(10));
    for answer in [
        limiter.settle(&ended, Usage::nothing()).now().unwrap(),
        limiter.renew(&ended, Duration::from_secs(20)).now().unwrap(),
    ] {
        assert!(answer.is_denied());
        assert_eq!(answer.hold_found(), Some(HoldFound::Unknown));
        assert_eq!(answer.remaining(), Some(5));
    }
    assert_eq!(limiter.settle(&renewed, Usage::nothing()).now().unwrap().remaining(), Some(7));
    let settled = limiter.renew(&renewed, Duration::from_secs(20)).now().unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Settled));
}

#[test]
fn an_id_of_the_caller_s_is_in_use_until_its_record_ends() {
    let (limiter, clock) = limiter(&["fixed_window 9/h"]);
    let id = HoldId::from_bytes([7; 16]);
    let hold = |key: &'static str| limiter.check(key).hold(Duration::from_secs(10)).under(id).now();
    let token = hold("acme").unwrap().into_token().unwrap();
    assert_eq!(token, HoldToken::new(id, [("llm".parse().unwrap(), "acme")]).unwrap());
    assert_eq!(kind(&hold("acme").unwrap_err()), RequestErrorKind::Conflict);
    assert!(hold("other").unwrap().token().is_some(), "ids are of their subject");
    assert!(limiter.settle(&token, Usage::of("fixed_window", 1)).now().unwrap().is_allowed());
    assert_eq!(kind(&hold("acme").unwrap_err()), RequestErrorKind::Conflict);
    clock.advance(Duration::from_secs(10));
    assert!(hold("acme").unwrap().is_allowed());
    assert_eq!(left(&limiter), [7], "neither conflict was charged");
}

/// A hold that is released without a usage needs no record for repetitions.
#[test]
fn what_is_settled_as_it_was_charged_leaves_no_record() {
    let (limiter, _) = limiter(&["fixed_window 9/h"]);
    let id = HoldId::from_bytes([7; 16]);
    let token = limiter
        .check("acme")
        .hold(Duration::from_secs(10))
        .under(id)
        .now()
        .unwrap()
        .into_token()
        .unwrap();
    let settle = || limiter.settle(&token, Usage::as_charged()).now().unwrap().hold_found();
    assert_eq!([settle(), settle()], [Some(HoldFound::Live), Some(HoldFound::Unknown)]);
    assert!(
        limiter.check("acme").hold(Duration::from_secs(10)).under(id).now().unwrap().is_allowed()
    );
    assert_eq!(left(&limiter), [7]);
}

#[test]
fn what_makes_no_sense_is_an_error_that_says_what_to_change() {
    let (limiter, _) = limiter(&TWO);
    let token = limiter
        .check(estimate())
        .hold(Duration::from_secs(60))
        .now()
        .unwrap()
        .into_token()
        .unwrap();
    let other: HoldToken = token.to_string().replace("llm", "search").parse().unwrap();
    let too_long = "k".repeat(HoldToken::MAX_LEN);
    let errors = [
        (limiter.settle(&other, Usage::nothing()).now(), "of limit `search`, not `llm`"),
        (limiter.renew(&other, Duration::from_secs(60)).now(), "of limit `search`, not `llm`"),
        (limiter.settle(&token, Usage::of("token", 1)).now(), "its policies are requests, tokens"),
        (limiter.settle(&token, Usage::of("tokens", 1 << 53)).now(), "from 0 to 9007199254740991"),
        (limiter.renew(&token, Duration::ZERO).now(), "write a time from 1ms to 1d"),
        (
            limiter.check("acme").hold(Duration::from_secs(86_401)).now().map(Into::into),
            "write a time from 1ms to 1d",
        ),
        (
            limiter.check(&too_long).hold(Duration::from_secs(60)).now().map(Into::into),
            "shorten the key",
        ),
        (
            limiter
                .check(Ask::new("acme").cost(0))
                .hold(Duration::from_secs(60))
                .now()
                .map(Into::into),
            "from 1 to",
        ),
    ];
    for (answer, expected) in errors {
        let error = answer.unwrap_err();
        assert_eq!(kind(&error), RequestErrorKind::Invalid);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(left(&limiter), [59, 8_000]);
    let again = limiter.settle(&token, Usage::nothing()).now().unwrap();
    assert_eq!(again.hold_found(), Some(HoldFound::Live));
}

/// A token of several limits names each with its own subject.
#[test]
fn limits_that_are_charged_together_are_settled_together() {
    let both = Limit::together([
        Limit::new("user", ["fixed_window 900/h as tokens"]).unwrap(),
        Limit::new("team", ["fixed_window 5000/h as tokens"]).unwrap(),
    ])
    .unwrap();
    let limiter = Limiter::new(MemoryStore::new(), both);
    let ask = Ask::new("alice").cost(800).and(Ask::new("red").cost(700));
    let token =
        limiter.check(ask).hold(Duration::from_secs(60)).now().unwrap().into_token().unwrap();
    assert!(token.limits().map(LimitName::as_str).eq(["user", "team"]));
    assert_eq!((token.key(), token.subject(1)), (&b"alice"[..], &b"red"[..]));
    let settled = limiter.settle(&token, Usage::of("tokens", 100)).now().unwrap();
    let left: Vec<_> = settled.policies().map(|policy| policy.remaining().unwrap()).collect();
    assert_eq!(left, [800, 4_900]);
    let swapped = HoldToken::new(
        token.id(),
        [("team".parse().unwrap(), "red"), ("user".parse().unwrap(), "alice")],
    );
    let error = limiter.settle(&swapped.unwrap(), Usage::nothing()).now().unwrap_err();
    assert!(error.to_string().contains("`team + user`, not `user + team`"), "{error}");
}

/// The observed events, in order.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn answered(&self, answered: &Answered<'_>) {
        assert_eq!(answered.operation, Operation::Check);
        self.0.lock().unwrap().push("held".to_owned());
    }

    fn settled(&self, settled: &Settled<'_>) {
        assert_eq!((settled.limit.name().as_str(), settled.keys), ("llm", &[&b"acme"[..]][..]));
        let what = match settled.operation {
            Operation::Settle { .. } => "settled",
            Operation::Renew { .. } => "renewed",
            action => panic!("{action:?}"),
        };
        let found = settled.outcome.unwrap().hold_found().unwrap();
        self.0.lock().unwrap().push(format!("{what}: {found:?}"));
        panic!("on purpose");
    }
}

#[tokio::test]
async fn observers_see_what_is_held_and_what_becomes_of_it() {
    let told = Arc::new(Told::default());
    let limit = Limit::new("llm", ["fixed_window 9/h"]).unwrap();
    let limiter = Limiter::builder(MemoryStore::new(), limit).observer(told.clone()).build();
    let token =
        limiter.check("acme").hold(Duration::from_secs(60)).await.unwrap().into_token().unwrap();
    assert!(limiter.renew(&token, Duration::from_secs(60)).await.unwrap().is_allowed());
    assert!(limiter.settle(&token, Usage::nothing()).await.unwrap().is_allowed());
    assert!(limiter.settle(&token, Usage::nothing()).now().unwrap().is_allowed());
    let expected = ["held", "renewed: Live", "settled: Live", "settled: Settled"];
    assert_eq!(*told.0.lock().unwrap(), expected);
}

#[test]
fn what_becomes_of_a_hold_can_go_to_other_threads() {
    fn check<T: Send>(_: T) {}
    let (limiter, _) = limiter(&TWO);
    let token = limiter
        .check(estimate())
        .hold(Duration::from_secs(60))
        .now()
        .unwrap()
        .into_token()
        .unwrap();
    check(limiter.check(&String::from("k")).hold(Duration::from_secs(60)));
    check(limiter.settle(&token, Usage::nothing()));
    check(limiter.renew(&token, Duration::from_secs(60)));
}
