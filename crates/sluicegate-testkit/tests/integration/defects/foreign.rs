//! Foreign data under a key: truncated states, foreign bytes and types, and states of other program
//! versions.

use sluicegate_conformance::schedules::Dice;
use sluicegate_core::{Error, Operation, Request, RequestErrorKind};
use sluicegate_redis::RedisLimit;
use sluicegate_testkit::servers::Reply;

use crate::defects::everywhere::{Everywhere, HOUR, KINDS, MIN, S, kinds_of_ten, slow, times};
use crate::defects::raw::{Raw, check_of, injected, on_each_server, to};

/// Library defect 7.39: a truncated state counts as absent, is reported, and heals.
#[test]
fn a_state_that_was_cut_short_counts_as_absent_and_heals() {
    on_each_server(|raw| {
        for spec in kinds_of_ten().map(slow) {
            let handle = raw.open(&[&spec]);
            let (key, value) = stored_after(&raw, &handle, &[10]).remove(0);
            for length in 0..value.len() {
                raw.command(&[b"SET", &key, &value[..length], b"PX", b"100000"]);
                let first = raw.check(&handle);
                // A ring is recognized without all of its entries.
                assert!(first.is_allowed(), "{spec} cut to {length}");
                assert_eq!(first.warnings().discarded, length > 0, "{spec} cut to {length}");
                let second = raw.check(&handle);
                assert!(!second.warnings().discarded, "{spec} has healed");
                assert!(raw.life(&key) > 0);
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
        }
    });
}

/// Library defect 7.39: with any bytes under the key, the answer is a decision.
#[test]
fn foreign_bytes_never_fail_a_decision() {
    on_each_server(|raw| {
        for spec in KINDS.map(slow) {
            let handle = raw.open(&[&spec]);
            let values = stored_after(&raw, &handle, &[3, 2, 1, 1, 1, 1, 1]);
            for flipped in 0..values.len() {
                let places = 0..values[flipped].1.len();
                for (place, bits) in
                    places.flat_map(|place| [1, 0x80, 0xff].map(|bits| (place, bits)))
                {
                    for (index, (key, value)) in values.iter().enumerate() {
                        let mut value = value.clone();
                        value[place * usize::from(index == flipped)] ^=
                            bits * u8::from(index == flipped);
                        raw.command(&[b"SET", key, &value, b"PX", b"100000"]);
                    }
                    for operation in [Operation::Peek, Operation::Check, Operation::Refund] {
                        let answer = raw.try_ask(&handle, to(operation, 1));
                        let is_answer = answer.as_ref().map_or_else(is_overflow, |_| true);
                        let key = values[flipped].0.escape_ascii();
                        assert!(is_answer, "{spec}, {key} byte {place} ^ {bits}: {answer:?}");
                    }
                }
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
            for foreign in [&b""[..], b"hello", b"12345", &[0xff; 300], &[0; 300]] {
                raw.command(&[b"SET", &values[0].0, foreign]);
                assert!(raw.check(&handle).is_allowed(), "{spec}");
                assert!(raw.life(&values[0].0) > 0, "{spec}");
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
        }
    });
}

/// Library defect 7.39 and seed defect 0.15: keys of every type except strings.
#[test]
fn a_key_of_a_foreign_type_heals() {
    on_each_server(|raw| {
        for spec in kinds_of_ten().map(slow) {
            let handle = raw.open(&[&spec]);
            let _ = raw.check(&handle);
            for key in raw.keys() {
                let foreign: [&[&[u8]]; 4] = [
                    &[b"RPUSH", &key, b"1"],
                    &[b"HSET", &key, b"a", b"1"],
                    &[b"ZADD", &key, b"1", b"a"],
                    &[b"SADD", &key, b"1"],
                ];
                for words in foreign {
                    raw.command(&[b"DEL", &key]);
                    raw.command(words);
                    let answer = raw.try_ask(&handle, check_of(1));
                    assert!(
                        answer.is_ok_and(|first| first.is_allowed() && first.warnings().discarded),
                        "{spec}"
                    );
                    assert_eq!(
                        raw.command(&[b"TYPE", &key]),
                        Reply::Status("string".to_owned()),
                        "{spec}"
                    );
                    assert!(!raw.check(&handle).warnings().discarded, "{spec}");
                }
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
        }
    });
}

/// Library defect 7.39 and seed defect 0.15, for a check on the fast path that finds entries of a
/// foreign type.
#[test]
fn entries_of_a_foreign_type_never_fail_a_check() {
    on_each_server(|raw| {
        let handle = raw.open(&["sliding_log 9/w"]);
        for _ in 0..3 {
            let _ = raw.check(&handle);
        }
        let entries = raw.keys().remove(1);
        raw.command(&[b"DEL", &entries]);
        raw.command(&[b"HSET", &entries, b"a", b"1"]);
        let first = raw.check(&handle);
        assert!(first.is_allowed() && first.warnings().discarded);
        assert!(!raw.check(&handle).warnings().discarded);
    });
}

/// Tests that a packed head next to other policies may outlive its log's entries, without a report
/// of corruption.
#[test]
fn a_log_whose_entries_have_expired_is_not_told_as_corrupt() {
    on_each_server(|raw| {
        let handle = raw.open_injected(&["fixed_window 9/h", "sliding_log 5/min"]);
        assert!(raw.ask(&handle, injected(0)).is_allowed());
        let entries = raw.keys().remove(1);
        raw.command(&[b"DEL", &entries]);
        let too_early = raw.ask(&handle, injected(MIN - 1).as_peek());
        assert!(too_early.warnings().discarded);
        for operation in [Operation::Peek, Operation::Check, Operation::Check] {
            let decision =
                raw.ask(&handle, Request::new(operation, b"alice").at(injected(MIN).time()));
            assert!(decision.is_allowed() && !decision.warnings().discarded, "{operation:?}");
        }
        assert_eq!(raw.ask(&handle, injected(MIN)).policy(1).unwrap().remaining(), Some(2));
    });
}

const WEEK: u64 = 7 * 24 * HOUR;

/// Library defects 7.21 and 7.39: impossible numbers in states with a valid form.
#[test]
fn states_of_nonsense_never_fail_a_decision() {
    on_each_server(|raw| {
        for spec in KINDS.map(slow) {
            let handle = raw.open(&[&spec]);
            let values = stored_after(&raw, &handle, &[3, 2, 1, 1]);
            let now: u64 = raw
                .number(&[b"EVAL", b"return tonumber(redis.call('TIME')[1])", b"0"])
                .unsigned_abs()
                * S;
            let mut dice = Dice::named(&spec);
            for _ in 0..100 {
                for (key, value) in &values {
                    let mut value = value.clone();
                    let header = match value[0] {
                        _ if !key.ends_with(b"}") => 0,
                        kind => {
                            if kind >= 0x80 {
                                8
                            } else {
                                6
                            }
                        }
                    };
                    for number in value[header..].chunks_exact_mut(7) {
                        let odd = match dice.below(12) {
                            0 => 0,
                            1 => dice.below(20),
                            2 => now - dice.below(3 * HOUR),
                            3 => now + dice.below(3 * HOUR),
                            4 => (now + WEEK) / WEEK * WEEK - WEEK * dice.below(3),
                            5 => (1 << 53) - 1 - dice.below(2),
                            6 => dice.next() >> 8,
                            _ => continue,
                        };
                        number.copy_from_slice(&odd.to_be_bytes()[1..]);
                    }
                    raw.command(&[b"SET", key, &value, b"PX", b"100000"]);
                }
                let operation = dice.pick(&[
                    Operation::Check,
                    Operation::Charge,
                    Operation::Refund,
                    Operation::Take,
                    Operation::Peek,
                ]);
                for operation in [Operation::Peek, operation, Operation::Check] {
                    let answer = raw.try_ask(&handle, to(operation, 1));
                    let is_answer = answer.as_ref().map_or_else(is_overflow, |_| true);
                    assert!(is_answer, "{spec} {operation:?} {:?}: {answer:?}", raw.dump());
                }
                assert!(raw.keys().iter().all(|key| raw.life(key) != -1), "{spec}");
            }
            let _ = raw.ask(&handle, to(Operation::Reset, 1));
        }
    });
}

/// Returns `true` for the only error that a state may cause: the policy's numbers can't count it.
fn is_overflow(error: &Error) -> bool {
    error.as_request().is_some_and(|error| error.kind() == RequestErrorKind::Overflow)
}

/// Returns every key with its value after checks of these costs. The packed states come first.
fn stored_after(raw: &Raw<'_>, handle: &RedisLimit, costs: &[u64]) -> Vec<(Vec<u8>, Vec<u8>)> {
    for &cost in costs {
        let _ = raw.ask(handle, check_of(cost));
    }
    let value = |key: Vec<u8>| {
        let Reply::Bytes(value) = raw.command(&[b"GET", &key]) else { panic!("a string") };
        (key, value)
    };
    raw.keys().into_iter().map(value).collect()
}

/// Seed defect 0.15 and library defect 7.22: old and new programs that run at the same time count
/// separately. Neither deletes the other's states.
#[test]
fn old_and_new_policies_of_one_name_count_apart_during_a_deployment() {
    for (old, new) in [
        ("fixed_window 5/min as same", "fixed_window 5/h as same"),
        ("token_bucket 5/h as same", "sliding_log 5/h as same"),
        ("sliding_window 5/h slices 60 as same", "sliding_counter 5/h as same"),
        ("gcra 5/h burst 5 as same", "warmup 5/h over 1h as same"),
    ] {
        on_each_server(|raw| {
            let other = raw.another();
            let (before, after) = (raw.open_injected(&[old]), other.open_injected(&[new]));
            let mut allowed = [0, 0];
            for _ in 0..12 {
                allowed[0] += u32::from(raw.ask(&before, injected(0)).is_allowed());
                allowed[1] += u32::from(other.ask(&after, injected(0)).is_allowed());
            }
            assert_eq!(allowed[0], 5, "{old} beside {new}");
            assert_eq!(
                allowed[1],
                if new.starts_with("warmup") { 1 } else { 5 },
                "{new} beside {old}"
            );
        });
    }
    // Entries in their own key are as separate as packed states.
    for (old, new) in [
        ("sliding_window 50/h slices 100 as same", "sliding_window 50/h slices 120 as same"),
        ("sliding_log 50/min as same", "sliding_log 50/h as same"),
        ("sliding_log 50/h as same", "sliding_window 50/h slices 120 as same"),
    ] {
        on_each_server(|raw| {
            let handles = [raw.open_injected(&[old]), raw.open_injected(&[new])];
            let (mut dice, mut allowed) = (Dice::named("deployment"), [0, 0]);
            for time in 0..500 {
                // Not in turns: otherwise the numbers of one would look like those of the other.
                let which = dice.below_len(2);
                let decision = raw.ask(&handles[which], injected(time * 1_000));
                assert!(!decision.warnings().discarded, "{old} beside {new}");
                allowed[which] += u32::from(decision.is_allowed());
            }
            assert_eq!(allowed, [50, 50], "{old} beside {new}");
        });
    }
    // A policy with another name is another policy.
    let mut all = Everywhere::new(&["token_bucket 5/h as old"]);
    assert_eq!(all.allowed(times(9, 0)), 5);
    all.set_policies(&["token_bucket 5/h as new"]);
    assert_eq!(all.allowed(times(9, 0)), 5);
    all.set_policies(&["token_bucket 5/h as old"]);
    assert_eq!(all.allowed(times(9, 0)), 0, "and the old one is still there");
}

/// Tests that entries of former programs are kept as long as they are of use, but not longer. So a
/// key doesn't grow with every deployment.
#[test]
fn states_of_programs_that_are_gone_are_dropped_when_they_are_stale() {
    on_each_server(|raw| {
        let length = |key: &[u8]| raw.number(&[b"STRLEN", key]);
        for generation in 0..10_u64 {
            let handle = raw.open_injected(&[&format!("fixed_window 5/min as v{generation}")]);
            assert!(raw.ask(&handle, injected(generation)).is_allowed());
        }
        let key = raw.only_key();
        assert_eq!(length(&key), 10 * 27, "all of them may still run");
        let handle = raw.open_injected(&["fixed_window 5/min as v9"]);
        assert!(raw.ask(&handle, injected(3 * MIN)).is_allowed());
        let other = raw.open_injected(&["fixed_window 5/min as v10"]);
        assert!(raw.ask(&other, injected(3 * MIN)).is_allowed());
        assert!(length(&key) <= 2 * 27, "{} bytes", length(&key));
    });
}
