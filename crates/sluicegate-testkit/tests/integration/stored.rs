//! Tests of arbitrary stored values: for each, the scripts must decide, write and set TTLs like the
//! core.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashMap;

use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Dice, Kind, Plan, Schedule, Step as Planned, each};
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Identity, Now, Step, Stored, step};
use sluicegate_core::kernel::log::Log;
use sluicegate_core::kernel::{FixedKind, Layout, NUMBER_BYTES, Rule, State};
use sluicegate_core::record::{Entry, Record, read_numbers};
use sluicegate_core::value::{Write, step_values};
use sluicegate_core::{Costs, Decision, Error, MAX_EXACT, Operation, Policy, Request};
use sluicegate_testkit::lua::StoredValue;

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

mod leases;

const SUBJECT: &[u8] = b"a";
const HOUR: u64 = 3_600_000_000;
const CLOCKS: [Clock; 2] = [Clock::Injected, Clock::Own { max_clock_back_us: MAX_CLOCK_BACK }];

#[test]
fn any_value_is_judged_and_written_as_the_core_does_it() {
    let kinds = Kind::ALL.into_iter().filter(|kind| *kind != Kind::SlidingLog).collect();
    let plan = Plan { kinds, max_policies: 3, ..Plan::default() };
    each("stored values", 250, |seed| {
        let clock = CLOCKS[usize::from(seed % 2 == 0)];
        let schedule = Plan { clock, ..plan.clone() }.schedule(seed);
        if !policies_of(&schedule).any(|policy| is_left_out(policy, clock)) {
            let mut dice = Dice::new(seed);
            let mut value = None;
            for_each_request(&schedule, |scripted, now_us, request| {
                for _ in 0..3 {
                    let changed = change(&mut dice, value.as_deref(), now_us, request);
                    ask_both(scripted, clock, now_us, request, changed.as_deref());
                }
                value = ask_both(scripted, clock, now_us, request, value.as_deref());
            });
        }
    });
}

/// Returns `true` for policies that these tests skip:
///
/// - logs with entries in their own key;
/// - policies with a rate or limit of 0, whose state is written although nothing must be kept;
/// - calendars under injected time, which end before time does.
fn is_left_out(policy: &Policy, clock: Clock) -> bool {
    is_apart(policy)
        || policy.to_string().contains(" 0/")
        || clock == Clock::Injected && policy.to_string().contains("calendar")
}

fn is_apart(policy: &Policy) -> bool {
    matches!(policy.rule().profile().layout, Layout::Apart { .. })
}

fn policies_of(schedule: &Schedule) -> impl Iterator<Item = &Policy> {
    let changes = schedule.steps.iter().filter_map(|step| match step {
        Planned::SetPolicies(policies) => Some(policies),
        Planned::Request(_) => None,
    });
    changes.chain([&schedule.policies]).flatten()
}

/// Runs all requests of a schedule with one subject, on scripts with the current policies.
fn for_each_request(schedule: &Schedule, mut ask: impl FnMut(&mut Scripted, u64, &Request<'_>)) {
    let mut scripted = Scripted::new(schedule.policies.clone(), schedule.clock);
    scripted.expires = false;
    for step in &schedule.steps {
        match step {
            Planned::SetPolicies(policies) => scripted.set_policies(policies.clone()),
            Planned::Request(request) => {
                let (operation, costs) = request.operation.for_store();
                let ours = Request::new(operation, SUBJECT).costs(costs);
                ask(&mut scripted, request.now_us, &ours);
            }
        }
    }
}

const fn now_of(clock: Clock, micros: u64) -> Now {
    match clock {
        Clock::Injected => Now { micros, max_clock_back: None },
        Clock::Own { max_clock_back_us } => Now { micros, max_clock_back: Some(max_clock_back_us) },
    }
}

/// Asks the scripts and the core, and returns the stored value afterwards.
fn ask_both(
    scripted: &mut Scripted,
    clock: Clock,
    now_us: u64,
    request: &Request<'_>,
    value: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let key = scripted.keys(SUBJECT).remove(0);
    let stored = value.map(|value| StoredValue { value: value.to_vec(), expires_ms: None });
    scripted.store(stored.into_iter().map(|stored| (key.clone(), stored)).collect());
    let expected = step_values(scripted.limit(), request, now_of(clock, now_us), &[value]);
    let got = scripted.ask(now_us, request);
    let specs: Vec<String> =
        scripted.limit().members().iter().map(|member| member.policy().to_string()).collect();
    let before = Record::decode(value.unwrap_or_default());
    let about = format!("{specs:?}\n{request:?} at {now_us} of {before:?}");
    let write = match &expected {
        Ok((_, writes)) => writes[0].clone(),
        Err(_) => Write::Nothing,
    };
    let expected = expected.map(|(step, _)| step.decision);
    assert_alike(&got, &expected, &about);
    let stored = scripted.stored().remove(&key);
    match write {
        Write::Set { value, life } => {
            let stored = stored.unwrap_or_else(|| panic!("nothing is written: {about}"));
            let is_all_new = assert_entries(&stored.value, &value, &before, &about);
            let Some(expires) = stored.expires_ms else {
                // Counted in the current slice, so the key's TTL is unchanged.
                assert!(specs.len() == 1 && specs[0].starts_with("sliding_window"), "{about}");
                return Some(stored.value);
            };
            let least = expiry(clock, now_us, life);
            let newest = Record::decode(&value);
            let newest = newest.entries().iter().filter_map(Entry::numbers).map(|all| all[0]).max();
            // A smooth policy is kept for a day, from now or from its state's stamp.
            let is_smooth = specs.iter().any(|spec| spec.starts_with("smooth"));
            let day_begins = if is_smooth { newest.unwrap_or(now_us) } else { now_us };
            if day_begins <= now_us {
                assert!(expires >= least, "{expires} is before {least}: {about}");
            }
            // An unchanged state is kept longer than necessary.
            let is_charged = expected.is_ok_and(|it| it.is_allowed() && !it.warnings().restamped);
            if is_all_new && is_charged && day_begins == now_us {
                assert!(expires <= least, "{expires} is after {least}: {about}");
            }
            Some(stored.value)
        }
        Write::Nothing => {
            assert_eq!(stored.as_ref().map(|stored| &*stored.value), value, "{about}");
            assert!(stored.is_none_or(|stored| stored.expires_ms.is_none()), "{about}");
            value.map(<[u8]>::to_vec)
        }
        // Nothing worth keeping: the scripts let the key expire.
        Write::Remove => {
            assert!(stored.is_none_or(|stored| stored.expires_ms.is_some()), "{about}");
            None
        }
    }
}

fn assert_alike(got: &Result<Decision, Error>, expected: &Result<Decision, Error>, about: &str) {
    match (got, expected) {
        (Ok(got), Ok(expected)) => assert_eq!(got, expected, "{about}"),
        (Err(got), Err(expected)) => assert_eq!(got.to_string(), expected.to_string(), "{about}"),
        _ => panic!("{got:?} instead of {expected:?}: {about}"),
    }
}

/// Checks that a value has the right entries. Returns whether all of them have changed.
fn assert_entries(value: &[u8], right: &[u8], before: &Record<'_>, about: &str) -> bool {
    let (written, right) = (Record::decode(value), Record::decode(right));
    let mut written = written.entries().to_vec();
    // An empty state is left to expire.
    written.retain(|entry| {
        right.entry(entry.identity, entry.kind).is_some()
            || before.entry(entry.identity, entry.kind).is_none()
    });
    let mut is_all_new = true;
    // The scripts copy the entries of unchanged states; the core encodes them again.
    for (written, right) in written.iter_mut().zip(right.entries()) {
        let is_same = |old: &&Entry<'_>| old.identity == right.identity && old.body == right.body;
        if let Some(old) = before.entries().iter().rev().find(is_same) {
            is_all_new = false;
            if written.retention == old.retention {
                written.retention = right.retention;
            }
        }
    }
    assert_eq!(written, right.entries(), "{about}");
    is_all_new
}

/// Returns the value with one change.
///
/// The change is in a number (often to the edge of its range), an identity or a retention, or it
/// removes or adds bytes.
fn change(
    dice: &mut Dice,
    value: Option<&[u8]>,
    now: u64,
    request: &Request<'_>,
) -> Option<Vec<u8>> {
    let value = value?;
    let mut entries = Record::decode(value).entries().to_vec();
    if entries.is_empty() {
        return Some(value.to_vec());
    }
    let chosen = dice.below_len(entries.len());
    match dice.below(12) {
        0 => return Some(value[..dice.below_len(value.len())].to_vec()),
        1 => return Some([value, &[dice.pick(&[0, 1, 2, 4, 6, 0x7f, 0x80, 0xff])]].concat()),
        2 => {
            let mut bytes = entries[chosen].identity.to_bytes();
            bytes[3] ^= 1;
            entries[chosen].identity = Identity::from_bytes(bytes);
        }
        3 => entries[chosen].retention = dice.pick(&[0, 1, 20, 40, 53, 60]),
        4 => entries.swap(0, chosen),
        5 => entries.push(entries[chosen].clone()),
        _ => {
            let entry = &mut entries[chosen];
            let is_ring = entry.kind == Log::RING_KIND;
            let body = entry.body.to_mut();
            let mut index = dice.below_len(body.len() / NUMBER_BYTES);
            // A check reads only the needed numbers of a ring, and doesn't verify the others.
            if is_ring && request.operation() == Operation::Check {
                index = 0;
            }
            let number = &mut body[NUMBER_BYTES * index..][..NUMBER_BYTES];
            let old = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
            let new = match dice.below(8) {
                0 => old + 1,
                1 => old.saturating_sub(1),
                2 => dice.below(20),
                3 => dice.pick(&[MAX_EXACT - 1, MAX_EXACT, MAX_EXACT + 1, (1 << 56) - 1]),
                4 => now + dice.pick(&[0, 1, MAX_CLOCK_BACK, MAX_CLOCK_BACK + 1]),
                5 => now.saturating_sub(dice.pick(&[1, 1_000, 1_000_000, 60_000_000])),
                6 => old.saturating_mul(2) % (1 << 56),
                _ => 0,
            };
            number.copy_from_slice(&new.to_be_bytes()[1..]);
        }
    }
    let mut changed = Vec::with_capacity(value.len());
    entries.iter().for_each(|entry| entry.write(&mut changed));
    Some(changed)
}

#[test]
fn a_log_is_judged_and_written_as_the_core_does_it() {
    let plan = Plan {
        kinds: vec![Kind::SlidingLog, Kind::SlidingWindow, Kind::Gcra],
        max_policies: 3,
        ..Plan::default()
    };
    each("stored logs", 200, |seed| {
        let clock = CLOCKS[usize::from(seed % 2 == 0)];
        let schedule = Plan { clock, ..plan.clone() }.schedule(seed);
        let mut dice = Dice::new(seed);
        for_each_request(&schedule, |scripted, now_us, request| {
            let natural = scripted.stored();
            for _ in 0..3 {
                let ruined = ruin(&mut dice, scripted, now_us, request);
                judge_logs(scripted, clock, now_us, request, ruined);
                scripted.store(natural.clone());
            }
            judge_logs(scripted, clock, now_us, request, None);
        });
    });
}

/// Compares the answers of scripts and core for the stored state. One log may be corrupted.
fn judge_logs(
    scripted: &mut Scripted,
    clock: Clock,
    now_us: u64,
    request: &Request<'_>,
    ruined: Option<usize>,
) {
    let mut held = held(scripted);
    if let Some(ruined) = ruined {
        held[ruined] = None;
    }
    let specs: Vec<String> =
        scripted.limit().members().iter().map(|member| member.policy().to_string()).collect();
    let about = format!("{specs:?}\n{request:?} at {now_us} of {held:?}, {ruined:?} is ruined");
    let stepped = step(scripted.limit(), request, now_of(clock, now_us), &mut held);
    let mut expected = stepped.clone().map(|step| step.decision);
    let got = scripted.ask(now_us, request);
    if let (Some(_), Ok(expected), Ok(got)) = (ruined, &mut expected, &got) {
        // A discarded state is reported. A stamp ahead of the clock may be reported too.
        let mut warnings = got.warnings();
        warnings.discarded = true;
        expected.set_warnings(warnings);
    }
    assert_alike(&got, &expected, &about);
    if let (Ok(step), None) = (stepped, ruined) {
        assert_lives(scripted, clock, now_us, &step, &about);
    }
    for (index, (after, held)) in self::held(scripted).into_iter().zip(held).enumerate() {
        let right = counted(held);
        // A corrupted state is unchanged until something is charged.
        if right.is_some() || ruined != Some(index) {
            assert_eq!(counted(after), right, "{about}");
        }
    }
}

/// Checks that changed states are kept for as long as the core requires.
fn assert_lives(scripted: &Scripted, clock: Clock, now_us: u64, step: &Step, about: &str) {
    let (Some(&life), false) = (step.lives.first(), step.forgets()) else { return };
    let least = expiry(clock, now_us, life);
    let (stored, keys) = (scripted.stored(), scripted.keys(SUBJECT));
    let is_apart = scripted.limit().members().iter().map(|member| is_apart(member.policy()));
    // An unchanged state may be kept longer than necessary.
    let is_alone = is_apart.len() == 1;
    let mut own = keys[1..].iter();
    for (index, is_apart) in is_apart.enumerate() {
        let own = if is_apart { own.next() } else { None };
        let is_changed = step.changed & (1 << index) != 0;
        for key in own.into_iter().chain([&keys[0]]).filter(|_| is_changed) {
            let Some(stored) = stored.get(key) else { continue };
            let expires = stored.expires_ms.unwrap_or(u64::MAX);
            assert!(expires >= least, "{expires} is before {least}: {about}");
            assert!(expires == least || !is_alone, "{expires} is after {least}: {about}");
        }
    }
}

/// Returns the first ms in which a key may be gone that must be kept for `life` µs.
fn expiry(clock: Clock, now_us: u64, life: u64) -> u64 {
    // Under injected time the server's clock stands still, and a key is kept for an hour.
    let (from, shortest) = if clock == Clock::Injected { (0, HOUR) } else { (now_us / 1_000, 0) };
    from + life.max(shortest).min(MAX_EXACT).div_ceil(1_000) + 1
}

/// Returns the relevant part of a state. For a log, this excludes the base of its totals, and an
/// empty log counts as none.
fn counted(held: Option<Stored>) -> Option<Stored> {
    let Some(Stored::State(State::Log(mut log))) = held else { return held };
    let base = std::mem::take(&mut log.base);
    log.entries.iter_mut_from(0).for_each(|entry| entry.total -= base);
    (!log.entries.is_empty()).then_some(Stored::State(State::Log(log)))
}

/// Returns the stored states of each policy, in the core's form.
fn held(scripted: &Scripted) -> Vec<Option<Stored>> {
    let (stored, keys) = (scripted.stored(), scripted.keys(SUBJECT));
    let mut own = keys[1..].iter();
    let value = |key: &Vec<u8>| stored.get(key).map(|stored| &*stored.value).unwrap_or_default();
    let record = Record::decode(value(&keys[0]));
    let members = scripted.limit().members().iter();
    let states = members.map(|member| match member.policy().rule().profile().layout {
        Layout::Apart { head, .. } => {
            let entries = value(own.next().unwrap());
            let head = record.entry(member.identity(), head.kind)?.numbers()?;
            let [newest, base, _, first, count] = head[..] else { panic!("{head:?}") };
            let place = |index: u64| 2 * NUMBER_BYTES * usize::try_from(index).unwrap();
            let mut numbers = vec![newest, base];
            numbers.extend(read_numbers(entries.get(place(first)..place(count))?)?);
            member.policy().rule().read(&numbers)
        }
        Layout::Fixed(FixedKind { kind, .. }) | Layout::Listed { kind } => {
            record.entry(member.identity(), kind)?.state(member)
        }
    });
    states.map(|state| state.map(Stored::State)).collect()
}

/// Corrupts one log that has entries: a number of its head, missing entries, or other entries.
/// Returns the index of its policy.
fn ruin(dice: &mut Dice, scripted: &Scripted, now: u64, request: &Request<'_>) -> Option<usize> {
    let mut stored: HashMap<Vec<u8>, StoredValue> = scripted.stored();
    let keys = scripted.keys(SUBJECT);
    let members = scripted.limit().members();
    let logs: Vec<usize> =
        (0..members.len()).filter(|index| is_apart(members[*index].policy())).collect();
    let log = dice.below_len(logs.len());
    let (member, own) = (&members[*logs.get(log)?], &keys[1 + log]);
    let Layout::Apart { head: FixedKind { kind, .. }, .. } =
        member.policy().rule().profile().layout
    else {
        return None;
    };
    let packed = stored.get(&keys[0])?.value.clone();
    let mut entries = Record::decode(&packed).entries().to_vec();
    let head = entries.iter_mut().find(|it| (it.identity, it.kind) == (member.identity(), kind))?;
    let [newest, _, total, first, count] = head.numbers()?[..] else { return None };
    if first == count {
        return None;
    }
    let mut set = |number: usize, to: u64| {
        head.body.to_mut()[NUMBER_BYTES * number..][..NUMBER_BYTES]
            .copy_from_slice(&to.to_be_bytes()[1..]);
    };
    let own = stored.get_mut(own)?;
    let end = 2 * NUMBER_BYTES * usize::try_from(count).ok()?;
    // After the counted entries, there may be entries that no longer count.
    let entries_there = (own.value.len() / (2 * NUMBER_BYTES)) as u64;
    // A check doesn't verify totals and entries that it doesn't need.
    let looks_closely = request.operation() != Operation::Check;
    let kind = if looks_closely { dice.below(12) } else { dice.pick(&[0, 3, 6, 7, 11]) };
    match kind {
        0 => set(0, MAX_EXACT + 1),
        1 => set(1, total + 1),
        2 => set(1, total),
        3 => set(2, MAX_EXACT + 1),
        4 => set(2, total + 1),
        5 => set(2, total - 1),
        6 => set(3, count + 1),
        7 => set(3, count),
        8 => set(4, entries_there + 1 + dice.below(2) * MAX_EXACT),
        9 => own.value.truncate(end - 1),
        10 => own.value[end - 1] ^= 1,
        // A log whose entries have all expired may lose them before its head.
        _ if newest + horizon(member.policy()) > now => own.value.clear(),
        _ => return None,
    }
    let mut value = Vec::with_capacity(packed.len());
    entries.iter().for_each(|entry| entry.write(&mut value));
    stored.get_mut(&keys[0])?.value = value;
    scripted.store(stored);
    Some(logs[log])
}

fn horizon(policy: &Policy) -> u64 {
    match policy.rule() {
        Rule::Log(log) => log.horizon(),
        _ => 0,
    }
}

#[test]
fn units_taken_beside_a_log_that_was_lost_can_be_given_back_after_the_clock_stepped_back() {
    const START: u64 = 1_700_000_000_000_000;
    for spec in ["sliding_log 3/min", "sliding_window 3/min slices 100"] {
        let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
        let mut scripted = Scripted::new(vec![spec.parse().unwrap()], clock);
        let _ = scripted.decide(START, SUBJECT, Operation::Check, Costs::Own).unwrap();
        let [_, own] = &scripted.keys(SUBJECT)[..] else { panic!("{spec} has no key of its own") };
        let mut stored = scripted.stored();
        stored.remove(own).unwrap();
        scripted.store(stored);
        let mut ask =
            |now_us, operation| scripted.decide(now_us, SUBJECT, operation, Costs::Own).unwrap();
        // The server has evicted the log, and its clock has stepped back.
        let taken = ask(START - 1_000_000, Operation::Take);
        assert!(taken.warnings().discarded, "{spec}");
        let taken_at = taken.taken_at().unwrap();
        assert_eq!(taken_at.as_micros(), START - 1_000_000, "{spec}");
        let given = ask(START - 1_000_000, Operation::GiveBack { taken_at });
        assert_eq!(given.policies().next().unwrap().remaining(), Some(3), "{spec}");
    }
}

#[test]
fn the_shortest_list_that_another_version_may_write_is_kept() {
    let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
    let specs = ["fixed_window 3/h".parse().unwrap(), "sliding_log 3/h".parse().unwrap()];
    let mut scripted = Scripted::new(specs.to_vec(), clock);
    let key = scripted.keys(SUBJECT).remove(0);
    let body = HOUR.to_be_bytes()[1..].to_vec().into();
    let theirs =
        Entry { kind: 0xbf, identity: Identity::from_bytes(*b"else"), retention: 40, body };
    let mut value = Vec::new();
    theirs.write(&mut value);
    scripted.store([(key.clone(), StoredValue { value, expires_ms: None })].into());
    let decision = scripted.decide(HOUR, SUBJECT, Operation::Check, Costs::Own).unwrap();
    assert!(decision.is_allowed() && !decision.warnings().discarded);
    let stored = scripted.stored().remove(&key).unwrap();
    assert_eq!(Record::decode(&stored.value).entries().last(), Some(&theirs));
}
