//! Requests with an id over the embedded store.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::OnStoreFailure;
use sluicegate::decision::{HoldFound, Source};
use sluicegate::error::{RequestErrorKind, StoreErrorKind};
use sluicegate::layers::{Breaker, DenyCache, Fallback, Leases, Processes, Retry};
use sluicegate::store::DecisionForStores as _;
use sluicegate::store::Store;
use sluicegate::testing::ManualClock;
use sluicegate::{Ask, Config, Error, Limit, Limiter, MemoryStore, Registry, Usage};
use sluicegate_testkit::layers::{Outage, Unsteady};

fn limiter(spec: &str) -> Limiter<MemoryStore> {
    Limiter::new(MemoryStore::new(), Limit::new("l", [spec]).unwrap())
}

fn kind(error: &Error) -> RequestErrorKind {
    error.as_request().unwrap().kind()
}

#[test]
fn a_repeat_is_answered_as_before_whatever_happened_meanwhile() {
    let limiter = limiter("fixed_window 10/h");
    let ask = || Ask::new("k").cost(4).request_id("one");
    let first = limiter.check(ask()).now().unwrap();
    assert!(first.is_allowed() && !first.is_repeat());
    assert!(limiter.charge(Ask::new("k").cost(6)).now().unwrap().is_allowed());
    let repeat = limiter.check(ask()).now().unwrap();
    assert!(repeat.is_repeat());
    assert_eq!(repeat.clone().without_repeat(), first);
    // A reset forgets the units, and not the request.
    assert_eq!(limiter.reset("k").now().unwrap().forgotten(), Some(true));
    assert!(limiter.check(ask()).now().unwrap().is_repeat());
    assert_eq!(limiter.peek("k").now().unwrap().remaining(), Some(10));
    assert_eq!(limiter.reset("k").now().unwrap().forgotten(), Some(false));
    // Another key knows nothing of it.
    let other = limiter.check(Ask::new("other").cost(4).request_id("one")).now().unwrap();
    assert!(other.is_allowed() && !other.is_repeat());
}

#[test]
fn a_repeat_of_a_hold_has_the_same_token_even_when_that_is_settled() {
    let limiter = limiter("fixed_window 1000/h as tokens");
    let hold = |lasts| limiter.check(Ask::new("k").cost(400).request_id("one")).hold(lasts).now();
    let first = hold(Duration::from_secs(60)).unwrap();
    let repeat = hold(Duration::from_secs(60)).unwrap();
    assert!(repeat.is_repeat());
    assert_eq!(repeat.token(), first.token());
    let settled = limiter.settle(first.token().unwrap(), Usage::of("tokens", 100)).now().unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Live));
    let repeat = hold(Duration::from_secs(60)).unwrap();
    assert_eq!((repeat.token(), repeat.remaining()), (first.token(), Some(600)));
    let settled = limiter.settle(repeat.token().unwrap(), Usage::of("tokens", 100)).now().unwrap();
    assert_eq!(settled.hold_found(), Some(HoldFound::Settled));
    assert_eq!(limiter.peek("k").now().unwrap().remaining(), Some(900));
    // Held for longer is something else.
    assert_eq!(kind(&hold(Duration::from_secs(3_600)).unwrap_err()), RequestErrorKind::Conflict);
}

#[test]
fn another_operation_or_cost_is_a_conflict_and_a_denial_is_not_remembered() {
    let limiter = limiter("fixed_window 10/h");
    let ask = |units| Ask::new("k").cost(units).request_id("one");
    assert!(limiter.check(ask(11)).now().unwrap().is_denied());
    assert_eq!(limiter.take(ask(4)).now().unwrap().granted(), 4);
    assert_eq!(limiter.take(ask(4)).now().unwrap().granted(), 4);
    for error in [
        limiter.check(ask(4)).now().unwrap_err(),
        limiter.charge(ask(4)).now().unwrap_err(),
        limiter.take(ask(5)).now().unwrap_err(),
    ] {
        assert_eq!(kind(&error), RequestErrorKind::Conflict);
        assert!(error.to_string().contains("nothing was charged"), "{error}");
    }
    assert_eq!(limiter.peek("k").now().unwrap().remaining(), Some(6));
}

#[test]
fn ids_and_lives_out_of_range_are_refused_before_anything_is_charged() {
    let limiter = limiter("fixed_window 10/h");
    let long = "x".repeat(256);
    let week = Ask::new("k").request_id("one").known_for(Duration::from_secs(604_800));
    let nothing = Ask::new("k").request_id("one").known_for(Duration::ZERO);
    for ask in [Ask::new("k").request_id(""), Ask::new("k").request_id(&long), week, nothing] {
        let error = limiter.check(ask).now().unwrap_err();
        assert_eq!(kind(&error), RequestErrorKind::Invalid, "{error}");
    }
    let ask = || Ask::new("k").request_id("one");
    for error in [
        limiter.peek(ask()).now().unwrap_err(),
        limiter.refund(ask()).now().unwrap_err(),
        limiter.reset(ask()).now().unwrap_err(),
    ] {
        assert_eq!(kind(&error), RequestErrorKind::Invalid, "{error}");
    }
    assert_eq!(limiter.peek("k").now().unwrap().remaining(), Some(10));
}

/// The maximum number of ids, and many more.
#[test]
fn a_full_table_refuses_new_ids_answers_repeats_and_has_room_again_later() {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limit = Limit::new("l", ["fixed_window 1000000000/h"]).unwrap();
    let limiter = Limiter::new(store, limit);
    let ask = |number: u32| {
        limiter
            .check(Ask::new("k").request_id(number.to_be_bytes()).known_for(Duration::from_secs(1)))
            .now()
    };
    let mut bytes = 0;
    for number in 0..400_000 {
        match ask(number) {
            Ok(decision) => assert!(decision.is_allowed() && number < 65_536),
            Err(error) => {
                assert!(number >= 65_536, "{number}: {error}");
                assert_eq!(kind(&error), RequestErrorKind::Full);
                bytes = bytes.max(Store::stats(&**limiter.store()).bytes.unwrap());
            }
        }
    }
    assert!(ask(7).unwrap().is_repeat());
    let charged = 1_000_000_000 - limiter.peek("k").now().unwrap().remaining().unwrap();
    assert_eq!(charged, 65_536);
    assert!((10_000_000..40_000_000).contains(&bytes), "{bytes} bytes are counted");
    clock.advance(Duration::from_secs(1));
    let again = ask(7).unwrap();
    assert!(again.is_allowed() && !again.is_repeat());
}

/// The bytes of ids count against the memory budget. If there is not enough for an id, nothing is charged.
#[test]
fn a_store_without_room_denies_what_it_could_not_remember() {
    let store = MemoryStore::builder()
        .max_bytes(300_000.try_into().unwrap())
        .overflow(sluicegate_memory::Overflow::Deny)
        .build();
    let limiter = Limiter::new(store, Limit::new("l", ["fixed_window 100000/h"]).unwrap());
    let ask = |number: u32| limiter.check(Ask::new("k").request_id(number.to_be_bytes())).now();
    let allowed = (0..5_000).take_while(|&number| ask(number).unwrap().is_allowed()).count();
    assert!((200..4_000).contains(&allowed), "{allowed}");
    let denied = ask(4_999).unwrap();
    assert!(denied.is_denied() && denied.warnings().full);
    assert!(ask(0).unwrap().is_repeat());
    let charged = 100_000 - limiter.peek("k").now().unwrap().remaining().unwrap();
    assert_eq!(charged, allowed as u64);
    assert!(Store::stats(&**limiter.store()).bytes.unwrap() <= 300_000);
}

#[test]
fn several_limits_together_know_a_request_by_the_first() {
    let [user, team] = ["user", "team"].map(|name| Limit::new(name, ["gcra 1/h burst 9"]));
    let both = Limit::together([user.unwrap(), team.unwrap()]).unwrap();
    let limiter = Limiter::new(MemoryStore::new(), both);
    let ask = |team: &'static str| Ask::new("alice").and(Ask::new(team)).request_id("one");
    assert!(!limiter.check(ask("red")).now().unwrap().is_repeat());
    let repeat = limiter.check(ask("red")).now().unwrap();
    assert!(repeat.is_repeat());
    assert_eq!(repeat.policies().map(|it| it.remaining().unwrap()).collect::<Vec<_>>(), [8, 8]);
    let error = limiter.check(ask("blue")).now().unwrap_err();
    assert_eq!(kind(&error), RequestErrorKind::Conflict);
}

#[test]
fn gates_know_requests_by_their_ids() {
    let config = "limits: {user: {policies: [fixed_window 9/h], allow: [root]}, team: {policies: [fixed_window 99/h]}}";
    let registry = Registry::open(&Config::parse(config, "limits.yaml").unwrap()).unwrap();
    let both = registry.gate("user").and(registry.gate("team")).unwrap();
    let ask = |key: &'static str| Ask::new(key).and(Ask::new("red")).request_id("one");
    assert!(!both.check(ask("alice")).now().unwrap().is_repeat());
    assert!(both.check(ask("alice")).now().unwrap().is_repeat());
    // With a listed key, only the other limit is asked.
    assert!(!both.check(ask("root")).now().unwrap().is_repeat());
    assert!(both.check(ask("root")).now().unwrap().is_repeat());
    assert_eq!(registry.gate("team").peek("red").now().unwrap().remaining(), Some(97));
}

/// Neither remembered denials nor units taken ahead answer it, and a share can't promise anything.
#[tokio::test]
async fn a_request_with_an_id_takes_the_exact_way_through_all_layers() {
    let store = Unsteady::new(MemoryStore::new());
    let one = Processes::Number(std::num::NonZeroU16::MIN);
    let retry = Retry::new(store.clone());
    let layers = DenyCache::new(Leases::new(Fallback::new(Breaker::new(retry), one)));
    let limit = Limit::new("l", ["token_bucket 1/h burst 5"]).unwrap();
    let limiter = Limiter::builder(layers, limit).on_store_failure(OnStoreFailure::Local).build();
    let ask = || Ask::new("k").request_id("one");
    assert_eq!(limiter.check(ask()).await.unwrap().remaining(), Some(4));
    while limiter.check("k").await.unwrap().is_allowed() {}
    assert_eq!(limiter.check("k").await.unwrap().source(), Source::DenyCache);
    let repeat = limiter.check(ask()).await.unwrap();
    assert_eq!((repeat.source(), repeat.is_repeat()), (Source::Store, true));
    let denied = limiter.check(Ask::new("k").request_id("two")).await.unwrap();
    assert_eq!((denied.source(), denied.is_denied()), (Source::Store, true));

    store.set(Outage::Away(StoreErrorKind::Unavailable));
    let local = limiter.check(ask()).await.unwrap();
    assert_eq!((local.source(), local.is_repeat()), (Source::Fallback, false));
}
