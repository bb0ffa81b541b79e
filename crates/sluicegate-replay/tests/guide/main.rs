//! Checks the plots and numbers of the pages in `docs/policies` against a replay.

#![expect(clippy::unwrap_used, reason = "helpers of tests may")]

mod burst;

use std::collections::BTreeSet;
use std::fs;
use std::iter::repeat_n;
use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use roxmltree::Document;
use sluicegate::store::Span;
use sluicegate::testing::{ManualClock, Timestamp};
use sluicegate::{Decision, Limiter, MemoryStore};

use crate::burst::{PLOTS, pictures, report, times};

const MINUTE: u64 = 60_000_000;

fn guide() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies"))
}

#[test]
fn the_plots_of_the_guide_are_up_to_date() {
    let mut names = BTreeSet::new();
    for (name, plot) in pictures(&report().unwrap()) {
        let committed = fs::read_to_string(guide().join(&name)).unwrap_or_default();
        assert!(committed == plot, "docs/policies/{name} is out of date: run `cargo xtask plots`");
        let document = Document::parse(&plot).unwrap();
        assert_eq!(document.root_element().attribute("class"), Some("plot"));
        assert!(!plot.contains("class=\"hover\""));
        names.insert(name);
    }
    let committed: BTreeSet<_> = fs::read_dir(guide())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".svg"))
        .collect();
    assert_eq!(committed, names);
}

/// A policy with its own clock.
struct Alone {
    limiter: Limiter<MemoryStore>,
    clock: Arc<ManualClock>,
}

impl Alone {
    fn new(policy: &str) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store = MemoryStore::builder().clock(clock.clone()).build();
        Self { limiter: Limiter::new(store, sluicegate::Limit::new("l", [policy]).unwrap()), clock }
    }

    /// Returns the maximum number of requests admitted within any minute, for requests at `times`
    /// in µs, in order. A minute includes its first µs and excludes the first µs of the next
    /// minute.
    fn most_in_a_minute(&self, times: impl IntoIterator<Item = u64>) -> usize {
        let is_admitted = |time: &u64| {
            self.clock.set(Timestamp::from_micros(*time).unwrap());
            self.limiter.check("k").now().unwrap().is_allowed()
        };
        let admitted: Vec<_> = times.into_iter().filter(is_admitted).collect();
        let within = |(index, from): (usize, &u64)| {
            admitted[index..].iter().take_while(|&&time| time < from + MINUTE).count()
        };
        admitted.iter().enumerate().map(within).max().unwrap_or(0)
    }
}

/// Returns the number in bold at the end of a row of the page's table.
fn stated(page: &str, row: &str) -> u64 {
    let is_row = |line: &&str| line.starts_with(&format!("| {row}"));
    let line = page.lines().find(is_row).unwrap_or_default();
    let number = line.rsplit("**").nth(1).unwrap_or_default().replace(',', "").parse();
    assert!(number.is_ok(), "no number in the row `{row}`: {line:?}");
    number.unwrap()
}

/// Returns the pages' parts on each plotted policy: its spec, and the text up to the next plot.
fn parts() -> Vec<(&'static str, String)> {
    PLOTS
        .into_iter()
        .map(|(name, policy)| {
            let page = name.split('-').next().unwrap();
            let text = fs::read_to_string(guide().join(format!("{page}.md"))).unwrap();
            let (_, after) = text.split_once(&format!("({name}.svg)")).unwrap();
            let part = after.split(".svg)").next().unwrap();
            (policy, part.to_owned())
        })
        .collect()
}

#[test]
fn the_pages_tell_what_is_admitted() {
    let report = report().unwrap();
    for ((policy, part), subject) in parts().iter().zip(report.subjects()) {
        assert_eq!(subject.heading(), *policy);
        assert_eq!(subject.requests(), 600);
        assert_eq!(stated(part, "admitted of 600"), subject.allowed(), "{policy}");
        let most = Alone::new(policy).most_in_a_minute(times().into_iter().map(|ms| ms * 1_000));
        assert_eq!(stated(part, "most in any minute"), most as u64, "{policy}");
    }
}

/// A midnight, in µs since the epoch.
const EDGE: u64 = 20_485 * 1_440 * MINUTE;

/// Returns the worst-case requests for a policy: times in µs, each with a number of requests.
fn worst(policy: &str) -> Vec<(u64, usize)> {
    const ALL: usize = 700;
    let algorithm = policy.split(' ').next().unwrap();
    match algorithm {
        // The first request opens the window, unless windows are aligned.
        "fixed_window" if !policy.contains("aligned") && !policy.contains("calendar") => {
            vec![(EDGE - MINUTE, 1), (EDGE - 1, ALL), (EDGE, ALL)]
        }
        "fixed_window" => vec![(EDGE - 1, ALL), (EDGE, ALL)],
        "sliding_counter" => [(EDGE - 1, ALL)]
            .into_iter()
            .chain((0..60_000).map(|ms| (EDGE + ms * 1_000, 1)))
            .take(60_000)
            .collect(),
        // The end of a slice of ten seconds, and the instant at which it leaves the window.
        "sliding_window" => vec![(EDGE - 1, ALL), (EDGE - 10_000_000 + MINUTE, ALL)],
        "sliding_log" => vec![(EDGE, ALL), (EDGE + MINUTE - 1, ALL)],
        // Every 50 ms for three minutes, after a pause.
        _ => [(EDGE - 10 * MINUTE, 1)]
            .into_iter()
            .chain([(EDGE, ALL)])
            .chain((1..3_600).map(|number| (EDGE + number * 50_000, 1)))
            .collect(),
    }
}

#[test]
fn the_worst_case_of_each_page_is_reached() {
    for (policy, part) in parts() {
        let requests = worst(policy).into_iter().flat_map(|(at, count)| repeat_n(at, count));
        let most = Alone::new(policy).most_in_a_minute(requests);
        assert_eq!(stated(&part, "at worst in any minute"), most as u64, "{policy}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_traffic_exceeds_the_worst_case_of_a_page(
        // Pauses in µs, each with the number of requests that follow it.
        traffic in prop::collection::vec(
            (prop_oneof![0..3_u64, 0..2_000_000_u64, 0..90_000_000_u64], 1..200_usize), 1..40),
    ) {
        for (policy, part) in parts() {
            let mut at = EDGE - 5 * MINUTE;
            let requests = traffic.iter().flat_map(|&(pause, count)| {
                at += pause;
                repeat_n(at, count)
            });
            let most = Alone::new(policy).most_in_a_minute(requests);
            prop_assert!(most as u64 <= stated(&part, "at worst in any minute"), "{}", policy);
        }
    }
}

#[test]
fn the_pages_tell_how_long_a_key_that_is_used_up_waits() {
    for (policy, part) in parts() {
        let alone = Alone::new(policy);
        alone.clock.set(Timestamp::from_micros(EDGE).unwrap());
        let mut decisions = (0..10_000).map(|_| alone.limiter.check("k").now().unwrap());
        let denied = decisions.find(Decision::is_denied).unwrap();
        let retry = denied.retry_after().as_millis_ceil().unwrap();
        let reset =
            Span::from(denied.policy(0).unwrap().reset_after().unwrap()).as_micros() / 1_000;
        assert_eq!(stated(&part, "retry after"), retry, "{policy}");
        assert_eq!(stated(&part, "reset after"), reset, "{policy}");
    }
}
