//! A customer's zone changes: what the date used stays used, through files and through layers.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::ConfigErrors;
use sluicegate::decision::Source;
use sluicegate::error::StoreErrorKind;
use sluicegate::layers::{DenyCache, Fallback, Processes};
use sluicegate::store::{OpenOptions, OpenedLimit, Request, Span, Store};
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Config, Limit, MemoryStore, Registry, RetryAfter};
use sluicegate_testkit::layers::{Outage, Unsteady};

const HOUR: u64 = Span::HOUR.as_micros();
/// 2026-11-27T00:00:00Z.
const FRIDAY: u64 = 1_795_737_600_000_000;

/// Returns an embedded store, and its clock at an hour of Friday, UTC.
fn store_at(hour: u64) -> (MemoryStore, Arc<ManualClock>) {
    let now = Timestamp::from_micros(FRIDAY + hour * HOUR).unwrap();
    let clock = Arc::new(ManualClock::new(now));
    (MemoryStore::builder().clock(clock.clone()).build(), clock)
}

const fn hours(hours: u64) -> Duration {
    Duration::from_micros(hours * HOUR)
}

/// Returns a quota of 3 a day, in a zone with options, as a file.
fn file(zone: &str, overrides: &str) -> String {
    format!("limits: {{quota: {{policies: [fixed_window 3/d calendar {zone}]{overrides}}}}}")
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    Config::parse(text, "limits.yaml")
}

fn admitted(registry: &Registry, key: &str) -> usize {
    let gate = registry.gate("quota");
    (0..9).filter(|_| gate.check(key).now().unwrap().is_allowed()).count()
}

fn limit(most: u64, zone: &str) -> Limit {
    Limit::new("quota", [format!("fixed_window {most}/d calendar {zone} across_zones")]).unwrap()
}

fn passed(opened: &impl OpenedLimit, checks: usize) -> usize {
    let check = || opened.ask_now(Request::check(b"alice")).unwrap().unwrap();
    (0..checks).filter(|_| check().is_allowed()).count()
}

#[test]
fn a_reloaded_zone_keeps_the_used_units_only_across_zones() {
    for (option, again) in [(" across_zones", 0), ("", 3)] {
        // 13:00 in Berlin, 21:00 in Tokyo.
        let (store, clock) = store_at(12);
        let config = |zone: &str| parse(&file(&format!("{zone}{option}"), "")).unwrap();
        let registry = Registry::builder(store).config(&config("Europe/Berlin")).build();
        assert_eq!(admitted(&registry, "alice"), 3);
        let _ = registry.replace(&config("Asia/Tokyo")).unwrap();
        assert_eq!(admitted(&registry, "alice"), again, "{option}");
        clock.advance(hours(3));
        assert_eq!(admitted(&registry, "alice"), 3, "the 28th has begun in Tokyo");
        let _ = registry.replace(&config("Europe/Berlin")).unwrap();
        assert_eq!(admitted(&registry, "alice"), 0, "{option}");
        clock.advance(hours(8));
        let of_the_28th = if option.is_empty() { 3 } else { 0 };
        assert_eq!(admitted(&registry, "alice"), of_the_28th, "{option}");
    }
}

#[test]
fn an_override_gives_a_key_its_own_zone_across_zones() {
    let overrides = |spec: &str| format!(", overrides: [{{key: alice, policies: [{spec}]}}]");
    let (store, clock) = store_at(12);
    let home = parse(&file("Europe/Berlin across_zones", "")).unwrap();
    let registry = Registry::builder(store).config(&home).build();
    assert_eq!((admitted(&registry, "alice"), admitted(&registry, "bob")), (3, 3));
    let tokyo = overrides("fixed_window 5/d calendar Asia/Tokyo across_zones");
    let moved = parse(&file("Europe/Berlin across_zones", &tokyo)).unwrap();
    let _ = registry.replace(&moved).unwrap();
    assert_eq!(admitted(&registry, "alice"), 2, "3 of 5 were used");
    clock.advance(hours(3));
    assert_eq!((admitted(&registry, "alice"), admitted(&registry, "bob")), (5, 0));

    for (base, spec) in [
        ("Europe/Berlin", "fixed_window 5/d calendar Asia/Tokyo"),
        ("Europe/Berlin across_zones", "fixed_window 5/d calendar Asia/Tokyo"),
        ("Europe/Berlin across_zones", "fixed_window 5/w calendar Asia/Tokyo across_zones"),
    ] {
        let errors = parse(&file(base, &overrides(spec))).unwrap_err().to_string();
        assert!(errors.contains("has another window"), "{base} and {spec}: {errors}");
        assert!(errors.contains("calendar `across_zones`"), "{base} and {spec}: {errors}");
    }
}

#[test]
fn a_remembered_denial_of_another_zone_is_not_repeated() {
    // In Tokyo it is 00:00 of the 28th.
    let (store, clock) = store_at(15);
    let cache = DenyCache::builder(store).clock(clock).build();
    let open = |zone| cache.open(limit(3, zone), OpenOptions::default());
    let (berlin, tokyo) = (open("Europe/Berlin"), open("Asia/Tokyo"));
    assert_eq!(passed(&berlin, 9), 3);
    let remembered = berlin.ask_now(Request::check(b"alice")).unwrap().unwrap();
    assert_eq!(remembered.source(), Source::DenyCache);
    assert_eq!(passed(&tokyo, 9), 3);
    assert_eq!(passed(&berlin, 9), 0);
    let denied = berlin.ask_now(Request::check(b"alice")).unwrap().unwrap();
    assert_eq!(denied.retry_after(), RetryAfter::After(hours(32)));
}

#[test]
fn a_local_share_keeps_the_used_units_and_charges_them_to_the_date() {
    let (store, clock) = store_at(12);
    let store = Unsteady::new(store);
    let one = Processes::Number(NonZeroU16::MIN);
    let fallback = Fallback::builder(store.clone(), one).clock(clock.clone()).build();
    let open = |zone| fallback.open(limit(10, zone), OpenOptions::default());
    let (berlin, tokyo) = (open("Europe/Berlin"), open("Asia/Tokyo"));
    store.set(Outage::Away(StoreErrorKind::Unavailable));
    assert_eq!(passed(&berlin, 6), 6);
    assert_eq!(passed(&tokyo, 9), 4, "the share of one process is the whole limit");
    store.set(None);
    assert_eq!(passed(&tokyo, 9), 0, "the store is charged");
    let plain = store.open(limit(10, "Europe/Berlin"), OpenOptions::default());
    assert_eq!(passed(&plain, 9), 0);
    clock.advance(hours(3));
    assert_eq!((passed(&tokyo, 99), passed(&berlin, 99)), (10, 0));
}
