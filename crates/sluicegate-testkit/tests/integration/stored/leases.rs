//! Tests of random grants and reports of leases: scripts and core must decide and write
//! identically.

use std::collections::BTreeMap;

use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Dice, Kind, Plan, Schedule, Step as Planned, each};
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::{Carried, LeaseReport, Leasing, Pace, ReportedUnits, Stored};
use sluicegate_core::kernel::{Leased, Slot};
use sluicegate_core::record::{Entry, Record};
use sluicegate_core::{MAX_EXACT, Operation, Policy, Request, Span};

use super::{CLOCKS, SUBJECT, ask_both, change, is_left_out, policies_of};
use crate::scripted::{MAX_CLOCK_BACK, Scripted};

#[test]
fn leases_are_granted_and_reported_as_the_core_does_it() {
    let mut seen = Seen::default();
    each("stored leases", 800, |seed| {
        let clock = CLOCKS[usize::from(seed % 2 == 0)];
        let kinds = [Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket, Kind::FixedWindow];
        let plan = Plan { clock, kinds: kinds.to_vec(), max_policies: 3, ..Plan::default() };
        let mut schedule = plan.schedule(seed);
        let mut dice = Dice::new(seed);
        make_leasable(&mut schedule, &mut dice);
        if policies_of(&schedule).any(|policy| is_left_out(policy, clock)) {
            return;
        }
        run(&schedule, clock, &mut dice, &mut seen);
    });
    let Seen { granted, reported, several, denied, cleared, paced, carried } = seen;
    for count in [granted, reported, several, denied, cleared, paced, carried] {
        assert!(count > 100, "{seen:?}");
    }
}

/// Counts of cases that the schedules must reach often.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    granted: usize,
    reported: usize,
    several: usize,
    denied: usize,
    cleared: usize,
    paced: usize,
    carried: usize,
}

/// Makes every policy enforce and charge no denials, and usually makes its numbers large enough to
/// share.
fn make_leasable(schedule: &mut Schedule, dice: &mut Dice) {
    let large = dice.one_in(4);
    let plain = |policy: &Policy| {
        let mut spec = policy.to_string();
        for word in [" shadow", " charge_denied"] {
            spec = spec.replace(word, "");
        }
        let policy: Policy = spec.parse().unwrap();
        if large { policy } else { enlarged(policy) }
    };
    let all = schedule.steps.iter_mut().filter_map(|step| match step {
        Planned::SetPolicies(policies) => Some(policies),
        Planned::Request(_) => None,
    });
    for policies in all.chain([&mut schedule.policies]) {
        for policy in policies.iter_mut() {
            *policy = plain(policy);
        }
    }
}

/// Returns the policy with a burst or limit 60 times as large, so that a share can be leased.
fn enlarged(policy: Policy) -> Policy {
    use sluicegate_core::Algorithm;
    let larger = match policy.algorithm().clone() {
        Algorithm::TokenBucket { rate, burst } => {
            Algorithm::TokenBucket { rate, burst: burst.saturating_mul(60) }
        }
        Algorithm::Gcra { rate, burst } => {
            Algorithm::Gcra { rate, burst: burst.saturating_mul(60) }
        }
        Algorithm::LeakyBucket { rate, capacity } => {
            Algorithm::LeakyBucket { rate, capacity: capacity.saturating_mul(60) }
        }
        Algorithm::FixedWindow { limit, window } => {
            Algorithm::FixedWindow { limit: limit.saturating_mul(60), window }
        }
        other => other,
    };
    match Policy::new(larger) {
        Ok(larger) => {
            let named = policy.name().cloned();
            let larger = larger.with_cost(policy.cost());
            match named {
                Some(name) => larger.named(name),
                None => larger,
            }
        }
        Err(_) => policy,
    }
}

fn run(schedule: &Schedule, clock: Clock, dice: &mut Dice, seen: &mut Seen) {
    let mut scripted = Scripted::new(schedule.policies.clone(), schedule.clock);
    scripted.expires = false;
    let mut value: Option<Vec<u8>> = None;
    for step in &schedule.steps {
        let request = match step {
            Planned::SetPolicies(policies) => {
                scripted.set_policies(policies.clone());
                continue;
            }
            Planned::Request(request) => request,
        };
        let (operation, costs) = request.operation.for_store();
        let reports = reports(dice, &scripted, value.as_deref());
        let wants = operation == Operation::Check && !dice.one_in(4);
        let widths =
            [1_000, 200_000, 200_000, 1_000_000, 10_000_000, 1_000_000 + dice.below(9_000_000)];
        let leasing = Leasing {
            want: if wants { dice.pick(&[1, 2, 5, 100, MAX_EXACT]) } else { 0 },
            width: Span::from_micros(dice.pick(&widths)).unwrap(),
            tag: if dice.one_in(30) { 7 } else { dice.below(MAX_EXACT) },
            reports: &reports,
            pace: if wants { pace(dice, &scripted, value.as_deref()) } else { None },
        };
        let leasing = Leasing { want: wanted(dice, &leasing), ..leasing };
        let mut ours = Request::new(operation, SUBJECT).costs(costs);
        if operation != Operation::Peek && !dice.one_in(6) {
            ours = ours.leasing(&leasing);
        }
        let changed = change(dice, value.as_deref(), request.now_us, &ours);
        ask_both(&mut scripted, clock, request.now_us, &ours, changed.as_deref());
        let before = outstanding(&scripted, value.as_deref());
        let after = ask_both(&mut scripted, clock, request.now_us, &ours, value.as_deref());
        let slots = outstanding(&scripted, after.as_deref());
        let total = |slots: &BTreeMap<u64, u64>| slots.values().sum::<u64>();
        seen.granted += usize::from(total(&slots) > total(&before));
        seen.reported += usize::from(total(&slots) < total(&before) && !reports.is_empty());
        seen.several += usize::from(slots.len() > 2);
        seen.denied += usize::from(after == value && !slots.is_empty());
        let booked = |value: Option<&[u8]>| -> u64 {
            slots_of(&scripted, value).iter().map(|slot| slot.share).sum()
        };
        let is_paced = booked(after.as_deref()) > 0 && after != value;
        seen.paced += usize::from(is_paced);
        let carries = leasing.pace.is_some_and(|pace| pace.carried.is_some());
        seen.carried += usize::from(is_paced && carries);
        seen.cleared += usize::from(operation == Operation::Reset && !slots.is_empty());
        value = after;
    }
}

/// Returns the outstanding units of the first policy, by slot.
fn outstanding(scripted: &Scripted, value: Option<&[u8]>) -> BTreeMap<u64, u64> {
    slots_of(scripted, value).iter().map(|slot| (slot.tag, slot.units)).collect()
}

/// Returns the slots of the first policy.
fn slots_of(scripted: &Scripted, value: Option<&[u8]>) -> Vec<Slot> {
    let record = Record::decode(value.unwrap_or_default());
    match record.held(&scripted.limit().members()[0]).0 {
        Some(Stored::Leased(leased)) => leased.slots,
        _ => Vec::new(),
    }
}

/// Returns a share to book, sometimes in place of an earlier one, which may be wrong.
fn pace(dice: &mut Dice, scripted: &Scripted, value: Option<&[u8]>) -> Option<Pace> {
    if !scripted.limit().can_pace() && !dice.one_in(20) || dice.one_in(4) {
        return None;
    }
    let share = match dice.below(4) {
        0 => dice.pick(&[1, Pace::MOST, 500_000]),
        _ => dice.between(1, 400_000),
    };
    let least = dice.pick(&[0, 1, share / 2, share]);
    let most = dice.pick(&[Pace::MOST, Pace::MOST, 600_000, 0]);
    let slots = slots_of(scripted, value);
    let paced: Vec<&Slot> = slots.iter().filter(|slot| slot.share > 0).collect();
    if paced.is_empty() || dice.one_in(3) {
        return Some(Pace { share, least, most, carried: None });
    }
    let slot = paced[dice.below_len(paced.len())];
    let some = |dice: &mut Dice, most: u64| match dice.below(4) {
        0 => most,
        1 => dice.below(most + 1),
        2 => most / 2,
        _ => most + dice.below(2),
    };
    let (units, earlier) = (some(dice, slot.units), some(dice, slot.share).max(1));
    let slot = if dice.one_in(12) { dice.below(MAX_EXACT) } else { slot.tag };
    let carried = Some(Carried { slot, units, share: earlier });
    // An equal share can be carried on.
    let share = if dice.one_in(2) { earlier.min(Pace::MOST) } else { share };
    Some(Pace { share, least: least.min(share), most, carried })
}

/// Returns the units to lease: few or none with a share, because all of them have to be there.
fn wanted(dice: &mut Dice, leasing: &Leasing<'_>) -> u64 {
    match leasing.pace {
        Some(Pace { carried: Some(carried), share, .. }) if carried.share == share => {
            dice.pick(&[0, 0, 1, 7])
        }
        Some(_) => dice.pick(&[1, 1, 2, 5, MAX_EXACT]),
        None => leasing.want,
    }
}

/// Returns reports of outstanding units, some of them wrong.
fn reports(dice: &mut Dice, scripted: &Scripted, value: Option<&[u8]>) -> Vec<LeaseReport> {
    let policies = scripted.limit().members().len();
    let mut reports = Vec::new();
    for (slot, units) in outstanding(scripted, value) {
        if !dice.one_in(3) {
            continue;
        }
        let some = |dice: &mut Dice| match dice.below(5) {
            0 => 0,
            1 => units,
            2 => dice.pick(&[units.saturating_add(1), MAX_EXACT]),
            _ => dice.below(units + 1),
        };
        let units =
            (0..policies).map(|_| ReportedUnits { spent: some(dice), returned: some(dice) });
        let units = units.collect();
        let slot = if dice.one_in(12) { dice.below(MAX_EXACT) } else { slot };
        reports.push(LeaseReport { slot, units });
    }
    reports
}

/// Tests that no lease is granted when all slots of a state are in use, with any widths.
#[test]
fn without_a_free_slot_nothing_is_leased() {
    let policies = vec!["token_bucket 1000000/s".parse().unwrap()];
    let mut scripted = Scripted::new(policies, Clock::Injected);
    let mut value: Option<Vec<u8>> = None;
    for half in 1..=18 {
        let width = Span::from_millis(537 * half).unwrap();
        let leasing = Leasing { want: 10, width, tag: half, reports: &[], pace: None };
        let request = Request::check(SUBJECT).leasing(&leasing);
        let at = 1_700_000_000_000_000;
        value = ask_both(&mut scripted, Clock::Injected, at, &request, value.as_deref());
        let slots = outstanding(&scripted, value.as_deref());
        assert_eq!(slots.len(), Leased::MAX_SLOTS.min(usize::try_from(half).unwrap()));
    }
}

/// Tests a repeated end: the clock steps back when the key is fresh again and gone.
#[test]
fn a_report_of_a_slot_that_is_over_says_nothing_about_another_that_ends_then() {
    let policies = vec!["token_bucket 1000/s".parse().unwrap()];
    let clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };
    let mut scripted = Scripted::new(policies, clock);
    scripted.expires = false;
    let (at, width) = (1_700_000_000_000_000, Span::from_millis(200).unwrap());
    let mut slots = Vec::new();
    for tag in [1, 2] {
        let leasing = Leasing { want: 10, width, tag, reports: &[], pace: None };
        let request = Request::check(SUBJECT).leasing(&leasing);
        let value = ask_both(&mut scripted, clock, at, &request, None);
        slots.push(value.unwrap());
    }
    let late = |slot| {
        let units = vec![ReportedUnits { spent: 0, returned: 10 }];
        [LeaseReport { slot, units }]
    };
    for (slot, left) in [(1, BTreeMap::from([(2, 10)])), (2, BTreeMap::new())] {
        let leasing = Leasing { want: 0, width, tag: 3, reports: &late(slot), pace: None };
        let request = Request::check(SUBJECT).leasing(&leasing);
        let value = ask_both(&mut scripted, clock, at + 1, &request, Some(&slots[1]));
        assert_eq!(outstanding(&scripted, value.as_deref()), left);
    }
}

/// Tests that the stored state of a key stays small with any number of lease holders.
#[test]
fn the_state_of_a_leased_key_is_small_whoever_holds_leases() {
    let mut scripted =
        Scripted::new(vec!["token_bucket 1000000/s".parse().unwrap()], Clock::Injected);
    let mut longest = 0;
    for holder in 0..1_000 {
        let width = Span::from_millis(200).unwrap();
        let leasing = Leasing { want: 10, width, tag: holder, reports: &[], pace: None };
        let request = Request::check(SUBJECT).leasing(&leasing);
        let at = 1_700_000_000_000_000 + holder * 5_000;
        let decision = scripted.ask(at, &request).unwrap();
        assert_eq!(decision.lease().unwrap().times, 10);
        let stored = scripted.stored().into_values().next().unwrap().value;
        let record = Record::decode(&stored);
        assert!(record.entries().iter().all(|entry: &Entry<'_>| entry.kind >= 0x80));
        longest = longest.max(stored.len());
    }
    assert!((80..250).contains(&longest), "{longest} bytes");
}
