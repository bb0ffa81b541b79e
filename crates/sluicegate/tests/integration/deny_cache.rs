//! A deny cache decides like the store, with fewer calls.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate::decision::Source;
use sluicegate::layers::{DenyCache, RemembersDenials};
use sluicegate::policy::Cost;
use sluicegate::store::{Costs, OpenOptions, OpenedLimit, Operation, Request, Store};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Limit, MemoryStore, RedisStore, RetryAfter};
use sluicegate_conformance::schedules::{Dice, Kind, each, random_policies};
use sluicegate_testkit::servers::{Server, available};

fn limit(specs: &[&str]) -> Limit {
    Limit::new("denials", specs.iter().copied()).unwrap()
}

/// Returns a store, and a cache around another store. Both use one clock.
fn twins(limit: &Limit) -> (Arc<ManualClock>, impl OpenedLimit, impl OpenedLimit) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_790_000_000_000_000).unwrap()));
    let store = || MemoryStore::builder().clock(clock.clone()).build();
    let cache = DenyCache::builder(store()).clock(clock.clone()).build();
    let open = OpenOptions::default;
    (clock.clone(), store().open(limit.clone(), open()), cache.open(limit.clone(), open()))
}

#[test]
fn a_pause_and_its_end_are_heeded_with_the_next_request() {
    let limit = limit(&["gcra 1/s burst 9"]);
    let (_, _, cached) = twins(&limit);
    let ask = |operation| cached.ask_now(Request::new(operation, b"alice")).unwrap().unwrap();
    assert!(ask(Operation::Check).is_allowed());
    assert!(ask(Operation::Pause { lasts: "10s".parse().unwrap(), policy: None }).is_allowed());
    for _ in 0..2 {
        let denied = ask(Operation::Check);
        assert_eq!((denied.is_denied(), denied.source()), (true, Source::Store));
    }
    assert_eq!(ask(Operation::Resume { policy: None }).forgotten(), Some(true));
    assert!(ask(Operation::Check).is_allowed());
}

#[test]
fn whatever_happens_the_same_requests_are_allowed_as_without_it() {
    let (mut asked, mut from_memory) = (0, 0);
    each("a cache of denials", 400, |seed| {
        let mut dice = Dice::new(seed);
        let count = 1 + dice.below_len(3);
        let policies = random_policies(&mut dice, &Kind::ALL, count);
        let limit = Limit::new("denials", policies).unwrap();
        let (clock, plain, cached) = twins(&limit);
        for step in 0..200 {
            let operation = match dice.below(40) {
                0 => Operation::Refund,
                1 => Operation::Reset,
                2 => Operation::Charge,
                3 => Operation::Take,
                4 => Operation::Peek,
                _ => Operation::Check,
            };
            let each: Vec<u64> = (0..count).map(|_| dice.below(4)).collect();
            let cost = match dice.one_in(2) {
                true => Costs::Same(Cost::new(dice.between(1, 3)).unwrap()),
                false => Costs::Each(&each),
            };
            let subject: &[u8] = if dice.one_in(4) { b"bob" } else { b"alice" };
            let request = Request::new(operation, subject).costs(cost);
            let expected = plain.ask_now(request).unwrap();
            let answer = cached.ask_now(request).unwrap();
            match (expected, answer) {
                (Ok(expected), Ok(answer)) => {
                    let context = format!("step {step}: {request:?} of {limit:?}");
                    assert_eq!(expected.is_allowed(), answer.is_allowed(), "{context}");
                    if answer.source() == Source::DenyCache {
                        // Exactly the remaining wait for equal costs; for other costs at least the remembered one.
                        let (RetryAfter::After(least), RetryAfter::After(exact)) =
                            (answer.retry_after(), expected.retry_after())
                        else {
                            panic!("{expected:?} and {answer:?} at {context}");
                        };
                        assert!(least <= exact, "{least:?} and {exact:?} at {context}");
                    } else {
                        assert_eq!(expected.retry_after(), answer.retry_after(), "{context}");
                    }
                    assert_eq!(expected.granted(), answer.granted(), "{context}");
                    asked += 1;
                    from_memory += usize::from(answer.source() == Source::DenyCache);
                }
                (Err(_), Err(_)) => {}
                (expected, answer) => panic!("{expected:?} and {answer:?}"),
            }
            let spans = [0, 0, 0, 1, 100, 10_000, 500_000, 1_000_000, 5_000_000];
            clock.advance(Duration::from_micros(dice.pick(&spans)));
        }
    });
    assert!(from_memory * 40 > asked, "{from_memory} of {asked} from memory");
}

#[test]
fn a_denial_is_believed_until_it_could_pass_and_for_a_second_at_most() {
    for (spec, longest) in [("gcra 5/s burst 1", 200), ("gcra 1/h", 1_000)] {
        let (clock, _, cached) = twins(&limit(&[spec]));
        let check = || cached.ask_now(Request::check(b"alice")).unwrap().unwrap();
        assert!(check().is_allowed());
        let denial = check();
        assert_eq!((denial.is_denied(), denial.source()), (true, Source::Store), "{spec}");
        clock.advance(Duration::from_millis(longest - 1));
        let again = check();
        assert_eq!((again.is_denied(), again.source()), (true, Source::DenyCache), "{spec}");
        let RetryAfter::After(retry) = denial.retry_after() else { panic!() };
        let left = retry - Duration::from_millis(longest - 1);
        assert_eq!(again.retry_after(), RetryAfter::After(left), "{spec}");
        clock.advance(Duration::from_millis(1));
        assert_eq!(check().source(), Source::Store, "{spec}");
    }
}

#[test]
fn what_costs_more_than_what_was_denied_is_denied_and_what_costs_less_is_asked() {
    let (_, _, cached) = twins(&limit(&["gcra 10/h burst 10 as a", "fixed_window 40/h as b"]));
    let ask = |costs: &[u64]| {
        let decision = cached.ask_now(Request::check(b"alice").costs(Costs::Each(costs)));
        let decision = decision.unwrap().unwrap();
        (decision.is_allowed(), decision.source(), decision.retry_after())
    };
    assert!(ask(&[8, 10]).0);
    let (allowed, source, retry) = ask(&[5, 10]);
    assert_eq!((allowed, source), (false, Source::Store));
    for costs in [&[5, 10], &[6, 10], &[10, 10], &[10, 0], &[5, 30]] {
        assert_eq!(ask(costs), (false, Source::DenyCache, retry), "{costs:?}");
    }
    // More than the first ever admits, and more than the second has left, which the cache doesn't know.
    assert_eq!(ask(&[11, 10]), (false, Source::Store, RetryAfter::Never));
    assert_eq!(ask(&[5, 31]).1, Source::Store);
    assert_eq!(ask(&[3, 10]).1, Source::Store, "it may have passed");
    assert!(ask(&[2, 10]).0);
}

#[test]
fn limits_that_have_to_see_every_request_see_it() {
    for specs in [
        &["gcra 1/h", "gcra 1/h shadow"][..],
        &["fixed_window 1/h charge_denied"],
        &["fixed_window 1/h count_denied"],
    ] {
        let (_, _, cached) = twins(&limit(specs));
        for _ in 0..5 {
            let decision = cached.ask_now(Request::check(b"alice")).unwrap().unwrap();
            assert_eq!(decision.source(), Source::Store, "{specs:?}");
        }
    }
    let cache = DenyCache::new(MemoryStore::new());
    let options = OpenOptions::default().layer(RemembersDenials(false));
    let opened = cache.open(limit(&["gcra 1/h"]), options);
    for _ in 0..5 {
        let decision = opened.ask_now(Request::check(b"alice")).unwrap().unwrap();
        assert_eq!(decision.source(), Source::Store, "it was opened so");
    }
}

#[tokio::test]
async fn a_server_is_asked_once_for_a_thousand_denials_and_again_after_a_refund() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store =
            RedisStore::builder(&server.url()).unwrap().deadline(Duration::from_secs(5)).build();
        let clock = Arc::new(ManualClock::new(Timestamp::EPOCH));
        let cache = DenyCache::builder(store).clock(clock.clone()).build();
        let opened = cache.open(limit(&["token_bucket 3/h"]), OpenOptions::default());
        let check = async || opened.ask(Request::check(b"alice")).wait().await.unwrap();
        for _ in 0..3 {
            assert!(check().await.is_allowed());
        }
        server.cli(&["CONFIG", "RESETSTAT"]).unwrap();
        for _ in 0..1_000 {
            assert!(check().await.is_denied());
        }
        let told = server.cli(&["INFO", "commandstats"]).unwrap();
        assert!(told.contains("cmdstat_evalsha:calls=1,"), "{binary}: {told}");
        let refund = Request::new(Operation::Refund, b"alice");
        let _ = opened.ask(refund).wait().await.unwrap();
        assert!(check().await.is_allowed(), "{binary}");
        assert!(check().await.is_denied(), "{binary}");
        // Units that another process gives back are noticed a second later.
        let other = RedisStore::builder(&server.url()).unwrap().build();
        let other = other.open(limit(&["token_bucket 3/h"]), OpenOptions::default());
        let _ = other.ask(refund).wait().await.unwrap();
        clock.advance(Duration::from_millis(999));
        assert!(check().await.is_denied(), "{binary}");
        clock.advance(Duration::from_millis(1));
        assert!(check().await.is_allowed(), "{binary}");
    }
}
