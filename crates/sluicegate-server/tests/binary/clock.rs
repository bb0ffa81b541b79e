//! Tests the embedded store on a machine whose wall clock is set while the service runs.

use std::time::{SystemTime, UNIX_EPOCH};

use sluicegate_testkit::servers::FakeClock;

use crate::support::{File, Service};

const LIMITS: &str = "
limits:
  day: {policies: [\"fixed_window 3/d calendar UTC\"]}
  hour: {policies: [\"fixed_window 3/h aligned\"]}
  minute: {policies: [\"fixed_window 1/min\"]}
  bucket: {policies: [\"token_bucket 1/h burst 1\"]}
";
const HOUR: i64 = 3_600;

fn start(offset: i64) -> (Service, FakeClock, File) {
    let (clock, file) = (FakeClock::new().unwrap(), File::new("limits.yaml", LIMITS));
    clock.set_offset(offset).unwrap();
    (Service::start_with_clock(&clock, &["--config", file.path()]), clock, file)
}

/// Returns the machine's own time, in ms since the epoch.
#[expect(clippy::disallowed_methods, reason = "the service's clock is told apart from this one")]
fn present() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

fn check(service: &Service, limit: &str) -> (u16, u64) {
    let reply = service.post("/v1/check", format!(r#"{{"limit":"{limit}","key":"k"}}"#));
    let json = reply.json();
    (reply.status, json["policies"][0]["reset_after_ms"].as_u64().unwrap())
}

/// Returns `true` if the limit's window ends at a multiple of its length on the machine's own
/// clock.
fn ends_in_time(service: &Service, limit: &str, length_ms: u64) -> bool {
    let before = present();
    let (status, reset) = check(service, limit);
    assert_eq!(status, 200, "{limit}");
    let latest = (present() + reset) / length_ms * length_ms;
    latest + 1 >= before + reset
}

#[test]
fn a_service_that_started_with_a_wrong_clock_ends_its_windows_in_time_when_the_clock_is_right() {
    // Half an hour more, so that hours are wrong as well.
    for offset in [-4 * HOUR - HOUR / 2, 4 * HOUR + HOUR / 2] {
        let (service, clock, _file) = start(offset);
        for (limit, length_ms) in [("day", 86_400_000), ("hour", 3_600_000)] {
            clock.set_offset(offset).unwrap();
            assert!(!ends_in_time(&service, limit, length_ms), "{limit} at {offset} s");
            clock.set_offset(0).unwrap();
            assert!(ends_in_time(&service, limit, length_ms), "{limit} at {offset} s");
        }
    }
}

#[test]
fn a_machine_that_was_suspended_has_refilled_its_buckets() {
    let (service, clock, _file) = start(0);
    for limit in ["minute", "bucket"] {
        clock.set_offset(0).unwrap();
        assert_eq!(check(&service, limit).0, 200, "{limit}");
        assert_eq!(check(&service, limit).0, 429, "{limit}");
        clock.set_offset(400 * 24 * HOUR).unwrap();
        assert_eq!(check(&service, limit).0, 200, "{limit}");
        assert_eq!(check(&service, limit).0, 429, "{limit}");
    }
}

#[test]
fn a_clock_that_is_set_back_gives_a_key_nothing() {
    let (service, clock, _file) = start(0);
    for limit in ["minute", "bucket"] {
        clock.set_offset(0).unwrap();
        assert_eq!(check(&service, limit).0, 200, "{limit}");
        for offset in [-4, -24 * HOUR, -48 * HOUR] {
            clock.set_offset(offset).unwrap();
            assert_eq!(check(&service, limit).0, 429, "{limit} at {offset} s");
        }
    }
}
