//! Source 2: five limiters over strings, hashes and lists, in whole seconds of the callers' clocks.

use std::time::Duration;

use sluicegate_conformance::reference::Clock;
use sluicegate_core::{LogTier, Operation, Policy, RetryAfter};
use sluicegate_testkit::wait::until;

use crate::defects::everywhere::{
    DAY, Everywhere, HOUR, MIN, MS, S, START, at, every, most_within, policies, retry, times,
};
use crate::defects::raw::{injected, on_each_server};
use crate::scripted::Scripted;

/// Seed defect 2.1: 199 within a millisecond are inherent to a window that starts again. An empty
/// window is refused.
#[test]
fn a_fixed_window_admits_its_limit_on_either_side_of_its_edge_and_no_more() {
    let mut all = Everywhere::new(&["fixed_window 100/s"]);
    assert_eq!(all.allowed([at(0)]), 1);
    assert_eq!(all.allowed(times(200, 999 * MS)), 99);
    assert_eq!(all.allowed(times(200, S)), 100);
    for spec in ["fixed_window 1/0s", "fixed_window 1/-1s", "fixed_window 1/0ms aligned"] {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
}

/// Seed defect 2.2, 3.12: a state is evaluated by its own times, and the next write sets the key's
/// TTL again.
#[test]
fn a_counter_without_a_life_heals() {
    for spec in ["fixed_window 2/s", "sliding_counter 2/s", "token_bucket 2/s", "sliding_log 2/s"] {
        on_each_server(|raw| {
            let handle = raw.open_injected(&[spec]);
            let _ = raw.ask(&handle, injected(0));
            for key in raw.keys() {
                raw.command(&[b"PERSIST", &key]);
                assert_eq!(raw.life(&key), -1);
            }
            assert!(raw.ask(&handle, injected(0)).is_allowed());
            assert!(raw.ask(&handle, injected(0)).is_denied());
            for key in raw.keys() {
                assert!(raw.life(&key) > 0, "{spec}");
                raw.command(&[b"PERSIST", &key]);
            }
            for _ in 0..2 {
                assert!(raw.ask(&handle, injected(MIN)).is_allowed(), "{spec}");
            }
            assert!(raw.ask(&handle, injected(MIN)).is_denied(), "{spec}");
            assert!(raw.keys().iter().all(|key| raw.life(key) > 0), "{spec}");
        });
    }
}

/// Seed defect 2.2 for a state in two keys, by the server's own clock.
#[test]
fn a_log_without_a_life_heals_at_the_next_admission() {
    on_each_server(|raw| {
        let handle = raw.open(&["sliding_log 20/min"]);
        assert!(raw.check(&handle).is_allowed());
        for key in raw.keys() {
            raw.command(&[b"PERSIST", &key]);
        }
        assert!(raw.check(&handle).is_allowed());
        assert!(raw.keys().iter().all(|key| (1..=60_002).contains(&raw.life(key))));
    });
}

/// Seed defect 2.2 for a ring within a slice, by the server's own clock.
#[test]
fn a_ring_without_a_life_heals_at_the_next_admission() {
    on_each_server(|raw| {
        let handle = raw.open(&["sliding_window 1000000/5s slices 10"]);
        let check = || assert!(raw.check(&handle).is_allowed());
        check();
        let key = raw.only_key();
        let size = || raw.number(&[b"STRLEN", &key]);
        let first = size();
        until("two slices, and then two admissions in one", || {
            check();
            let before = size();
            raw.command(&[b"PERSIST", &key]);
            check();
            if before > first && size() == before { Ok(()) } else { Err(before) }
        });
        assert!((1..=5_002).contains(&raw.life(&key)), "{}", raw.life(&key));
    });
}

/// Seed defect 2.3.
#[test]
fn kinds_and_windows_of_one_subject_count_apart() {
    let mut all = Everywhere::new(&["fixed_window 10/s as same"]);
    assert_eq!(all.allowed(times(11, 0)), 10);
    all.set_policies(&["fixed_window 10/min as same"]);
    assert_eq!(all.allowed(times(11, 0)), 10, "the other window has its own count");
    all.set_policies(&["fixed_window 10/s as same"]);
    assert_eq!(all.allowed(times(11, S)), 10, "a second later");
    all.set_policies(&["leaky_bucket 10/s as same"]);
    assert_eq!(all.allowed(times(11, S)), 10, "no error, no foreign count");
}

/// Seed defect 2.4.
#[test]
fn a_ring_is_quantised_and_a_log_is_exact() {
    let mut ring = Everywhere::new(&["sliding_window 100/10s slices 2"]);
    assert_eq!(ring.allowed(times(200, 4_999 * MS)), 100);
    assert_eq!(ring.allowed(times(200, 10 * S)), 100, "a slice leaves whole");
    let mut log = Everywhere::new(&["sliding_log 100/10s"]);
    assert_eq!(log.allowed(times(200, 4_999 * MS)), 100);
    assert_eq!(log.allowed(times(200, 10 * S)), 0);
    assert_eq!(log.allowed(times(200, 14_999 * MS - 1)), 0);
    assert_eq!(log.allowed(times(200, 14_999 * MS)), 100);
    let mut short = Everywhere::new(&["sliding_log 10/s"]);
    assert_eq!(short.allowed(times(20, 999 * MS)) + short.allowed(times(20, S)), 10);
}

/// Seed defect 2.5.
#[test]
fn nodes_whose_clocks_differ_do_not_delete_each_others_counts() {
    on_each_server(|raw| {
        let other = raw.another();
        for (specs, most) in
            [(["sliding_log 100/10s"], 100), (["sliding_log 10/10s and 100/min"], 10)]
        {
            let (a, b) = (raw.open(&specs), other.open(&specs));
            let pair =
                |_| u32::from(raw.check(&a).is_allowed()) + u32::from(other.check(&b).is_allowed());
            assert_eq!((0..60).map(pair).sum::<u32>(), most);
        }
    });
    // Injected times can alternate in any order: they are evaluated at the newest one.
    let mut all = Everywhere::new(&["sliding_log 100/10s"]);
    let alternating = (0..5_000).flat_map(|_| [at(0), at(10 * S)]);
    assert_eq!(all.allowed(alternating), 101, "1 at 0, and 100 at 10 s");
    let mut own = Everywhere::own_clock(&["sliding_log 100/10s"]);
    let alternating: Vec<_> = (0..5_000).flat_map(|_| [at(0), at(5 * S)]).collect();
    assert_eq!(own.allowed(alternating), 100);
}

/// Seed defect 2.6: the cost of a decision doesn't grow with the size of a log. This holds for
/// commands and for the bytes that they read, on the fast path and on the general one.
#[test]
fn a_decision_does_a_bounded_amount_of_work_however_full_the_log() {
    /// Number of entries of 14 bytes.
    const ENTRIES: u64 = 20_000;
    /// Maximum commands and bytes of any operation: some searches, each of which halves the
    /// remaining entries.
    const MOST: (usize, usize) = (100, 20_000);
    /// Maximum commands and bytes of a check on the fast path: the head, and entries that may have
    /// expired.
    const EXPRESS: (usize, usize) = (7, 256);
    for (spec, plain) in [
        ("sliding_log 65536/d", EXPRESS),
        ("sliding_log 65536/d and 65536/h", MOST),
        ("sliding_window 65536/d slices 43200", MOST),
    ] {
        let mut scripts = Scripted::new(policies(&[spec]), Clock::Injected);
        let mut ask = |at_us: u64, operation: Operation<'_>, cost: u64, most: (usize, usize)| {
            let before = (scripts.calls(), scripts.read());
            let costs = sluicegate_core::Costs::Same(cost.try_into().unwrap());
            let decision = scripts.decide(START + at_us, b"k", operation, costs).unwrap();
            let (commands, bytes) = (scripts.calls() - before.0, scripts.read() - before.1);
            assert!(
                commands <= most.0 && bytes <= most.1,
                "{spec}: {operation:?} of {cost}: {commands} commands read {bytes} bytes"
            );
            decision.is_allowed()
        };
        for entry in 0..ENTRIES {
            assert!(ask(entry * 2 * S, Operation::Check, 1, plain));
        }
        let end = ENTRIES * 2 * S;
        for (operation, cost, allowed, most) in [
            (Operation::Check, 65_536 - ENTRIES, true, plain),
            (Operation::Check, 1, false, plain),
            // Half of the entries must expire first.
            (Operation::Check, ENTRIES / 2, false, MOST),
            (Operation::Peek, 1, false, MOST),
            (Operation::Take, 1, false, MOST),
            (Operation::Charge, 1, true, MOST),
            (Operation::Refund, ENTRIES / 2, true, MOST),
            (Operation::Take, 2, true, MOST),
            (Operation::Check, 1, true, MOST),
        ] {
            assert_eq!(ask(end, operation, cost, most), allowed, "{spec}: {operation:?} of {cost}");
        }
        // All of them have expired.
        assert!(ask(end + 3 * DAY, Operation::Check, 1, MOST));
    }
    let error = "sliding_window 1/d slices 86400".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("65536"), "{error}");
}

/// Seed defects 2.7 and 3.11, for every kind.
#[test]
fn a_limit_of_zero_refuses_every_call_alike() {
    for spec in [
        "token_bucket 0/s",
        "gcra 0/s",
        "leaky_bucket 0/s",
        "shaper 0/s queue 5",
        "smooth 0/s",
        "fixed_window 0/s",
        "fixed_window 0/s aligned",
        "sliding_window 0/s slices 10",
        "sliding_window 0/s slices 100",
        "sliding_counter 0/s",
        "sliding_log 0/s",
        "sliding_log 5/s and 0/min",
        "warmup 0/s over 10s",
    ] {
        let mut all = Everywhere::new(&[spec]);
        for instant in [0, 0, 1, S, DAY] {
            assert_eq!(retry(&all.ask(at(instant))), None, "{spec}");
        }
    }
}

/// Seed defect 2.8.
#[test]
fn a_lowered_limit_counts_what_is_there_and_lets_go_of_it() {
    let mut all = Everywhere::new(&["sliding_window 100/10s slices 10"]);
    for slice in 0..10 {
        let calls = if slice < 5 { 18 } else { 2 };
        assert_eq!(all.allowed(times(calls, slice * S)), calls as u64);
    }
    all.set_policies(&["sliding_window 15/10s slices 10"]);
    let allowed = all.allowed_at(every(100 * MS, 10 * S, 20 * S));
    assert_eq!(allowed.len(), 15);
    assert_eq!(allowed[0], 14_000 * MS);
}

/// Seed defect 2.9.
#[test]
fn one_stamp_from_the_future_does_not_gather_all_counts() {
    let mut all = Everywhere::own_clock(&["sliding_window 100/10s slices 10"]);
    assert!(all.ask(at(MIN)).is_allowed());
    let asks: Vec<_> = every(MS, 0, 10 * S).collect();
    assert_eq!(1 + all.allowed(asks.clone()), 100);
    let next: Vec<_> = every(MS, 10 * S, 10_010 * MS).collect();
    // The call from the future and 99 more counted as made at 0: that slice has expired.
    assert_eq!(all.allowed(next), 10);
    let mut full = Everywhere::of_nodes(&["sliding_window 10/10s slices 10"], 2);
    assert_eq!(full.allowed(times(10, 0)), 10);
    assert_eq!(full.allowed(times(10, 0).map(|ask| ask.node(1))), 0, "0 more from B");
}

/// Seed defect 2.11 and library defect 7.7: every pair of capacity and rate has a TTL in whole ms.
#[test]
fn every_pair_of_capacity_and_rate_has_a_life_in_whole_milliseconds() {
    let mut scripts =
        Scripted::new(policies(&["token_bucket 1/s"]), Clock::Own { max_clock_back_us: 5 * S });
    for (capacity, rate) in
        (1..=100_u64).flat_map(|capacity| (1..=100_u64).map(move |rate| (capacity, rate)))
    {
        scripts.set_policies(policies(&[&format!("token_bucket {rate}/s burst {capacity}")]));
        let subject = format!("{capacity} {rate}");
        let cost = sluicegate_core::Costs::Same(sluicegate_core::Cost::new(capacity).unwrap());
        let decision = scripts.decide(START, subject.as_bytes(), Operation::Check, cost).unwrap();
        assert!(decision.is_allowed(), "{subject}");
    }
    let stored = scripts.stored();
    assert_eq!(stored.len(), 10_000);
    for (key, stored) in stored {
        let text = String::from_utf8(key).unwrap();
        let subject = text.split(['{', '}']).nth(1).unwrap().replace("%20", " ");
        let (capacity, rate) = subject.split_once(' ').unwrap();
        let full: u64 = (capacity.parse::<u64>().unwrap() * 1_000).div_ceil(rate.parse().unwrap());
        let life = stored.expires_ms.unwrap() - START / MS;
        assert!(
            (full..=full + 2).contains(&life),
            "{subject}: {life} ms to live, full in {full} ms"
        );
    }
    on_each_server(|raw| {
        let handle = raw.open(&["token_bucket 3/s burst 10"]);
        let allowed = (0..10).filter(|_| raw.check(&handle).is_allowed()).count();
        assert_eq!(allowed, 10, "no error, and no token gone");
        assert!((1..=3_336).contains(&raw.life(&raw.only_key())));
    });
}

/// Seed defect 2.12: half a unit per second is one in two.
#[test]
fn fractions_of_a_unit_are_normal() {
    for word in ["token_bucket", "leaky_bucket"] {
        let mut all = Everywhere::new(&[&format!("{word} 1/2s")]);
        let allowed = all.allowed_at(every(S, 0, 10 * S));
        assert_eq!(allowed, [0, 2 * S, 4 * S, 6 * S, 8 * S], "{word}");
    }
    let error = "token_bucket 0.5/s".parse::<Policy>().unwrap_err().to_string();
    assert!(error.contains("1/2s"), "{error}");
}

/// Seed defect 2.13.
#[test]
fn a_second_does_not_begin_with_a_full_bucket() {
    for word in ["token_bucket", "leaky_bucket"] {
        let spec = format!("{word} 10/s");
        let mut all = Everywhere::new(&[&spec]);
        assert_eq!(all.allowed(times(10, 999 * MS)) + all.allowed(times(10, S)), 10, "{word}");
        let mut drained = Everywhere::new(&[&spec]);
        assert_eq!(drained.allowed(times(10, 0)), 10);
        assert_eq!(drained.allowed(times(10, 999 * MS)), 9, "{word}");
    }
}

/// Seed defect 2.14.
#[test]
fn nodes_with_other_clocks_share_one_bucket() {
    for word in ["token_bucket", "leaky_bucket"] {
        on_each_server(|raw| {
            let other = raw.another();
            // So slow that no units return while the test runs.
            let specs = [&*format!("{word} 1/h burst 10")
                .replace("leaky_bucket 1/h burst", "leaky_bucket 1/h capacity")];
            let (a, b) = (raw.open(&specs), other.open(&specs));
            let allowed_a = (0..20).filter(|_| raw.check(&a).is_allowed()).count();
            let allowed_b = (0..20).filter(|_| other.check(&b).is_allowed()).count();
            assert_eq!((allowed_a, allowed_b), (10, 0));
        });
        // 100 groups that claim to be one second further ahead each: one instant.
        let mut all = Everywhere::of_nodes(&[&format!("{word} 10/s")], 10);
        let groups = (0..100).flat_map(|group| times(10, 0).map(move |ask| ask.node(group % 10)));
        assert_eq!(all.allowed(groups), 10);
    }
}

/// Seed defect 2.15.
#[test]
fn a_shrunken_bucket_is_never_passed_by_counting_down_past_zero() {
    for spec in
        ["token_bucket 10/s burst -10", "token_bucket -1/s", "leaky_bucket 10/s capacity -1"]
    {
        assert!(spec.parse::<Policy>().is_err(), "{spec}");
    }
    for (word, size) in [("token_bucket", "burst"), ("leaky_bucket", "capacity")] {
        let of = |capacity: u32| format!("{word} 1/s {size} {capacity}");
        for before in [0, 1, 50] {
            let mut all = Everywhere::new(&[&of(100)]);
            assert_eq!(all.allowed(times(before, 0)), before as u64);
            all.set_policies(&[&of(1)]);
            assert_eq!(all.allowed(times(500, 0)), u64::from(before == 0), "at most 1");
        }
        // Nothing ever fits, so nothing is kept permanently either.
        let mut empty = Everywhere::new(&[&of(0)]);
        assert_eq!(empty.allowed(times(500, 0)), 0);
        on_each_server(|raw| {
            let handle = raw.open(&[&of(0)]);
            assert_eq!(raw.check(&handle).retry_after(), RetryAfter::Never);
            assert!(raw.keys().is_empty());
        });
    }
}

/// Seed defect 2.16.
#[test]
fn tiers_are_values_that_limiters_can_share() {
    let tiers = [S, MIN, HOUR, DAY, 1_000 * S]
        .map(|window| LogTier { limit: window / MS, window: Duration::from_micros(window) })
        .map(|tier| LogTier { limit: tier.limit.min(65_536), ..tier });
    let first = Policy::sliding_log(tiers).unwrap();
    let second = Policy::sliding_log(tiers).unwrap();
    assert_eq!(first, second);
    assert_eq!(
        first.to_string(),
        "sliding_log 1000/s and 60000/min and 65536/h and 65536/d and 65536/1000s"
    );
    // A refusal names the tier, in one unit.
    let mut all = Everywhere::new(&["sliding_log 2/s and 3/min"]);
    assert_eq!(all.allowed(times(3, 0)), 2);
    let refused = all.ask(at(0));
    assert_eq!(refused.policy(0).unwrap().violated().collect::<Vec<_>>(), [0]);
    assert_eq!(refused.retry_after(), RetryAfter::After(Duration::from_secs(1)));
    assert!(all.ask(at(S)).is_allowed());
    let refused = all.ask(at(S));
    assert_eq!(refused.policy(0).unwrap().violated().collect::<Vec<_>>(), [1]);
    assert_eq!(refused.retry_after(), RetryAfter::After(Duration::from_secs(59)));
}

/// Tests that a refusal names all refusing tiers, in the order given. Source 2 named the first in
/// its own order.
#[test]
fn every_tier_that_refused_is_named_and_no_other() {
    let mut all = Everywhere::new(&["sliding_log 5/min and 2/s and 7/h and 3/min"]);
    let mut ask = |at_us: u64, cost: u64, violated: &[usize]| {
        let decision = all.ask(at(at_us).cost(cost));
        let named: Vec<usize> = decision.policy(0).unwrap().violated().collect();
        assert_eq!(named, violated, "{cost} at {at_us}: {decision:?}");
        assert_eq!(decision.is_allowed(), violated.is_empty());
    };
    ask(0, 2, &[]);
    ask(0, 1, &[1]);
    ask(0, 2, &[1, 3]);
    ask(0, 4, &[0, 1, 3]);
    ask(0, 6, &[0, 1, 2, 3]);
    ask(S, 1, &[]);
    ask(3 * S, 1, &[3]);
    ask(MIN + S, 2, &[]);
    ask(2 * MIN + S, 2, &[]);
    // 7 of 7 in the hour.
    ask(4 * MIN, 1, &[2]);
}

/// Tests that with one clock no window of a log ever exceeds its limits. Source 2 did this
/// correctly too.
#[test]
fn no_window_of_a_log_is_ever_over_any_of_its_limits() {
    let mut all = Everywhere::new(&["sliding_log 10/s and 100/min"]);
    let allowed = all.allowed_at(every(37 * MS, 0, 90 * S));
    assert_eq!(most_within(S, &allowed), 10);
    assert_eq!(most_within(MIN, &allowed), 100);
}
