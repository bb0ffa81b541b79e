use std::cell::Cell;
use std::num::NonZeroUsize;
use std::time::Duration;

use sluicegate::config::Switch;
use sluicegate::decision::Source;
use sluicegate::error::LimitError;
use sluicegate::store::{Span, Store as _};
use sluicegate::{Gate, Limit, Registry};

use crate::registry::support::{Setup, admitted, check, config, store};

fn bounded(most: usize) -> Registry {
    Registry::builder(store().0)
        .keyed_capacity(NonZeroUsize::new(most).unwrap())
        .keyed_idle(Duration::from_secs(300))
        .build()
}

/// Gets the gate of a key with a burst of `burst`, and counts how often it is made.
fn gate(registry: &Registry, key: &str, burst: u64, made: &Cell<usize>) -> Gate {
    let make = || {
        made.set(made.get() + 1);
        Limit::new("api", [format!("gcra 1/h burst {burst}")])
    };
    registry.keyed("api", key, make).unwrap()
}

/// Seed 3.9: a factory with a cache of limiters, for each key its numbers.
#[test]
fn each_key_has_the_numbers_that_were_made_for_it() {
    let (registry, made) = (bounded(10), Cell::new(0));
    assert_eq!(admitted(&gate(&registry, "a", 2, &made), "a", 9), 2);
    assert_eq!(admitted(&gate(&registry, "b", 3, &made), "b", 9), 3);
    // Seed 3.14: the key of the limiter and that of the bucket may differ.
    assert_eq!(admitted(&gate(&registry, "a", 2, &made), "user-of-a", 9), 2);
    assert_eq!(made.get(), 2);
    // Another call site with the same key has a cache of its own.
    let other = registry.keyed("other", "a", || Limit::new("other", ["gcra 1/h burst 7"])).unwrap();
    assert_eq!(admitted(&other, "a", 9), 7);
    let split = registry.keyed("ap", "ia", || Limit::new("ap", ["gcra 1/h burst 8"])).unwrap();
    assert_eq!(admitted(&split, "a", 9), 8);
}

/// Seed 3.9 and defect 3.13: the cache is bounded, and evicted gates lose nothing.
#[test]
fn the_cache_is_bounded_and_what_leaves_it_keeps_what_it_consumed() {
    let (registry, made) = (bounded(10), Cell::new(0));
    assert_eq!(admitted(&gate(&registry, "a", 3, &made), "a", 2), 2);
    for number in 0..1_000 {
        let key = format!("k{number}");
        assert_eq!(admitted(&gate(&registry, &key, 1, &made), &key, 2), 1);
        assert!(registry.keyed_len() <= 10);
    }
    assert_eq!(made.get(), 1_001);
    assert_eq!(admitted(&gate(&registry, "a", 3, &made), "a", 9), 1);
    assert_eq!(made.get(), 1_002, "it was made anew");
}

/// A customer that sends requests continuously is not looked up again because of others.
#[test]
fn the_one_that_was_not_asked_for_the_longest_leaves() {
    let (registry, made) = (bounded(2), Cell::new(0));
    for key in ["a", "b", "a", "c", "a", "d", "a"] {
        let _ = gate(&registry, key, 1, &made);
    }
    assert_eq!(made.get(), 4, "each once");
}

/// Clients choose keys, so a program that sets no bound has one too.
#[test]
fn the_cache_is_bounded_by_itself() {
    let (registry, made) = (Registry::builder(store().0).build(), Cell::new(0));
    for number in 0..10_100 {
        let _ = gate(&registry, &number.to_string(), 1, &made);
    }
    assert_eq!((made.get(), registry.keyed_len()), (10_100, 10_000));
}

/// Seed 3.9: five minutes after its last use, unless the registry is configured otherwise.
#[tokio::test(start_paused = true)]
async fn what_nobody_asks_for_goes_after_a_while() {
    let (registry, made) = (Registry::builder(store().0).build(), Cell::new(0));
    let _ = gate(&registry, "a", 1, &made);
    let minutes = |minutes: u64| tokio::time::advance(Duration::from_secs(60 * minutes));
    for _ in 0..5 {
        minutes(4).await;
        let _ = gate(&registry, "a", 1, &made);
    }
    assert_eq!(made.get(), 1, "it was asked for");
    minutes(5).await;
    let _ = gate(&registry, "a", 1, &made);
    assert_eq!(made.get(), 2);

    for number in 0..100 {
        let _ = gate(&registry, &format!("k{number}"), 1, &made);
    }
    assert_eq!(registry.keyed_len(), 101);
    minutes(5).await;
    // Each insertion evicts more than one.
    for number in 0..34 {
        let _ = gate(&registry, &format!("new{number}"), 1, &made);
    }
    assert_eq!(registry.keyed_len(), 34);

    let hour = Duration::from_secs(3_600);
    let (patient, made_there) =
        (Registry::builder(store().0).keyed_idle(hour).build(), Cell::new(0));
    let _ = gate(&patient, "a", 1, &made_there);
    minutes(59).await;
    let _ = gate(&patient, "a", 1, &made_there);
    assert_eq!(made_there.get(), 1);
}

#[test]
fn keys_of_any_length_are_kept_apart_and_very_long_ones_not_kept() {
    let (registry, made) = (bounded(10), Cell::new(0));
    let long = "x".repeat(100_000);
    assert_eq!(admitted(&gate(&registry, &long, 2, &made), &long, 9), 2);
    assert_eq!(admitted(&gate(&registry, &long, 3, &made), &long, 9), 1, "of 3, 2 are taken");
    assert_eq!((made.get(), registry.keyed_len()), (2, 0));
}

#[test]
fn what_can_t_be_made_is_tried_again() {
    let registry = bounded(10);
    let wrong: Result<Gate, LimitError> =
        registry.keyed("api", "a", || Limit::new("api", ["gcra 1/m"]));
    assert!(wrong.unwrap_err().to_string().contains("write `min`"));
    let gate = registry.keyed("api", "a", || Limit::new("api", ["gcra 1/h burst 4"])).unwrap();
    assert_eq!(admitted(&gate, "a", 9), 4);
}

#[test]
fn switches_and_lists_of_the_name_count_and_its_numbers_do_not() {
    let setup = Setup::new(
        "limits: {api: {policies: [gcra 1/h burst 1], allow: [friend], block: [foe], overrides: [{key: a, times: 100}]}}",
    );
    let registry = &setup.registry;
    let gate = registry.keyed("api", "a", || Limit::new("api", ["gcra 1/h burst 2"])).unwrap();
    assert_eq!(admitted(&gate, "a", 9), 2);
    assert_eq!(admitted(&gate, "friend", 9), 9);
    assert!(check(&gate, "foe").is_denied());
    assert!(registry.switch_limit("api", Switch::Off).is_some());
    assert_eq!(check(&gate, "a").source(), Source::Bypass);
    assert!(registry.switch_limit_back("api").is_some());
    setup.replace("limits: {other: {policies: [gcra 1/h]}}");
    assert_eq!(admitted(&gate, "foe", 9), 2);
    assert_eq!(admitted(&gate, "a", 9), 0, "what was consumed stays");
}

/// The gate of one plan leaves the cache. Its consumed units outlive it, although they equal a fresh state under faster
/// plans.
#[test]
fn consumption_under_a_slow_plan_outlives_its_place_in_the_cache() {
    let (store, clock) = store();
    let registry = Registry::builder(store).keyed_capacity(NonZeroUsize::new(1).unwrap()).build();
    let plan =
        |key: &str, spec: &str| registry.keyed("api", key, || Limit::new("api", [spec])).unwrap();
    assert_eq!(admitted(&plan("slow", "gcra 1/h burst 2"), "slow", 9), 2);
    assert_eq!(admitted(&plan("quick", "gcra 100/s burst 100"), "quick", 1), 1);
    assert_eq!(registry.keyed_len(), 1);
    clock.advance(Span::MINUTE);
    (0..10_000).for_each(|_| registry.store().maintain());
    assert_eq!(admitted(&plan("slow", "gcra 1/h burst 2"), "slow", 9), 0);
}

#[test]
fn several_threads_that_ask_at_once_share_one_consumption() {
    let registry = bounded(10);
    let passed: usize = std::thread::scope(|scope| {
        let ask = || {
            let make = || Limit::new("api", ["gcra 1/h burst 50"]);
            (0..50)
                .map(|_| admitted(&registry.keyed("api", "k", make).unwrap(), "k", 1))
                .sum::<usize>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((passed, registry.keyed_len()), (50, 1));
}

#[test]
fn a_configuration_may_come_after_the_gate() {
    let registry = bounded(10);
    let gate = registry.keyed("api", "a", || Limit::new("api", ["gcra 1/h burst 2"])).unwrap();
    assert_eq!(admitted(&gate, "a", 1), 1);
    let _ = registry.replace(&config("limits: {api: {policies: [gcra 1/h], block: [a]}}")).unwrap();
    assert!(check(&gate, "a").is_denied());
}
