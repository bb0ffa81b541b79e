//! Tests the bounds of simulations with small ones.

use std::io::Write as _;

use super::*;

const HOUR: u64 = 3_600_000_000;

fn bounds(decisions: u64, keys: usize) -> Bounds {
    Bounds { decisions, keys, ..Bounds::from_now() }
}

/// Bounds whose time is up.
fn late() -> Bounds {
    Bounds { end: Instant::now(), ..Bounds::from_now() }
}

const TERMS: Terms = Terms { since: Duration::from_secs(3_600), scale: false, from: None };

/// Returns a log with a request of each of these keys, one second apart.
fn log(keys: &[&str]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for (second, key) in keys.iter().enumerate() {
        writeln!(
            file,
            r#"{{"time":"2026-09-21T14:13:{second:02}Z","op":"check","limit":"a","key":"{key}","allowed":true,"source":"store","cost":1,"policies":[]}}"#
        )
        .unwrap();
    }
    file
}

fn read(log: &tempfile::NamedTempFile, bounds: Bounds) -> Gathered {
    read_log(log.path(), ["a".to_owned()].into(), TERMS, None, bounds).unwrap()
}

/// Plays decisions through a limit that allows one request a day.
fn played_with(gathered: Gathered, bounds: Bounds) -> Simulation {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let known = LimitConfig::new(Limit::new("a", ["fixed_window 9/d"]).unwrap());
    let proposal = Proposal::of_policies(&known, &["fixed_window 1/d".to_owned()]).unwrap();
    play(&proposal, gathered, None, false, bounds).unwrap()
}

fn of(simulation: &Simulation) -> [u64; 4] {
    let [limit] = &simulation.limits[..] else { panic!("{simulation:?}") };
    [simulation.decisions, simulation.left_out, limit.requests, limit.denied]
}

#[test]
fn all_decisions_within_the_bounds_are_played() {
    let log = log(&["x", "x", "y", "x"]);
    assert_eq!(of(&played_with(read(&log, bounds(4, 2)), bounds(4, 2))), [4, 0, 4, 2]);
}

#[test]
fn decisions_beyond_their_maximum_are_left_out() {
    let log = log(&["x", "x", "y", "x"]);
    let simulation = played_with(read(&log, bounds(3, 2)), bounds(3, 2));
    assert_eq!(of(&simulation), [3, 1, 3, 1]);
}

#[test]
fn further_keys_are_left_out_and_known_ones_are_not() {
    let log = log(&["x", "y", "z", "x", "z"]);
    let simulation = played_with(read(&log, bounds(9, 2)), bounds(9, 2));
    assert_eq!(of(&simulation), [3, 2, 3, 1]);
}

#[test]
fn lines_after_the_end_of_the_time_are_left_out() {
    let log = log(&["x", "x", "y"]);
    let simulation = played_with(read(&log, late()), bounds(9, 9));
    assert_eq!(of(&simulation), [0, 3, 0, 0]);
}

#[test]
fn keys_after_the_end_of_the_time_are_left_out() {
    let log = log(&["x", "x", "y"]);
    assert_eq!(of(&played_with(read(&log, bounds(9, 9)), late())), [3, 3, 0, 0]);
}

#[test]
fn the_time_that_the_decisions_cover_begins_with_the_first_or_an_hour_ago() {
    let keys = ["x"; 4];
    let gathered = read(&log(&keys), bounds(9, 9));
    assert_eq!(gathered.now - gathered.first, 3_000_000);
    let name = ["a".to_owned()].into();
    let later = Some(gathered.now + HOUR - 1_000_000);
    let cut = read_log(log(&keys).path(), name, TERMS, later, bounds(9, 9)).unwrap();
    assert_eq!((cut.decisions, cut.now - cut.first), (2, HOUR));
}
