//! Source 1: a ring of slices in a list, with its index in each process.

use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Kind, Plan, each};
use sluicegate_core::{Limit, Operation, Policy, RequestErrorKind};

use crate::defects::everywhere::{
    Ask, DAY, Everywhere, HOUR, KINDS, MIN, MS, S, START, at, every, most_within, policies, times,
};
use crate::defects::libraries::assert_answers_like_the_model;
use crate::defects::raw::{Raw, check_of, on_each_server};
use crate::scripted::Scripted;

const HOUR_IN_MINUTES: &str = "sliding_window 1000000/h slices 60";

/// Returns the units in the window at a time, without a charge.
fn total(all: &mut Everywhere, ask: Ask) -> u64 {
    all.ask(ask.peek()).policy(0).unwrap().used().unwrap()
}

/// Seed defect 1.1.
#[test]
fn a_node_that_was_silent_does_not_wipe_the_window() {
    let mut all = Everywhere::of_nodes(&[HOUR_IN_MINUTES], 2);
    assert!(all.ask(at(0).node(1)).is_allowed());
    assert_eq!(all.allowed(every(300 * MS, 0, 5 * MIN)), 1_000);
    assert!(all.ask(at(5 * MIN)).is_allowed());
    let mut after = all.ask(at(5 * MIN).node(1));
    assert_eq!(after.policy(0).unwrap().used(), Some(1_003));
    after = all.ask(at(5 * MIN).peek());
    assert_eq!(after.policy(0).unwrap().used(), Some(1_003));
}

/// Seed defect 1.2.
#[test]
fn ten_nodes_count_into_the_same_slice() {
    let mut all = Everywhere::of_nodes(&[HOUR_IN_MINUTES], 10);
    for node in 0..10 {
        assert_eq!(all.allowed(times(100, 30 * S).map(|ask| ask.node(node))), 100);
    }
    let read = all.ask(at(59 * S).peek());
    assert_eq!(read.policy(0).unwrap().current_slice(), 1_000);
    assert_eq!(read.policy(0).unwrap().used(), Some(1_000));
}

/// Seed defect 1.3.
#[test]
fn the_limit_holds_however_calls_are_spread_over_nodes() {
    let by = |node: usize| move |ask: Ask| ask.node(node);
    let mut two = Everywhere::of_nodes(&["sliding_window 1000/h slices 60"], 2);
    let allowed = (0..6).map(|tenth| {
        let start = tenth * 10 * MIN;
        two.allowed(every(S, start, start + 10 * MIN))
            + two.allowed(times(1, start + 599 * S).map(by(1)))
    });
    assert_eq!(allowed.sum::<u64>(), 1_000);
    for nodes in [2, 5, 20] {
        let mut spread = Everywhere::of_nodes(&["sliding_window 1000/h slices 60"], nodes);
        let allowed = spread.allowed(
            (0..1_800_u64).map(|index| at(index * 2 * S).node((index * 7 % nodes as u64) as usize)),
        );
        assert_eq!(allowed, 1_000, "{nodes} nodes");
    }
    let mut five = Everywhere::of_nodes(&["sliding_window 100/h slices 60"], 5);
    assert_eq!(
        five.allowed((0..360_u64).map(|index| at(index * 10 * S).node((index % 5) as usize))),
        100
    );
}

/// Seed defect 1.4.
#[test]
fn what_is_older_than_the_window_never_comes_back() {
    for idle in [60, 61, 90, 120, 121, 125, 150, 180, 242] {
        let mut all = Everywhere::new(&[HOUR_IN_MINUTES]);
        let calls: Vec<_> = every(3_600 * MS, 0, HOUR).collect();
        assert_eq!(all.allowed(calls), 1_000);
        assert_eq!(total(&mut all, at(HOUR - 1)), 1_000);
        let then = HOUR + idle * MIN;
        assert_eq!(total(&mut all, at(then)), 0, "read after {idle} min");
        assert_eq!(all.ask(at(then)).policy(0).unwrap().used(), Some(1), "after {idle} min");
    }
}

/// Seed defect 1.5.
#[test]
fn a_clock_that_steps_back_over_a_slice_wipes_nothing() {
    for mut all in [Everywhere::new(&[HOUR_IN_MINUTES]), Everywhere::own_clock(&[HOUR_IN_MINUTES])]
    {
        let calls: Vec<_> = (0..60).flat_map(|minute| times(16, minute * MIN + 5 * MS)).collect();
        assert_eq!(all.allowed(calls), 960);
        let after = all.ask(at(59 * MIN - 5 * MS));
        assert_eq!(after.policy(0).unwrap().used(), Some(961));
    }
}

/// Seed defect 1.6.
#[test]
fn fifty_nodes_that_read_first_do_not_overshoot() {
    let mut all = Everywhere::of_nodes(&["sliding_window 1000/h slices 60"], 50);
    assert_eq!(all.allowed(times(999, 0)), 999);
    for node in 0..50 {
        assert_eq!(all.ask(at(0).node(node).peek()).remaining(), Some(1));
    }
    assert_eq!(all.allowed((0..50).map(|node| at(0).node(node))), 1);
    assert_eq!(total(&mut all, at(0)), 1_000);
}

/// Seed defect 1.7.
#[test]
fn a_window_that_was_evicted_is_made_anew() {
    for spec in ["sliding_window 3/h slices 60", "sliding_window 3/h slices 3600"] {
        on_each_server(|raw| {
            let handle = raw.open(&[spec]);
            for _ in 0..3 {
                for expected in [true, true, true, false] {
                    assert_eq!(raw.check(&handle).is_allowed(), expected, "{spec}");
                }
                for key in raw.keys() {
                    raw.command(&[b"DEL", &key]);
                }
            }
        });
    }
}

/// Seed defect 1.8: another window is another state. Nothing is out of range in any minute.
#[test]
fn a_changed_window_starts_fresh_and_never_fails() {
    let mut all = Everywhere::new(&["sliding_window 1000000/h slices 60"]);
    for minute in 0..241_u64 {
        assert!(all.ask(at(minute * MIN)).is_allowed());
        if minute == 100 {
            all.set_policies(&["sliding_window 1000000/2h slices 120"]);
        }
    }
    assert_eq!(total(&mut all, at(240 * MIN)), 120);
    // Two nodes that start at the same time create one window.
    let mut start = Everywhere::of_nodes(&[HOUR_IN_MINUTES], 2);
    assert_eq!(start.allowed([at(0), at(0).node(1)]), 2);
    assert_eq!(total(&mut start, at(0)), 2);
}

/// Seed defect 1.9: only the stored data determines a script's work. No idle time makes it loop, in
/// any kind of policy, and neither does a time at the end of all times. Invalid indices can't be
/// passed.
#[test]
fn no_idle_time_makes_a_script_walk() {
    /// Number of requests in each subject's ring, log or bucket.
    const STORED: u64 = 100;
    let rings =
        ["sliding_window 100000/h slices 60", "sliding_window 100000/h slices 36000"].into_iter();
    for spec in rings.chain(KINDS) {
        for operation in [Operation::Check, Operation::Peek, Operation::Take, Operation::Charge] {
            let mut scripts = Scripted::new(policies(&[spec]), Clock::Injected);
            // Measures a decision after an idle time, with its own subject.
            let mut after = |idle: u64| {
                let (subject, mut now) = (idle.to_be_bytes(), START);
                for _ in 0..STORED {
                    let cost = sluicegate_core::Costs::Own;
                    let _ = scripts.decide(now, &subject, Operation::Charge, cost).unwrap();
                    now += 36 * S;
                }
                let (calls, read) = (scripts.calls(), scripts.read());
                let (_, instructions) = scripts.instructions(|scripts| {
                    let cost = sluicegate_core::Costs::Own;
                    scripts.decide(now + idle, &subject, operation, cost).unwrap()
                });
                (scripts.calls() - calls, scripts.read() - read, instructions)
            };
            let all_left = after(2 * DAY);
            for idle in [20 * DAY, 365 * DAY, 3_650 * DAY, 73_000 * DAY] {
                assert_eq!(after(idle), all_left, "{spec}: {operation:?} after {idle} µs");
            }
            for idle in [0, MS, S, MIN, HOUR / 2, HOUR, 2 * HOUR, 3 * HOUR, DAY] {
                let (calls, read, instructions) = after(idle);
                assert!(
                    calls <= 30 && read <= 6_000 && instructions <= 100 * STORED,
                    "{spec}: {operation:?} after {idle} µs: {calls} commands, {read} bytes, {instructions} instructions"
                );
            }
        }
    }
    for spec in [
        "sliding_window 1/h slices 0",
        "sliding_window 1/h slices 3.5",
        "sliding_window 1/h slices -3",
    ] {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
    let mut all = Everywhere::new(&["sliding_window 5/h slices 60"]);
    assert!(all.ask(Ask::clone(&at(0))).is_allowed());
    let last = sluicegate_core::MAX_EXACT - START;
    assert!(all.ask(at(last)).is_allowed());
    assert_eq!(total(&mut all, at(last)), 1);
}

/// Seed defect 1.10: one script call, one slot, a TTL. A slice expires as a whole.
#[test]
fn a_window_is_read_and_counted_in_one_call_on_one_slot() {
    on_each_server(|raw| {
        let handle = raw.open(&[
            "sliding_window 100/h slices 60",
            "sliding_window 1000/h slices 3600 as fine",
            "sliding_log 100/h",
        ]);
        let _ = raw.check(&handle);
        let keys = raw.keys();
        assert_eq!(keys.len(), 3);
        for key in &keys {
            assert_eq!(hash_tag(key), b"alice", "{}", key.escape_ascii());
            let life = raw.life(key);
            assert!((1..=7_200_002).contains(&life), "{} lives {life} ms", key.escape_ascii());
        }
        let one = raw.open(&[HOUR_IN_MINUTES]);
        raw.command(
            &[&[&b"DEL"[..]], keys.iter().map(Vec::as_slice).collect::<Vec<_>>().as_slice()]
                .concat(),
        );
        let _ = raw.check(&one);
        let bytes = raw.number(&[b"MEMORY", b"USAGE", &raw.only_key()]);
        assert!(bytes <= 200, "{bytes} bytes for one limited thing");
    });
    // 1000 calls in the last ms of a slice expire with it.
    let mut all = Everywhere::new(&["sliding_window 1000/h slices 60"]);
    assert_eq!(all.allowed(times(1_000, MIN - MS)), 1_000);
    assert_eq!(total(&mut all, at(HOUR - 1)), 1_000);
    assert_eq!(total(&mut all, at(HOUR)), 0, "59 min and 1 ms after they were made");
    // Where that is too early, the log is exact.
    let mut log = Everywhere::new(&["sliding_log 1000/h"]);
    assert_eq!(log.allowed(times(1_000, MIN - MS)), 1_000);
    assert_eq!(log.remaining(HOUR + MIN - MS - 1), 0);
    assert_eq!(log.remaining(HOUR + MIN - MS), 1_000);
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let open = key.iter().position(|&byte| byte == b'{').unwrap();
    let length = key[open..].iter().position(|&byte| byte == b'}').unwrap();
    &key[open + 1..open + length]
}

/// Seed defects 1.2 and 1.6 with connections that really race.
#[test]
fn connections_that_race_share_one_limit() {
    on_each_server(|raw| {
        let specs = ["sliding_window 100/h slices 60", "sliding_log 100/h", "token_bucket 100/d"];
        let handles = [raw.open(&specs[..1]), raw.open(&specs[1..2]), raw.open(&specs[2..])];
        std::thread::scope(|scope| {
            let racing: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let node = Raw::another_of(raw.server, &raw.prefix);
                        let mine = [
                            node.open(&specs[..1]),
                            node.open(&specs[1..2]),
                            node.open(&specs[2..]),
                        ];
                        let allowed =
                            |handle| (0..30).filter(|_| node.check(handle).is_allowed()).count();
                        mine.each_ref().map(allowed)
                    })
                })
                .collect();
            let mut allowed = [0; 3];
            for node in racing {
                for (sum, one) in allowed.iter_mut().zip(node.join().unwrap()) {
                    *sum += one;
                }
            }
            assert_eq!(allowed, [100; 3], "of 240 each");
        });
        for handle in &handles {
            assert!(raw.ask(handle, check_of(1)).is_denied());
        }
    });
}

/// Seed defect 2.10, which the original doesn't have: the ring admits exactly what the exact model
/// of its slices admits.
#[test]
fn a_ring_decides_like_the_exact_model_of_its_slices() {
    let plan = Plan { kinds: vec![Kind::SlidingWindow], max_policies: 1, ..Plan::default() };
    each("9000 decisions of rings", 150, |seed| {
        assert_answers_like_the_model(&plan.schedule(seed));
    });
    let allowed =
        Everywhere::new(&["sliding_window 10/10s slices 10"]).allowed_at(every(70 * MS, 0, 90 * S));
    // Counted by whole slices, no window exceeds the limit; by the clock, it may by one slice.
    let slices: Vec<_> = allowed.iter().map(|instant| instant / S * S).collect();
    assert_eq!(most_within(10 * S, &slices), 10);
}

/// Tests that a ring that can't be built is refused at its creation (see also seed defect 2.16).
#[test]
fn a_ring_that_can_not_be_cut_is_refused() {
    let error = "sliding_window 10/10s slices 3".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("2 and 4 do"), "{error}");
    assert!(Limit::new("l", Vec::<Policy>::new()).is_err());
    let mut all = Everywhere::new(&["sliding_window 10/10s slices 10"]);
    assert_eq!(all.try_ask(at(0).reserve(S)).unwrap_err(), RequestErrorKind::Unsupported);
}
