//! The answers of streams to their reports.

use std::sync::Arc;

use sluicegate::testing::ManualClock;
use sluicegate::{Config, Registry};
use sluicegate_envoy::service::Quotas;
use sluicegate_testkit::layers::Failing;

use super::{LIMITS, Service, Told, ask, ask_one, usage};

#[tokio::test]
async fn a_newcomer_gets_a_quarter_and_then_what_it_needs() {
    let service = Service::new();
    let mut envoy = service.open();
    let first = ask_one(&mut envoy, 0, 1, 0).await;
    assert_eq!(first, Some(Told::Share { max: 61, rate: 245, seconds: 8 }));
    // The burst is charged, and the share flows back no more.
    assert_eq!(
        service.registry.gate("fleet").peek("everybody").now().unwrap().remaining(),
        Some(9_939)
    );
    service.pass(5_000);
    // 400 requests a second, a tenth more and one.
    let Some(Told::Share { rate, .. }) = ask_one(&mut envoy, 1_200, 800, 4).await else {
        panic!("it needs more")
    };
    assert_eq!(rate, 441);
    service.pass(5_000);
    let carried_on = ask_one(&mut envoy, 2_000, 0, 4).await;
    assert!(
        matches!(carried_on, Some(Told::Share { max: 110, rate: 441, seconds: 8..=10 })),
        "{carried_on:?}"
    );
    assert_eq!(service.quotas.counts().carried_on, 1);
}

#[tokio::test]
async fn two_streams_share_by_their_needs() {
    let service = Service::new();
    let (mut small, mut large) = (service.open(), service.open());
    for round in 0..6 {
        let seconds = if round == 0 { 0 } else { 4 };
        let got = [
            ask_one(&mut small, 500, 0, seconds).await,
            ask_one(&mut large, 0, 9_000, seconds).await,
        ];
        if round == 5 {
            let [Some(Told::Share { rate: small, .. }), Some(Told::Share { rate: large, .. })] =
                got
            else {
                panic!("both are active")
            };
            // One needs far less than half of the rate, so the other gets the rest.
            assert!((100..=124).contains(&small), "{small}");
            assert!((820..=880).contains(&large), "{large}");
        }
        service.pass(5_000);
    }
    let fleet = service.quotas.fleet();
    let [row] = &fleet.limits[..] else { panic!("one limit is assigned") };
    assert_eq!(
        (row.limit.as_str(), row.keys, row.shares.assigned_buckets, row.shares.rate),
        ("fleet", 1, 2, 1_000_000)
    );
    assert_eq!(row.busiest.len(), 1);
    assert_eq!((&*row.busiest[0].key, row.busiest[0].shares), (&b"everybody"[..], row.shares));
    assert_eq!((fleet.counts.streams, fleet.counts.buckets), (2, 2));
    drop((small, large));
    let counts = service.quotas.counts();
    assert_eq!((counts.streams, counts.buckets), (0, 0));
    assert!(service.quotas.fleet().limits.is_empty());
}

#[tokio::test]
async fn a_silent_bucket_is_abandoned_when_its_share_ran_out_and_gets_one_again() {
    let service = Service::new();
    let mut envoy = service.open();
    let Some(Told::Share { seconds, .. }) = ask_one(&mut envoy, 1, 0, 0).await else {
        panic!("it is new")
    };
    service.pass(5_000);
    assert_eq!(ask_one(&mut envoy, 0, 0, 5).await, None, "it is silent");
    let until = u64::try_from(seconds).unwrap() + 1;
    service.pass(until * 1_000 - 5_001);
    assert!(envoy.expire().is_none());
    service.pass(1);
    let abandoned = envoy.expire().expect("its share ran out").message;
    assert_eq!(super::read(abandoned)[0].1, Told::Abandon);
    assert_eq!(service.quotas.counts().buckets, 0);
    assert!(matches!(ask_one(&mut envoy, 0, 1, 0).await, Some(Told::Share { .. })));
}

/// A lost stream opens again without an identity. Its Envoy continues with its share, whose booking stays.
#[tokio::test]
async fn an_envoy_on_a_new_stream_keeps_its_share_until_there_is_a_better_one() {
    let service = Service::new();
    let mut envoy = service.open();
    let _ = ask_one(&mut envoy, 0, 1, 0).await;
    service.pass(5_000);
    let Some(Told::Share { rate: 980, .. }) = ask_one(&mut envoy, 0, 9_000, 4).await else {
        panic!("it gets all")
    };
    drop(envoy);
    service.pass(5_000);
    let mut again = service.open();
    assert_eq!(ask_one(&mut again, 4_850, 4_000, 4).await, None);
    service.pass(5_000);
    assert_eq!(ask_one(&mut again, 4_850, 4_000, 4).await, None, "the old share is still booked");
    service.pass(5_000);
    // The old share has ended, so the Envoy admits nothing.
    let Some(Told::Share { rate, .. }) = ask_one(&mut again, 0, 9_000, 4).await else {
        panic!("the old share isn't booked any more")
    };
    assert_eq!(rate, 980);
}

#[tokio::test]
async fn keys_on_lists_other_policies_and_unknown_buckets_are_answered_without_a_share() {
    let service = Service::new();
    let mut envoy = service.open();
    let buckets = [("user", "mallory"), ("user", "admin"), ("day", "alice"), ("other", "bucket")];
    let usages = || buckets.map(|id| usage(id, 1, 0, 0));
    let told: Vec<_> = ask(&mut envoy, usages()).await.into_iter().map(|(_, told)| told).collect();
    let expected = [Told::DenyAll(10), Told::AllowAll(10), Told::Abandon, Told::AllowAll(3_600)];
    assert_eq!(told, expected);
    assert!(ask(&mut envoy, usages()).await.is_empty(), "they know it");
    service.pass(5_000);
    let told: Vec<_> = ask(&mut envoy, usages()).await.into_iter().map(|(_, told)| told).collect();
    assert_eq!(told, expected[..3], "what is valid for an hour isn't repeated");
    // A pause begins while the bucket has a share.
    let user = || [usage(("user", "bob"), 1, 0, 0)];
    assert!(matches!(ask(&mut envoy, user()).await[0].1, Told::Share { .. }));
    let until = std::time::Duration::from_secs(60);
    let _ = service.registry.gate("fleet").pause("bob", until).now().unwrap();
    service.pass(5_000);
    assert_eq!(ask(&mut envoy, user()).await[0].1, Told::DenyAll(10));
}

#[tokio::test]
async fn without_the_store_nothing_is_assigned() {
    let config = Config::parse(LIMITS, "limits.yaml").unwrap();
    let registry = Registry::builder(Failing::down()).config(&config).build();
    let clock = Arc::new(ManualClock::default());
    let quotas = Quotas::with_clock(registry.clone(), clock.clone());
    let service = Service { registry, quotas, clock };
    assert_eq!(ask_one(&mut service.open(), 1, 0, 0).await, None);
    assert_eq!(service.quotas.counts().failed, 1);
}

/// The store has the bookings, so a service that knows nothing gives none of them twice.
#[tokio::test]
async fn a_service_that_was_killed_gives_nothing_twice() {
    let before = Service::new();
    let (mut envoy, mut other) = (before.open(), before.open());
    let _ = ask_one(&mut envoy, 0, 1, 0).await;
    before.pass(5_000);
    let Some(Told::Share { rate: 980, .. }) = ask_one(&mut envoy, 0, 9_000, 4).await else {
        panic!("it gets all")
    };
    let service = before.restarted();
    std::mem::forget(envoy);
    let mut booked = 980;
    while let Some(Told::Share { rate, .. }) = ask_one(&mut service.open(), 0, 1, 0).await {
        booked += rate;
    }
    assert_eq!(booked, 990, "99 % of the rate are booked in all, the last one by new holders");
    assert!(ask_one(&mut other, 0, 1, 0).await.is_none(), "nothing is left");
    service.pass(12_000);
    let Some(Told::Share { rate, .. }) = ask_one(&mut service.open(), 0, 1, 0).await else {
        panic!("the bookings have ended")
    };
    assert!(rate >= 200, "{rate}");
}

#[tokio::test]
async fn other_numbers_count_from_the_next_report_on() {
    let service = Service::new();
    let mut envoy = service.open();
    assert!(matches!(ask_one(&mut envoy, 1, 0, 0).await, Some(Told::Share { rate: 245, .. })));
    let slower = LIMITS.replace("1000/s burst 10000", "500/s burst 5000");
    let config = Config::parse(&slower, "limits.yaml").unwrap();
    assert!(service.registry.replace(&config).is_ok());
    service.pass(5_000);
    let told = ask_one(&mut envoy, 500, 0, 4).await;
    assert!(matches!(told, Some(Told::Share { rate: 110..=112, .. })), "{told:?}");
}
