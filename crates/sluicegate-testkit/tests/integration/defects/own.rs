//! Former defects of Sluicegate itself.

use sluicegate_core::Span;
use sluicegate_core::for_stores::{Stored, step};
use sluicegate_core::kernel::{Now, State};
use sluicegate_core::{OpenOptions, OpenedLimit as _, Operation, Request, Store as _, TimeSource};
use sluicegate_memory::MemoryStore;

use crate::defects::everywhere::{Everywhere, MS, S, START, at, limit};
use crate::defects::raw::{injected, on_each_server};

/// Tests reservations within a microsecond. Three units drain per µs, and one is missing, so three
/// more fit after a third of a µs. The caller acts after a whole µs, and also gets the units that
/// drained in between.
#[test]
fn the_rest_of_the_microsecond_that_a_reservation_waits_for_is_nobody_s() {
    let mut all = Everywhere::new(&["token_bucket 3000000/s burst 3"]);
    assert!(all.ask(at(0)).is_allowed());
    assert_eq!(Span::from(all.ask(at(0).cost(3).reserve(MS)).wait()).as_micros(), 1);
    assert!(all.ask(at(1).cost(2)).is_denied(), "5 of 3 in one instant");
    assert!(all.ask(at(2).cost(3)).is_allowed());
}

/// Tests mixtures of requests and reservations. In any interval, the acts are at most the burst and
/// the units that the rate gives back in it.
#[test]
fn no_interval_has_more_than_the_burst_and_the_rate_whoever_reserves() {
    for (rate, unit, refill, burst) in
        [(3_000_000_u64, 1_u64, 3_u64, 3_u64), (1_500_000, 2, 3, 4), (700_000, 10, 7, 2)]
    {
        let mut all = Everywhere::new(&[&format!("token_bucket {rate}/s burst {burst}")]);
        let mut acts: Vec<(u64, u64)> = Vec::new();
        for step in 0..150_u64 {
            let (now, cost) = (step * 2 / 3, step * step % burst + 1);
            let ask = at(now).cost(cost);
            let ask = if step % 3 == 0 { ask } else { ask.reserve(step % 4) };
            let decision = all.ask(ask);
            if decision.is_allowed() {
                acts.push((now + Span::from(decision.wait()).as_micros(), cost));
            }
        }
        assert!(acts.len() > 20, "{} acted", acts.len());
        for &(from, _) in &acts {
            for &(to, _) in acts.iter().filter(|(to, _)| *to >= from) {
                let within = acts.iter().filter(|(act, _)| (from..=to).contains(act));
                let units: u64 = within.map(|(_, cost)| cost).sum();
                assert!(
                    units * unit <= burst * unit + refill * (to - from),
                    "{units} of {burst} at {rate}/s from {from} to {to} µs"
                );
            }
        }
    }
}

/// Tests giving back an entry in the middle of a log, whose tiers reach back beyond it on both
/// sides.
#[test]
fn what_is_given_back_from_the_middle_of_a_log_is_seen_by_every_tier() {
    let mut all = Everywhere::new(&["sliding_log 10/10s and 20/h"]);
    assert!(all.ask(at(0).cost(2)).is_allowed());
    let taken = all.ask(at(S).cost(4));
    assert!(all.ask(at(5 * S).cost(3)).is_allowed());
    let give_back = Operation::GiveBack { taken_at: taken.taken_at().unwrap() };
    let given = all.ask(at(12 * S).cost(3).to(give_back));
    assert_eq!(given.remaining(), Some(7), "10 - 3");
    assert_eq!(all.ask(at(12 * S).cost(3).to(give_back)).remaining(), Some(7), "one was left");
    assert_eq!(all.ask(at(16 * S).peek()).remaining(), Some(10));
    assert_eq!(all.ask(at(16 * S).cost(10)).remaining(), Some(0));
    assert_eq!(all.ask(at(30 * S).peek()).remaining(), Some(5), "20 - 2 - 3 - 10");
}

/// Programs of two versions take turns on one key, as during the rollout of a new rate.
const VERSIONS: [&str; 2] = ["token_bucket 1000000/s burst 10", "token_bucket 999999/s burst 10"];

/// Returns the number of allowed requests within `micros`, with one request of each version per µs.
fn allowed_in_turns(micros: u64, mut ask: impl FnMut(usize, u64) -> bool) -> u64 {
    let turns = (0..micros).flat_map(|at| [(0, at), (1, at)]);
    turns.filter(|&(version, at)| ask(version, at)).count() as u64
}

#[test]
fn programs_whose_rates_differ_lose_nothing_when_they_take_turns() {
    let limits = VERSIONS.map(|spec| limit(&[spec]));
    let mut held = [None];
    let kernels = allowed_in_turns(20_000, |version, at| {
        let now = Now { micros: START + at, max_clock_back: None };
        step(&limits[version], &Request::check(b"alice"), now, &mut held)
            .unwrap()
            .decision
            .is_allowed()
    });
    // Together the two rates give back 20,000 units less one fiftieth.
    assert!((20_009..=20_010).contains(&kernels), "{kernels}");

    let store = MemoryStore::new();
    let time = || OpenOptions::default().time(TimeSource::Injected { run: "turns".to_owned() });
    let opened = limits.map(|limit| store.open(limit, time()));
    let embedded = allowed_in_turns(20_000, |version, at| {
        opened[version].ask(injected(at)).now().unwrap().unwrap().is_allowed()
    });
    assert_eq!(embedded, kernels);

    on_each_server(|raw| {
        let opened = VERSIONS.map(|spec| raw.open_injected(&[spec]));
        let allowed = allowed_in_turns(500, |version, at| {
            raw.ask(&opened[version], injected(at)).is_allowed()
        });
        assert!((509..=510).contains(&allowed), "{allowed}");
    });
}

/// Tests that states are those of the new rate again once the last program with the old rate is
/// gone.
#[test]
fn a_state_returns_to_the_ticks_of_its_rate() {
    let limits = VERSIONS.map(|spec| limit(&[spec]));
    let mut held = [None];
    let mut ask = |version: usize, at: u64| {
        let now = Now { micros: START + at, max_clock_back: None };
        let _ = step(&limits[version], &Request::check(b"alice"), now, &mut held).unwrap();
        match held {
            [Some(Stored::State(State::Bucket(state)))] => state.unit,
            _ => panic!("a bucket's state"),
        }
    };
    assert_eq!([ask(0, 0), ask(1, 1), ask(0, 2)], [1, 1_000_000, 1_000_000]);
    assert_eq!(ask(0, 1_000), 1);
}
