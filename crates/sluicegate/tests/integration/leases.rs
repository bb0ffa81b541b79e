//! Leases on real servers: units that holders spend without a call stay within the limit.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use sluicegate::decision::Source;
use sluicegate::layers::{LeaseOptions, LeaseStats, Leases, LeasesLimit};
use sluicegate::policy::Cost;
use sluicegate::store::{
    Costs, OpenOptions, OpenedLimit, Operation, RedisLimit, Request, Store, StoreOptions,
};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, Decision, Limit, MemoryStore, RedisStore, Registry};
use sluicegate_testkit::servers::{Server, available, fresh_prefix, shared_each};

/// The longest leases: none expires because the machine is slow.
const LEASES: LeaseOptions = LeaseOptions { most: 100, lasts: Duration::from_secs(50) };

fn limit(specs: &[&str]) -> Limit {
    Limit::new("leased", specs.iter().copied()).unwrap()
}

fn store(server: &Server, prefix: &str) -> RedisStore {
    RedisStore::builder(&server.url())
        .unwrap()
        .prefix(prefix.parse().unwrap())
        .deadline(Duration::from_secs(5))
        .build()
}

/// Returns a process that takes leases, and its clock, which stands still.
fn holder(
    store: &RedisStore,
    specs: &[&str],
) -> (Leases<RedisStore>, LeasesLimit<RedisLimit>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_micros(1_000_000_000).unwrap()));
    let leases =
        Leases::builder(store.clone()).by_default(Some(LEASES)).clock(clock.clone()).build();
    let opened = leases.open(limit(specs), OpenOptions::default());
    (leases, opened, clock)
}

async fn check(opened: &impl OpenedLimit) -> Decision {
    opened.ask(Request::check(b"alice")).wait().await.unwrap()
}

async fn remaining(opened: &impl OpenedLimit) -> u64 {
    let peek = Request::new(Operation::Peek, b"alice");
    opened.ask(peek).wait().await.unwrap().remaining().unwrap()
}

#[tokio::test]
async fn all_holders_together_spend_the_limit_and_no_more() {
    for server in shared_each().unwrap() {
        for specs in
            [&["token_bucket 0/s burst 2000"][..], &["fixed_window 2000/w", "gcra 0/s burst 5000"]]
        {
            let store = store(server, &fresh_prefix("together"));
            let holders: Vec<_> = (0..4).map(|_| holder(&store, specs)).collect();
            let (mut allowed, mut local) = (0, 0);
            for round in 0..3_000 {
                let decision = check(&holders[round % 4].1).await;
                allowed += usize::from(decision.is_allowed());
                local += usize::from(decision.source() == Source::Lease);
                // While others hold units, every denial comes from the store.
                assert!(decision.is_allowed() || decision.source() == Source::Store);
            }
            assert_eq!(allowed, 2_000, "{specs:?}: all that was leased is spent");
            assert!(local > 1_000, "{specs:?}: {local} without a call");
            for (leases, ..) in &holders {
                let stats = leases.lease_stats();
                assert_eq!(stats.granted, stats.spent + stats.returned, "{stats:?}");
            }
        }
    }
}

#[tokio::test]
async fn units_that_a_holder_gives_back_at_its_end_are_for_the_others_at_once() {
    for server in shared_each().unwrap() {
        for specs in
            [&["token_bucket 0/s burst 2000"][..], &["fixed_window 2000/w", "gcra 0/s burst 5000"]]
        {
            let store = store(server, &fresh_prefix("given-back"));
            let [first, other] = [holder(&store, specs), holder(&store, specs)];
            let mut spent = 0;
            while first.0.lease_stats().granted < 10 {
                spent += u64::from(check(&first.1).await.is_allowed());
            }
            assert!(remaining(&other.1).await < 2_000 - spent, "units are held");
            first.0.return_leases().await;
            assert_eq!(remaining(&other.1).await, 2_000 - spent);
            // From now on it takes none, and still decides.
            for _ in 0..100 {
                assert_eq!(check(&first.1).await.source(), Source::Store);
            }
            assert_eq!(remaining(&other.1).await, 1_900 - spent);
        }
    }
}

/// Kiritimati begins each date first, so its units count in every zone.
#[tokio::test]
async fn units_that_were_leased_in_one_zone_count_in_another() {
    for server in shared_each().unwrap() {
        let store = store(server, &fresh_prefix("zones"));
        let [first, last] = ["Pacific/Kiritimati", "Pacific/Pago_Pago"].map(|zone| {
            let spec = format!("fixed_window 2000/d calendar {zone} across_zones");
            holder(&store, &[spec.as_str()])
        });
        let mut allowed = 0;
        for _ in 0..1_200 {
            allowed += u64::from(check(&first.1).await.is_allowed());
        }
        assert_eq!(allowed, 1_200);
        for _ in 0..1_200 {
            allowed += u64::from(check(&last.1).await.is_allowed());
        }
        let unspent = |stats: LeaseStats| stats.granted - stats.spent - stats.returned;
        let [first, last] = [first.0.lease_stats(), last.0.lease_stats()];
        assert!(first.spent > 500 && last.spent > 100, "{first:?} {last:?}");
        // The unspent units of Kiritimati's holder are all that no request got.
        assert_eq!((allowed + unspent(first), unspent(last)), (2_000, 0), "{first:?} {last:?}");
    }
}

#[tokio::test]
async fn a_key_that_is_asked_about_seldom_is_not_leased() {
    for server in shared_each().unwrap() {
        let store = store(server, &fresh_prefix("seldom"));
        let (leases, opened, clock) = holder(&store, &["token_bucket 1000/h"]);
        for _ in 0..10 {
            assert_eq!(check(&opened).await.source(), Source::Store);
            clock.advance(LEASES.lasts);
        }
        assert_eq!(leases.lease_stats().granted, 0);
        // A key that is used often is leased, and leases grow.
        let mut calls = Vec::new();
        for ask in 0..400 {
            if check(&opened).await.source() == Source::Store {
                calls.push(ask);
            }
        }
        assert!(calls.len() < 16, "{calls:?}");
    }
}

#[tokio::test]
async fn a_lease_is_over_for_its_holder_before_it_is_for_the_server() {
    for server in shared_each().unwrap() {
        let store = store(server, &fresh_prefix("over"));
        let (leases, opened, clock) = holder(&store, &["token_bucket 0/s burst 1000"]);
        while leases.lease_stats().granted == 0 {
            let _ = check(&opened).await;
        }
        assert_eq!(check(&opened).await.source(), Source::Lease);
        clock.advance(LEASES.lasts);
        assert_eq!(check(&opened).await.source(), Source::Store, "it has ended here");
        let stats = leases.lease_stats();
        assert!(stats.expired > 0, "{stats:?}");
        // Nothing is credited: leased units that weren't spent are used up.
        let used = stats.asked + stats.granted;
        assert_eq!(remaining(&opened).await, 1_000 - used);
    }
}

#[tokio::test]
async fn what_is_held_is_given_back_before_the_store_decides_about_more() {
    for server in shared_each().unwrap() {
        let store = store(server, &fresh_prefix("back"));
        let (leases, opened, _) = holder(&store, &["token_bucket 0/s burst 1000"]);
        let mut spent = 0;
        while leases.lease_stats().granted < 50 {
            assert!(check(&opened).await.is_allowed());
            spent += 1;
        }
        // More than is held, and as much as there is at all.
        let rest = 1_000 - spent;
        let all = Costs::Same(Cost::new(rest).unwrap());
        let decision = opened.ask(Request::check(b"alice").costs(all)).wait().await.unwrap();
        assert!(decision.is_allowed(), "{decision:?}");
        assert!(check(&opened).await.is_denied());
        let stats = leases.lease_stats();
        assert_eq!(stats.granted, stats.spent + stats.returned, "{stats:?}");
        // A reset keeps units used that others hold. Here there are none.
        let reset = Request::new(Operation::Reset, b"alice");
        assert!(opened.ask(reset).wait().await.unwrap().forgotten().unwrap());
        assert_eq!(remaining(&opened).await, 1_000);
    }
}

#[tokio::test]
async fn a_reset_keeps_what_others_hold() {
    for server in shared_each().unwrap() {
        for specs in [["token_bucket 0/s burst 1000"], ["fixed_window 1000/w"]] {
            let store = store(server, &fresh_prefix("reset"));
            let (leases, opened, _) = holder(&store, &specs);
            while leases.lease_stats().granted < 50 {
                assert!(check(&opened).await.is_allowed());
            }
            let other = store.open(limit(&specs), OpenOptions::default());
            let _ = other.ask(Request::new(Operation::Reset, b"alice")).wait().await.unwrap();
            let left = remaining(&other).await;
            let stats = leases.lease_stats();
            let held = stats.granted - stats.spent;
            assert!((1..=1_000 - held).contains(&left), "{left} are left, {held} held");
            // Neither may a refund free them.
            let refund = Request::new(Operation::Refund, b"alice");
            let refund = refund.costs(Costs::Same(Cost::new(900).unwrap()));
            let _ = other.ask(refund).wait().await.unwrap();
            assert_eq!(remaining(&other).await, left, "{specs:?}");
        }
    }
}

#[tokio::test]
async fn a_holder_goes_on_spending_when_the_server_is_gone() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let store = RedisStore::builder(&server.url())
            .unwrap()
            .deadline(Duration::from_millis(200))
            .build();
        let (leases, opened, _) = holder(&store, &["token_bucket 1000000/s"]);
        while leases.lease_stats().granted < 200 {
            assert!(check(&opened).await.is_allowed());
        }
        drop(server);
        let stats = leases.lease_stats();
        let held = stats.granted - stats.spent;
        for _ in 0..held {
            let decision = check(&opened).await;
            assert_eq!((decision.is_allowed(), decision.source()), (true, Source::Lease));
        }
        let failed = opened.ask(Request::check(b"alice")).wait().await;
        assert!(failed.is_err(), "{failed:?}");
    }
}

#[tokio::test]
async fn a_configuration_turns_leases_on_for_a_limit() {
    for server in shared_each().unwrap() {
        let prefix = fresh_prefix("config");
        let text = format!(
            "store: {}\nredis: {{prefix: \"{prefix}\"}}\nlimits:\n  \
             leased: {{policies: [token_bucket 100000/s], deadline: 5s, leases: {{most: 50, lasts: 10s}}}}\n  \
             plain: {{policies: [token_bucket 100000/s], deadline: 5s}}",
            server.url()
        );
        let config = Config::parse(&text, "limits.yaml").unwrap();
        let store = config.store.open(&StoreOptions::from(&config)).unwrap();
        let registry = Registry::builder(store).config(&config).build();
        for (name, leases) in [("leased", true), ("plain", false)] {
            let gate = registry.gate(name);
            let mut local = 0;
            for _ in 0..500 {
                let decision = gate.check("alice").await.unwrap();
                assert!(decision.is_allowed());
                local += usize::from(decision.source() == Source::Lease);
            }
            assert_eq!(local > 400, leases, "{name}: {local}");
        }
    }
}

#[test]
fn a_store_that_leases_nothing_is_asked_each_time() {
    let leases = Leases::new(MemoryStore::new());
    let opened = leases.open(limit(&["gcra 100/s"]), OpenOptions::default());
    for _ in 0..100 {
        let decision = opened.ask_now(Request::check(b"alice")).unwrap().unwrap();
        assert_eq!(decision.source(), Source::Store);
    }
    assert_eq!(leases.lease_stats().granted, 0);
}
