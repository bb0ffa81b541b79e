//! Clocks that are wrong, set or apart: only the deciding server's clock matters.

use std::time::Duration;

use sluicegate_testkit::processes::{Process, say, told};
use sluicegate_testkit::servers::{FakeClock, Server, available, fresh_prefix};
use sluicegate_testkit::wait::until_seldom;

use crate::chaos::load::{BUCKET, BUCKETS, Load, Manner, PROGRAMS, RULES, processes};
use crate::chaos::tally::{Findings, Times};

const WINDOW: usize = 1;

/// Starts a Valkey server with this clock. Redis doesn't run with such a clock.
fn server_with(clock: &FakeClock) -> Server {
    let binaries = available().unwrap();
    let valkey = binaries.iter().find(|binary| binary.product() == "valkey").unwrap();
    Server::builder(valkey).clock(clock).start().unwrap()
}

/// Sets the server's clock this many seconds away from the system's, and waits until it shows that.
fn set(clock: &FakeClock, server: &Server, offset: i64) {
    let seconds =
        || -> i64 { server.cli(&["TIME"]).unwrap().lines().next().unwrap().parse().unwrap() };
    let before = seconds();
    clock.set_offset(offset).unwrap();
    until_seldom("the server's clock is set", || match seconds() - before {
        0..=2 => Err(()),
        _ => Ok(()),
    });
}

/// Returns the excess units of a rule by the clock of this process, regardless of the server's clock.
fn over(findings: &Findings, rule: usize) -> u64 {
    findings.tally.excess(rule, Times::Process)
}

#[test]
fn a_server_clock_that_is_set_an_hour_forward_brings_one_burst() {
    let clock = FakeClock::new().unwrap();
    let server = server_with(&clock);
    let load = Load::begin("clock +1 h", &server.url());
    set(&clock, &server, 3_600);
    load.recovers();
    load.reaches_its_limits();
    let findings = load.end();
    findings.assert_in_order();
    // By its own clock, it is exact as usual.
    for rule in [BUCKET, WINDOW] {
        assert_eq!(findings.tally.excess(rule, Times::Server), 0, "{findings}");
    }
    for rule in BUCKETS {
        let over = over(&findings, rule);
        assert!(over <= RULES[rule].promise.at_once(), "{over} {findings}");
        println!(
            "chaos clock +1 h: {} {over} too many by a clock that was not set",
            RULES[rule].name
        );
    }
    assert!(over(&findings, BUCKET) > RULES[BUCKET].promise.at_once() / 2, "{findings}");
}

#[test]
fn a_server_clock_that_is_set_back_admits_nothing_too_much() {
    let clock = FakeClock::new().unwrap();
    let server = server_with(&clock);
    let load = Load::begin("clock back", &server.url());
    for offset in [-3_600, -3_604] {
        set(&clock, &server, offset);
        load.recovers();
        load.reaches_its_limits();
    }
    let findings = load.end();
    findings.assert_in_order();
    for rule in [BUCKET, WINDOW] {
        assert_eq!(findings.tally.excess(rule, Times::Server), 0, "{findings}");
    }
    for rule in BUCKETS {
        assert_eq!(over(&findings, rule), 0, "{findings}");
    }
}

/// The time for which it blocks a busy key is a setting. The used units are always kept.
#[test]
fn a_server_clock_that_is_set_back_holds_up_a_busy_key_no_longer_than_it_may() {
    for (allowed_ms, goes_on) in [(5_000, false), (1_000, true)] {
        let clock = FakeClock::new().unwrap();
        let server = server_with(&clock);
        let prefix = fresh_prefix("back");
        let load =
            Load::begin_with("clock −4 s", &server.url(), &prefix, Manner::Patient, |set| {
                set.max_clock_back = Duration::from_millis(allowed_ms);
            });
        set(&clock, &server, -4);
        let before = load.tally(|tally| tally.last(BUCKET));
        // Either it is admitted by times that were already, or none is until the clock is there again.
        load.recovers();
        let next = until_seldom("a unit", || {
            let newest = load.tally(|tally| tally.last(BUCKET));
            if newest == before { Err(()) } else { Ok(newest) }
        });
        assert_eq!(next < before, goes_on, "{next} after {before}");
        load.reaches_its_limits();
        let findings = load.end();
        findings.assert_in_order();
        for rule in BUCKETS {
            assert_eq!(over(&findings, rule), 0, "{findings}");
        }
    }
}

/// Seconds by which the other program's clock is ahead.
const AHEAD: u64 = 3 * 3_600;

#[test]
fn programs_whose_clocks_are_hours_apart_admit_nothing_too_much_together() {
    for binary in crate::chaos::binaries("apart") {
        let server = Server::start_with(&binary, &[]).unwrap();
        let prefix = fresh_prefix("apart");
        let clock = FakeClock::new().unwrap();
        clock.set_offset(i64::try_from(AHEAD).unwrap()).unwrap();
        let words = [server.url(), prefix.clone()];
        let words = words.each_ref().map(String::as_str);
        let other =
            Process::start_with_clock("chaos::clocks::program_of_another_time", &words, &clock);
        let load = begin(&server.url(), &prefix);
        let lines = other.finish();
        load.reaches_its_limits();
        let mut findings = load.end();
        assert!(lines.len() > 50, "{lines:?}");
        for line in lines {
            findings.tally.add_line(&line);
        }
        findings.assert_exact();
    }
}

/// Two processes of as many programs each share the limits.
fn begin(url: &str, prefix: &str) -> Load {
    Load::begin_with("clocks apart", url, prefix, Manner::Patient, |set| {
        set.fallback = Some(processes(2 * PROGRAMS));
    })
}

#[test]
#[ignore = "a process of `programs_whose_clocks_are_hours_apart_admit_nothing_too_much_together`"]
fn program_of_another_time() {
    let [url, prefix] = told();
    let load = begin(&url, &prefix);
    for _ in 0..3 {
        load.reaches_its_limits();
    }
    let findings = load.end();
    findings.assert_in_order();
    findings.tally.lines(AHEAD).for_each(say);
}
