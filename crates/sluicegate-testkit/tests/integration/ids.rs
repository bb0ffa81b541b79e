//! Tests of the data that the scripts store about requests with an id.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashMap;
use std::ops::Range;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Dice, each};
use sluicegate_core::{
    Costs, Error, Idempotency, Operation, Request, RequestErrorKind, RequestId, Span,
};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};
use sluicegate_testkit::lua::StoredValue;

const START: u64 = 1_699_920_000_000_000;
const CLOCK: Clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
const COUNTS: &[u8] = b"sg:test:{alice}:ids";

/// Returns a store whose inline records are all in use, so ids are stored outside.
fn scripted() -> Scripted {
    roomy().crowded(true)
}

/// Returns a store in which a group of outside ids hasn't expired, although none of its ids is
/// left.
fn after_another() -> Scripted {
    let scripted = roomy();
    let mut stored = scripted.stored();
    let group = [&(START + 1_000_000).to_be_bytes()[1..], &[0; 4]].concat();
    stored.insert(COUNTS.to_vec(), StoredValue { value: group, expires_ms: None });
    scripted.store(stored);
    scripted
}

fn roomy() -> Scripted {
    Scripted::new(vec!["token_bucket 1/s burst 1000000".parse().unwrap()], CLOCK)
}

fn check(number: u64, lasts: Span) -> Request<'static> {
    let id = RequestId::of(number.to_be_bytes()).unwrap();
    Request::check(b"alice").idempotent(Idempotency { id, lasts: lasts.into() })
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns the number of inline ids.
fn inline(scripted: &Scripted) -> u64 {
    let stored = scripted.stored();
    let value = stored.get(&b"sg:test:{alice}"[..]).map_or(&[][..], |stored| &stored.value);
    match value.get(27..) {
        Some([0x89, entry @ ..]) => (entry.len() as u64 + 1 - 42) / 38,
        _ => 0,
    }
}

/// Returns the groups of counted ids, each as its end and its number of ids.
fn groups(scripted: &Scripted) -> Vec<(u64, u64)> {
    let stored = scripted.stored();
    let counts = stored.get(COUNTS).map_or(&[][..], |stored| &stored.value);
    counts.chunks(11).map(|group| (number(&group[..7]), number(&group[7..]))).collect()
}

/// Tests that at most 32 groups count ids of all durations. Each id is counted as long as it is
/// known, and ids of equal duration at most a quarter longer.
#[test]
fn every_id_is_counted_for_as_long_as_it_is_known() {
    each("counts of ids", 60, |seed| {
        let mut dice = Dice::new(seed);
        let lives = [Span::SECOND, Span::MINUTE, Span::HOUR, Span::DAY];
        let is_mixed = dice.one_in(2);
        let usual = dice.pick(&lives);
        let mut scripted = dice.pick(&[scripted, roomy, after_another])();
        let (mut now, mut ends) = (START, Vec::new());
        for asked in 0..300 {
            let life = if is_mixed { dice.pick(&lives) } else { usual };
            now += dice.below(life.as_micros() / 20);
            assert!(scripted.ask(now, &check(asked, life)).unwrap().is_allowed());
            ends.push(now + life.as_micros());
            let groups = groups(&scripted);
            assert!(groups.len() <= 32, "{groups:?}");
            let counted = groups.iter().map(|(_, ids)| ids).sum::<u64>() + inline(&scripted);
            let known = ends.iter().filter(|end| **end > now).count() as u64;
            assert!(counted >= known, "{counted} of {known}");
            let later = if is_mixed { Span::DAY } else { life }.as_micros() / 4;
            let lately = ends.iter().filter(|end| **end + later > now).count() as u64;
            assert!(is_mixed || counted <= lately, "{counted} of {lately}");
        }
    });
}

#[test]
fn a_full_table_refuses_new_ids_until_some_have_ended() {
    let mut scripted = scripted();
    let _ = scripted.ask(START, &check(0, Span::MINUTE)).unwrap();
    let mut stored = scripted.stored();
    let group = &mut stored.get_mut(COUNTS).unwrap().value;
    let ends = number(&group[..7]);
    group[7..].copy_from_slice(&65_536_u32.to_be_bytes());
    scripted.store(stored);
    let before = scripted.stored();
    let error = scripted.ask(START, &check(1, Span::MINUTE)).unwrap_err();
    let Error::Request(error) = error else { panic!("{error}") };
    assert_eq!(error.kind(), RequestErrorKind::Full, "{error}");
    assert_eq!(scripted.stored(), before);
    assert!(scripted.ask(START, &check(0, Span::MINUTE)).unwrap().is_repeat());
    scripted.expires = false;
    assert!(scripted.ask(ends - 1, &check(1, Span::MINUTE)).is_err());
    assert!(scripted.ask(ends, &check(1, Span::MINUTE)).unwrap().is_allowed());
}

/// Tests the largest number of ids, and the largest value that counts them.
#[test]
fn exactly_as_many_ids_are_valid_as_are_promised() {
    let mut scripted = scripted();
    let _ = scripted.ask(START, &check(0, Span::MINUTE)).unwrap();
    let inline = u32::try_from(inline(&scripted)).unwrap();
    let mut next_id = 1;
    let mut is_accepted_after = |counted: &[u32]| {
        let mut stored = scripted.stored();
        let ends = &(START + 60_000_000).to_be_bytes()[1..];
        let groups = counted.iter().flat_map(|ids| [ends, &ids.to_be_bytes()].concat());
        stored.get_mut(COUNTS).unwrap().value = groups.collect();
        scripted.store(stored);
        next_id += 1;
        scripted.ask(START, &check(next_id, Span::MINUTE)).is_ok()
    };
    let most = 65_536 - inline;
    assert!(is_accepted_after(&[most - 1]));
    assert!(!is_accepted_after(&[most]));
    let mut groups = [1; 32];
    groups[0] = most - 31;
    assert!(!is_accepted_after(&groups));
    groups[0] -= 1;
    assert!(is_accepted_after(&groups));
    assert!(is_accepted_after(&[most; 33]), "no valid value has so many groups");
}

/// Tests that each key has a TTL, but that its content determines its validity, not the server's
/// clock.
#[test]
fn records_go_with_their_time_and_are_judged_by_what_they_say() {
    // If the inline slots are full, the value is kept as long as the records in them.
    for (mut scripted, keys, stay) in [(roomy(), 1, 0), (after_another(), 3, 0), (scripted(), 3, 1)]
    {
        let once =
            |scripted: &mut Scripted, now| scripted.ask(now, &check(0, Span::SECOND)).unwrap();
        assert!(!once(&mut scripted, START).is_repeat());
        let expires: Vec<_> = scripted.stored().values().map(|stored| stored.expires_ms).collect();
        assert_eq!(expires.len(), keys);
        let is_soon =
            |expires: &&Option<u64>| expires.is_some_and(|it| it <= START / 1_000 + 1_502);
        assert_eq!(expires.iter().filter(is_soon).count(), keys - stay);
        scripted.expires = false;
        assert!(once(&mut scripted, START + 999_999).is_repeat());
        assert!(!once(&mut scripted, START + 1_000_000).is_repeat());
        scripted.expire(START + 10_000_000);
        assert_eq!(scripted.stored().len(), stay);
    }
}

/// Tests that foreign bytes count as no decision and no count.
#[test]
fn what_makes_no_sense_counts_as_absent() {
    for nonsense in [&b""[..], b"x", &[b'x'; 54], &[0xff; 200]] {
        let mut scripted = scripted();
        let _ = scripted.ask(START, &check(0, Span::MINUTE)).unwrap();
        let mut stored = scripted.stored();
        for (key, stored) in &mut stored {
            if key.starts_with(COUNTS) {
                stored.value = nonsense.to_vec();
            }
        }
        scripted.store(stored);
        let again = scripted.ask(START, &check(0, Span::MINUTE)).unwrap();
        assert!(again.is_allowed() && !again.is_repeat());
        assert_eq!(groups(&scripted).len(), 1);
    }
}

/// Tests the number of commands, which is the cost of a decision.
#[test]
fn an_id_adds_few_commands_to_a_check_and_a_repeat_writes_nothing() {
    // With free inline slots, the additional command checks whether ids have their own keys.
    // Otherwise the additional commands use those keys.
    for (mut scripted, more, repeated) in
        [(roomy(), 1, 2), (after_another(), 3, 5), (scripted(), 4, 3)]
    {
        let mut calls = |request: &Request<'_>| {
            let before = scripted.calls();
            let _ = scripted.ask(START, request).unwrap();
            scripted.calls() - before
        };
        let _ = calls(&Request::check(b"alice"));
        let plain = calls(&Request::check(b"alice"));
        assert_eq!(calls(&check(0, Span::MINUTE)), plain + more);
        // It reads what a new id needs, until the id turns out to be known; then it reads the
        // answer.
        assert_eq!(calls(&check(0, Span::MINUTE)), repeated);
        let before = scripted.stored();
        let again = scripted.ask(START + 1, &check(0, Span::MINUTE)).unwrap();
        assert!(again.is_repeat());
        assert_eq!(scripted.stored(), before);
    }
}

/// Tests that the first ids are stored inline, without keys, and the others outside. Each is known
/// for its duration, also after a reset.
#[test]
fn ids_are_known_wherever_they_stand() {
    let mut scripted = roomy();
    scripted.expires = false;
    let fresh = |scripted: &mut Scripted, now, numbers: Range<u64>| {
        for number in numbers {
            assert!(!scripted.ask(now, &check(number, Span::MINUTE)).unwrap().is_repeat());
        }
    };
    fresh(&mut scripted, START, 0..20);
    assert_eq!((inline(&scripted), scripted.stored().len()), (8, 1 + 12 + 1));
    let reset = Request::new(Operation::Reset, b"alice");
    assert_eq!(scripted.ask(START + 20, &reset).unwrap().forgotten(), Some(true));
    assert_eq!(scripted.ask(START + 21, &reset).unwrap().forgotten(), Some(false));
    let is_known = |scripted: &mut Scripted, at, number| {
        scripted.ask(START + at, &check(number, Span::MINUTE)).unwrap().is_repeat()
    };
    for number in 0..20 {
        assert!(is_known(&mut scripted, 2_000_000, number), "{number}");
    }
    assert!(is_known(&mut scripted, 59_999_999, 0) && is_known(&mut scripted, 59_999_999, 19));
    assert!(!is_known(&mut scripted, 60_000_000, 0) && !is_known(&mut scripted, 60_000_000, 19));
    // Expired ids free their slots, but new ids are stored outside until the group of the others
    // has expired.
    scripted.expires = true;
    let later = START + 75_000_000;
    fresh(&mut scripted, later - 1, 20..21);
    assert_eq!(inline(&scripted), 0);
    fresh(&mut scripted, later + 90_000_000, 21..24);
    assert_eq!(inline(&scripted), 3);
}

/// Tests that each id is charged once, as the kernel charges it, wherever it is stored.
///
/// An id is stored outside if it has another duration or bucket, or an earlier time. All later ids
/// are also stored outside until those have expired.
#[test]
fn ids_of_all_lives_are_charged_once() {
    let policies = |numbers: &str| vec![format!("token_bucket {numbers} as b").parse().unwrap()];
    let numbers = ["100/s burst 20", "3/7ms burst 50", "2/s burst 1000"];
    let (mut stood_inline, mut repeated) = (0, 0);
    each("ids of all lives", 200, |seed| {
        let mut dice = Dice::new(seed);
        let first = policies(dice.pick(&numbers));
        let mut scripted = Scripted::new(first.clone(), CLOCK);
        let mut outside = Scripted::new(first.clone(), CLOCK).crowded(true);
        let mut kernels = Kernels::new(first, CLOCK);
        // Keys don't reappear when a clock steps back, and the TTL was set under the former policy.
        let (steps_back, changes) = (dice.one_in(2), dice.one_in(2));
        scripted.expires = !steps_back && !changes;
        outside.expires = scripted.expires;
        let (mut now, mut known) = (START, HashMap::<u64, u64>::new());
        let usual = dice.pick(&[Span::SECOND, Span::MINUTE]);
        for _ in 0..120 {
            now += dice.below(usual.as_micros() / 4);
            let at =
                if steps_back && dice.one_in(8) { now - dice.below(MAX_CLOCK_BACK) } else { now };
            if dice.one_in(30) {
                let reset = Request::new(Operation::Reset, b"alice");
                let _ = (scripted.ask(at, &reset).unwrap(), kernels.ask(at, &reset).unwrap());
                let _ = outside.ask(at, &reset).unwrap();
            }
            if changes && dice.one_in(30) {
                let other = policies(dice.pick(&numbers));
                scripted.set_policies(other.clone());
                outside.set_policies(other.clone());
                kernels.set_policies(other);
            }
            let number = dice.below(24);
            let lasts = if dice.one_in(8) { Span::HOUR } else { usual };
            let costs = [1 + number % 3];
            let plain = Request::check(b"alice").costs(Costs::Each(&costs));
            let request = check(number, lasts).costs(Costs::Each(&costs));
            // Skip ids that may have been removed already, although `at` is before their end.
            if known.get(&number).is_some_and(|end| at < *end && *end <= now) {
                continue;
            }
            let told = scripted.ask(at, &request).unwrap();
            assert_eq!(told, outside.ask(at, &request).unwrap(), "{number} at {at}");
            let is_known = known.get(&number).is_some_and(|end| at < *end);
            assert_eq!(told.is_repeat(), is_known, "{number} at {at}");
            if is_known {
                // A different request with the id gets an error and charges nothing.
                let stored = scripted.stored();
                let other = check(number, lasts).costs(Costs::Each(&[7]));
                let Err(Error::Request(error)) = scripted.ask(at, &other) else {
                    panic!("{number} at {at}")
                };
                assert_eq!(error.kind(), RequestErrorKind::Conflict, "{error}");
                assert_eq!(scripted.stored(), stored);
                repeated += 1;
            } else {
                assert_eq!(told, kernels.ask(at, &plain).unwrap(), "{number} at {at}");
                if told.is_allowed() {
                    known.insert(number, at + lasts.as_micros());
                }
            }
            stood_inline += inline(&scripted);
        }
    });
    assert!(stood_inline > 10_000 && repeated > 3_000, "{stood_inline} inline, {repeated} again");
}

/// Tests that malformed inline data counts as absent, wherever it is cut.
#[test]
fn nonsense_inline_counts_as_absent() {
    let mut scripted = roomy();
    let _ = scripted.ask(START, &check(0, Span::MINUTE)).unwrap();
    let stored = scripted.stored();
    let (key, value) = stored.iter().next().unwrap();
    for cut in 27..value.value.len() {
        let mut stored = stored.clone();
        stored.get_mut(key).unwrap().value.truncate(cut);
        scripted.store(stored);
        let again = scripted.ask(START, &check(0, Span::MINUTE)).unwrap();
        assert!(again.is_allowed() && !again.is_repeat(), "{cut}");
        assert!(scripted.ask(START, &check(0, Span::MINUTE)).unwrap().is_repeat(), "{cut}");
    }
}

/// Tests that an inline record doesn't extend the TTL of a key beyond what the bucket and the
/// record need. After a reset the key lasts as long as the record.
#[test]
fn what_stands_inline_keeps_the_key_no_longer_than_it_says() {
    let longest = |burst: u64, cost: u64| {
        let policy = format!("token_bucket 1/h burst {burst}");
        let mut scripted = Scripted::new(vec![policy.parse().unwrap()], CLOCK);
        let request = check(0, Span::MINUTE);
        let _ = scripted.ask(START, &request.costs(Costs::Each(&[cost]))).unwrap();
        let life = |scripted: &Scripted| {
            let stored = scripted.stored();
            stored.values().next().unwrap().expires_ms.unwrap() - START / 1_000
        };
        let first = life(&scripted);
        let _ = scripted.ask(START, &Request::new(Operation::Reset, b"alice")).unwrap();
        (first / 1_000, life(&scripted) / 1_000)
    };
    assert_eq!(longest(10, 4), (6 * 3_600, 60));
    assert_eq!(longest(100, 40), (40 * 3_600, 60));
}

#[test]
fn a_reset_of_what_makes_no_sense_says_that_something_was_there() {
    let mut scripted = roomy();
    let _ = scripted.ask(START, &Request::check(b"alice")).unwrap();
    let mut stored = scripted.stored();
    stored.values_mut().for_each(|stored| stored.value = b"nonsense".to_vec());
    scripted.store(stored);
    let reset = Request::new(Operation::Reset, b"alice");
    assert_eq!(scripted.ask(START, &reset).unwrap().forgotten(), Some(true));
    assert_eq!(scripted.ask(START, &reset).unwrap().forgotten(), Some(false));
}
