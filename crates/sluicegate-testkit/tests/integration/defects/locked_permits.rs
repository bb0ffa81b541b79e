//! Source 3: permits like Guava's under a distributed lock, and a counter.

use std::time::Duration;

use sluicegate_core::{
    Decision, OpenOptions, OpenedLimit as _, Operation, Policy, RequestErrorKind, Span, Store as _,
    Timestamp,
};
use sluicegate_memory::MemoryStore;
use sluicegate_testkit::servers::{Server, available};

use crate::defects::everywhere::{Everywhere, HOUR, MIN, MS, S, at, every, limit, retry, times};
use crate::defects::raw::{Raw, check_of, injected, on_each_server, to};

/// Returns the wait in µs of each of `count` reservations at one instant.
fn waits(all: &mut Everywhere, count: usize, within: u64) -> Vec<u64> {
    let answers = all.ask_all(&vec![at(0).reserve(within); count]);
    let allowed = answers.into_iter().map(Result::unwrap).filter(Decision::is_allowed);
    allowed.map(|decision| Span::from(decision.wait()).as_micros()).collect()
}

/// Seed defect 3.1.
#[test]
fn every_reservation_waits_for_the_whole_queue_before_it() {
    for spec in ["smooth 1/s burst 1s", "token_bucket 1/s", "shaper 1/s queue 99"] {
        let expected: Vec<_> = (0..100).map(|place| place * S).collect();
        assert_eq!(waits(&mut Everywhere::new(&[spec]), 100, HOUR), expected, "{spec}");
        // With 10 s of patience: 11 reservations, spread over 10 s.
        let spread = waits(&mut Everywhere::new(&[spec]), 100, 10 * S);
        assert_eq!(spread, expected[..=10], "{spec}");
    }
    let mut all = Everywhere::new(&["smooth 1/s burst 1s"]);
    assert_eq!(all.ask(at(0).cost(5).reserve(HOUR)).wait(), Duration::ZERO);
    assert_eq!(
        Span::from(all.ask(at(0).reserve(HOUR)).wait()).as_micros(),
        5 * S,
        "ready at 5000 ms"
    );
}

/// Seed defect 3.2: no rate is exceeded by 8 polls per ms.
#[test]
fn no_rate_is_exceeded_however_often_it_is_asked() {
    for rate in [300_u64, 334, 501, 600, 1_000, 2_000] {
        for (spec, burst) in [
            (format!("token_bucket {rate}/s burst 1"), 1),
            (format!("smooth {rate}/s burst 0s"), 1),
        ] {
            let polls = every(125, 0, 10 * S);
            let long = Everywhere::embedded(&[&spec]).allowed_at(polls.clone());
            let most = rate * 10 + burst;
            let count = long.len() as u64;
            assert!(count <= most && count * 100 >= most * 95, "{count} of {most} for {spec}");
            let short: Vec<_> = polls.take(1_000).collect();
            let begun = Everywhere::new(&[&spec]).allowed_at(short);
            assert_eq!(begun, long[..begun.len()], "{spec}");
        }
        // Units that are saved while a poll is late aren't lost: exactly the rate.
        let exact = Everywhere::embedded(&[&format!("smooth {rate}/s burst 1s")]).allowed(every(
            125,
            0,
            10 * S,
        ));
        assert_eq!(exact, rate * 10, "{rate}/s");
    }
    let mut instant = Everywhere::embedded(&["token_bucket 2000/s"]);
    assert_eq!(instant.allowed(times(100_000, 0)), 2_000);
    assert_eq!(Everywhere::new(&["token_bucket 2000/s"]).allowed(times(4_000, 0)), 2_000);
    // 6000 at 600/s owe 10 s, plus the last third of the µs for which each of them waits.
    let mut debt = Everywhere::new(&["smooth 600/s burst 0s"]);
    assert_eq!(waits(&mut debt, 6_000, HOUR).len(), 6_000);
    assert_eq!(Span::from(debt.ask(at(0).reserve(HOUR)).wait()).as_micros(), 10 * S + 6_000 / 3);
}

/// Seed 3.17, for every policy that is a rate: nodes that race on the store's own clock don't
/// exceed the rate over any interval. A try is one call to the store, and waits for no other try
/// (seed defect 3.8).
#[test]
fn under_load_no_rate_is_exceeded_and_a_try_is_one_call() {
    const NODES: u64 = 4;
    const TRIES: u64 = 400;
    for (spec, burst) in [
        ("token_bucket 500/s burst 20", 20),
        ("gcra 500/s burst 20", 20),
        ("leaky_bucket 500/s capacity 20", 20),
        ("smooth 500/s burst 0s", 1),
        ("warmup 500/s over 1s", 1),
        ("shaper 500/s queue 20", 1),
    ] {
        let store = MemoryStore::new();
        let opened = store.open(limit(&[spec]), OpenOptions::default());
        // Synchronous, because nothing must be awaited.
        let hammer = || {
            let tries = (0..50 * TRIES).map(|_| opened.ask(check_of(1)).now().unwrap().unwrap());
            tries.filter_map(|decision| acts_at(&decision)).collect()
        };
        assert_bounded(spec, burst, together(NODES, hammer));

        for binary in available().unwrap() {
            let server = Server::start_with(&binary, &[]).unwrap();
            let raw = Raw::new(&server);
            let _ = raw.ask(&raw.open(&[spec]), to(Operation::Peek, 1));
            raw.command(&[b"CONFIG", b"RESETSTAT"]);
            let hammer = || {
                let node = Raw::another_of(&server, &raw.prefix);
                let opened = node.open(&[spec]);
                let tries = (0..TRIES).map(|_| node.check(&opened));
                tries.filter_map(|decision| acts_at(&decision)).collect()
            };
            assert_bounded(spec, burst, together(NODES, hammer));
            assert_eq!(calls(&server, "evalsha"), NODES * TRIES, "{spec}");
        }
    }
}

/// Returns the results of several threads that start at the same time.
fn together(threads: u64, run: impl Fn() -> Vec<u64> + Sync) -> Vec<u64> {
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(&run)).collect();
        all.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Returns the time at which an allowed request acts, by the store's clock.
fn acts_at(decision: &Decision) -> Option<u64> {
    decision.taken_at().map(|at| at.as_micros() + Span::from(decision.wait()).as_micros())
}

/// Checks that every interval has at most the burst plus 500 per second.
fn assert_bounded(spec: &str, burst: u64, mut acts: Vec<u64>) {
    acts.sort_unstable();
    assert!(acts.len() as u64 >= burst, "{spec}");
    for (first, from) in acts.iter().enumerate() {
        for (last, to) in acts.iter().enumerate().skip(first) {
            let (count, most) = ((last - first + 1) as u64, burst + (to - from) / 2_000);
            assert!(count <= most, "{spec}: {count} of {most} within {} us", to - from);
        }
    }
}

/// Seed 3.16: once a minute, as a window and as a rate.
#[test]
fn once_a_minute_is_said_in_two_ways() {
    for spec in ["fixed_window 1/min", "smooth 1/min"] {
        let mut all = Everywhere::new(&[spec]);
        let sent = all.allowed_at(every(S, 0, HOUR));
        assert_eq!(sent, (0..60).map(|minute| minute * MIN).collect::<Vec<_>>(), "{spec}");
        // In the middle of the minute: the rest of it, and no earlier with any number of requests.
        assert_eq!(retry(&all.ask(at(59 * MIN + 20 * S))), Some(40 * S), "{spec}");
        assert!(all.ask(at(HOUR - 1)).is_denied(), "{spec}");
        assert!(all.ask(at(HOUR)).is_allowed(), "{spec}");
    }
}

/// Seed defect 3.3.
#[test]
fn less_than_one_permit_in_store_still_flows() {
    // 0.999 per second earn 3596 in an hour; the first is granted before it is earned.
    for (rate, expected) in [("1/5s", 720), ("1/2s", 1_800), ("999/1000s", 3_596 + 1)] {
        let asks: Vec<_> = every(250 * MS, 0, HOUR).collect();
        let allowed = Everywhere::new(&[&format!("smooth {rate} burst 1s")]).allowed(asks);
        assert_eq!(allowed, expected, "at {rate}");
    }
    let mut six = Everywhere::new(&["token_bucket 1/s burst 5"]);
    assert_eq!(retry(&six.ask(at(0).cost(6))), None);
}

/// Seed defect 3.4: ten hours (a day for the last), with a clock by which keys expire.
#[test]
fn a_pause_as_long_as_a_life_admits_no_more() {
    for word in ["token_bucket", "smooth"] {
        let burst = |spec: &str| {
            if word == "smooth" {
                format!("{word} {spec} burst 0s")
            } else {
                format!("{word} {spec}")
            }
        };
        for (rate, step, end, expected) in [
            ("1/120s", MIN, 10 * HOUR, 301),
            ("1/h", MIN, 10 * HOUR, 11),
            ("1/d", 2 * MIN, 24 * HOUR, 2),
        ] {
            let mut all = Everywhere::own_clock(&[&burst(rate)]);
            assert_eq!(all.allowed(every(step, 0, end + 1)), expected, "{word} {rate}");
        }
    }
    let mut ten = Everywhere::own_clock(&["token_bucket 1/min burst 10"]);
    let calls = (0..=600_u64).flat_map(|minute| times(10, minute * MIN));
    assert_eq!(ten.allowed(calls), 610);
    on_each_server(|raw| {
        for (spec, full_ms) in [
            ("token_bucket 1/120s", 120_000),
            ("token_bucket 1/h", 3_600_000),
            ("gcra 1/d", 86_400_000),
        ] {
            let handle = raw.open(&[spec]);
            assert!(raw.check(&handle).is_allowed());
            let life = raw.life(&raw.only_key());
            assert!(life > full_ms - 60_000, "{life} ms for {spec}");
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
        }
    });
}

/// Seed defect 3.5.
#[test]
fn a_debt_outlives_every_pause() {
    let mut all = Everywhere::own_clock(&["smooth 1/s burst 1s start full"]);
    assert_eq!(all.ask(at(0).cost(100).reserve(HOUR)).wait(), Duration::ZERO);
    assert_eq!(Span::from(all.ask(at(MIN).reserve(HOUR)).wait()).as_micros(), 39 * S);
    // 1000 each 60 s for an hour: they act 1000 s apart, 3600 permits per hour.
    let mut hour = Everywhere::own_clock(&["smooth 1/s burst 1s start full"]);
    let acts: Vec<_> = (0..60)
        .map(|minute| {
            minute * MIN
                + Span::from(hour.ask(at(minute * MIN).cost(1_000).reserve(100 * HOUR)).wait())
                    .as_micros()
        })
        .collect();
    assert_eq!(acts[1], 999 * S);
    assert!(acts[1..].windows(2).all(|pair| pair[1] - pair[0] == 1_000 * S), "{acts:?}");
}

/// Seed defect 3.6.
#[test]
fn stored_permits_follow_the_present_rate() {
    let mut down = Everywhere::new(&["smooth 100/s burst 1s start full"]);
    assert!(down.ask(at(0)).is_allowed());
    down.set_policies(&["smooth 1/s burst 1s start full"]);
    assert_eq!(down.allowed(every(10 * MS, 2 * S, 12 * S)), 11);
    let mut up = Everywhere::new(&["smooth 1/s burst 1s start full"]);
    assert!(up.ask(at(0)).is_allowed());
    up.set_policies(&["smooth 100/s burst 1s start full"]);
    let allowed = up.allowed(every(5 * MS, 2 * S, 12 * S));
    assert!((1_000..=1_101).contains(&allowed), "{allowed}: 10 s at 100/s and what was saved up");
}

/// Seed defect 3.7: ten concurrent nodes, without a lock between them.
#[test]
fn ten_nodes_that_reserve_at_once_are_told_ten_instants() {
    let mut all = Everywhere::of_nodes(&["token_bucket 1/s"], 10);
    assert!(all.ask(at(0)).is_allowed(), "it is empty now");
    let told: Vec<_> = (0..10)
        .map(|node| Span::from(all.ask(at(0).node(node).reserve(HOUR)).wait()).as_micros())
        .collect();
    assert_eq!(told, (1..=10).map(|second| second * S).collect::<Vec<_>>());
    let debt = all.ask(at(0).peek());
    assert_eq!(
        debt.policy(0).unwrap().reset_after(),
        Some(Duration::from_secs(11)),
        "10 s of debt, 1 s to fill"
    );
    on_each_server(|raw| {
        let told: Vec<u64> = std::thread::scope(|scope| {
            let racing: Vec<_> = (0..10)
                .map(|_| {
                    scope.spawn(|| {
                        let node = Raw::another_of(raw.server, &raw.prefix);
                        let within = Span::HOUR;
                        let reserve = Operation::Reserve { within };
                        let request =
                            sluicegate_core::Request::new(reserve, b"alice").at(injected(0).time());
                        Span::from(
                            node.ask(&node.open_injected(&["token_bucket 1/s"]), request).wait(),
                        )
                        .as_micros()
                    })
                })
                .collect();
            racing.into_iter().map(|node| node.join().unwrap()).collect()
        });
        let mut sorted = told;
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).map(|second| second * S).collect::<Vec<_>>());
    });
}

/// Seed defects 3.8 and 3.9: there is no lock, and a decision is one command and one round trip.
/// Library defect 7.40: a decision uses neither KEYS nor SCAN.
#[test]
fn a_decision_is_one_command_and_leaves_no_lock_behind() {
    for binary in available().unwrap() {
        let server = Server::start_with(&binary, &[]).unwrap();
        let raw = Raw::new(&server);
        let specs = ["token_bucket 100/s", "fixed_window 100/s", "sliding_log 100/s"];
        let handle = raw.open(&specs);
        let _ = raw.check(&handle);
        // A crashed node holds nothing that others wait for.
        let dying = raw.another();
        assert!(dying.check(&dying.open(&specs)).is_allowed());
        drop(dying);
        raw.command(&[b"CONFIG", b"RESETSTAT"]);
        for _ in 0..50 {
            let _ = raw.check(&handle);
        }
        assert_eq!(calls(&server, "evalsha"), 50);
        for other in ["eval", "keys", "scan", "setnx", "script|load", "hgetall", "zadd"] {
            assert_eq!(calls(&server, other), 0, "{other}");
        }
        assert_eq!(raw.keys().len(), 2, "the states and the log, no lock: {:?}", raw.keys());
    }
}

/// Returns how often a command was called since the server's statistics were reset.
fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(['=', ',']).nth(1).unwrap().parse().unwrap())
}

/// Seed defect 3.10: there is no other clock as a fallback.
#[test]
fn a_call_can_not_be_made_by_a_clock_of_the_clients() {
    on_each_server(|raw| {
        let handle = raw.open(&["token_bucket 1/s"]);
        let error = raw.try_ask(&handle, injected(HOUR)).unwrap_err();
        assert_eq!(error.as_request().unwrap().kind(), RequestErrorKind::Invalid);
        assert!(raw.check(&handle).is_allowed());
    });
    // The store's own clock was an hour ahead and came back: one interval, not 3601 s.
    let mut all = Everywhere::own_clock(&["token_bucket 1/s"]);
    assert!(all.ask(at(HOUR)).is_allowed());
    assert_eq!(retry(&all.ask(at(0))), Some(S));
    assert!(all.ask(at(S)).is_allowed());
    assert!(Timestamp::from_micros(u64::MAX).is_err());
}

/// Seed defect 3.11.
#[test]
fn limits_and_periods_that_make_no_sense_are_refused() {
    let mut zero = Everywhere::new(&["fixed_window 0/s"]);
    assert_eq!(zero.allowed(times(1_000, 0)), 0);
    for spec in
        ["fixed_window -5/s", "fixed_window 1/0s", "fixed_window 1/-1s", "fixed_window 1/0.5s"]
    {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
    assert!("fixed_window 1/500ms".parse::<Policy>().is_ok());
}

/// Seed defect 3.12; for its key without a TTL, see 2.2.
#[test]
fn a_new_period_counts_at_once() {
    let mut all = Everywhere::new(&["fixed_window 1/3600s"]);
    assert_eq!(all.allowed(times(5, 0)), 1);
    all.set_policies(&["fixed_window 1/10s"]);
    assert!(all.ask(at(MIN)).is_allowed());
    assert_eq!(retry(&all.ask(at(MIN))), Some(10 * S), "and not 3540 s");
    // 199 within a ms across the edge are inherent, and refusals count nothing.
    let mut edge = Everywhere::new(&["fixed_window 100/s"]);
    assert!(edge.ask(at(0)).is_allowed());
    assert_eq!(edge.allowed(times(300, S - 1)) + edge.allowed(times(300, S)), 199);
    assert_eq!(retry(&edge.ask(at(S))), Some(S));
}

/// Seed defect 3.13, as far as the core is concerned: a key per limit, and a typed answer with a
/// time.
#[test]
fn two_limits_never_share_a_subjects_state() {
    on_each_server(|raw| {
        let open = |name: &str, spec: &str| {
            let limit = sluicegate_core::Limit::new(name, [spec]).unwrap();
            sluicegate_core::Store::open(&raw.store, limit, OpenOptions::default())
        };
        let (first, second) =
            (open("Shop.buy", "token_bucket 1/h"), open("Shop.sell", "token_bucket 5/h"));
        assert!(raw.check(&first).is_allowed());
        let refused = raw.check(&first);
        assert!(refused.is_denied() && refused.retry_after().duration().is_some());
        assert_eq!((0..6).filter(|_| raw.check(&second).is_allowed()).count(), 5);
    });
}
