//! Tests of released turns: the scripts against the kernels, and the number of commands of a
//! reservation.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Kind, LineStep, Plan, each};
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::for_stores::Line;
use sluicegate_core::{Decision, Error, HoldId, Operation, Receipt, Request, Span};

use crate::scripted::{MAX_CLOCK_BACK, Scripted};

const START: u64 = 1_699_920_000_000_000;
const SUBJECT: &[u8] = b"alice";
const CLOCK: Clock = Clock::Own { max_clock_back_us: MAX_CLOCK_BACK };

/// Compares complete decisions, and whether a receipt has a queue position.
#[test]
fn the_scripts_hand_turns_on_as_the_kernels_do() {
    let mut taken_in_all = 0;
    for (name, clock) in [("injected", Clock::Injected), ("own", CLOCK)] {
        each(&format!("scripts with lines, {name}"), 400, |seed| {
            let kinds = Kind::RESERVABLE.to_vec();
            // States written under other numbers have other bytes.
            let may_renumber = false;
            let plan = Plan { kinds, clock, max_policies: 3, may_renumber, ..Plan::default() };
            let schedule = plan.line_schedule(seed);
            let mut scripted = Scripted::new(schedule.policies.clone(), clock);
            let mut kernels = Kernels::new(schedule.policies.clone(), clock);
            scripted.expires = false;
            let mut receipts: HashMap<usize, [Receipt; 2]> = HashMap::new();
            for (index, step) in schedule.steps.iter().enumerate() {
                match step {
                    LineStep::SetPolicies(policies) => {
                        scripted.set_policies(policies.clone());
                        kernels.set_policies(policies.clone());
                    }
                    LineStep::Ask { now_us, key, operation, id, .. } => {
                        let (operation, costs) = operation.for_store();
                        let asked = Request::new(operation, key).costs(costs);
                        let asked = match id {
                            Some(id) => asked.in_line_as(id),
                            None => asked.with_receipt(),
                        };
                        let mut both =
                            [scripted.ask(*now_us, &asked), kernels.ask(*now_us, &asked)];
                        let [got, expected] = both
                            .each_mut()
                            .map(|it| it.as_mut().ok().and_then(Decision::take_receipt));
                        let [place, expected_place] =
                            [&got, &expected].map(|it| it.as_ref().map(Receipt::place));
                        assert_eq!(place, expected_place, "step {index}\n{schedule}");
                        if let Some(both) = got.zip(expected) {
                            let (has_place, changes) = (both.0.place(), both.0.parts());
                            let is_taken = has_place.is_some() && changes[0].change.is_none();
                            taken_in_all += u64::from(is_taken);
                            receipts.insert(index, both.into());
                        }
                        match &both {
                            [Ok(got), Ok(expected)] => {
                                assert_eq!(got, expected, "step {index}\n{schedule}");
                            }
                            [Err(Error::Request(got)), Err(Error::Request(expected))] => {
                                assert_eq!(got.kind(), expected.kind(), "step {index}\n{schedule}");
                            }
                            _ => panic!("step {index}: {both:?}\n{schedule}"),
                        }
                    }
                    LineStep::Cancel { now_us, reserved_at, .. } => {
                        let [got, expected] = &receipts[reserved_at];
                        let got = scripted.ask(*now_us, &Request::cancel(got)).unwrap();
                        let expected = kernels.ask(*now_us, &Request::cancel(expected)).unwrap();
                        assert_eq!(got, expected, "step {index}\n{schedule}");
                    }
                }
            }
        });
    }
    assert!(taken_in_all > 200, "{taken_in_all} turns were taken");
}

fn id(number: u64) -> HoldId {
    HoldId::from_bytes(u128::from(number).to_be_bytes())
}

fn reserve(scripted: &mut Scripted, now: u64, name: HoldId) -> Decision {
    let within = Span::from_micros(1_000_000_000).unwrap();
    let asked = Request::new(Operation::Reserve { within }, SUBJECT).in_line_as(&name);
    scripted.ask(now, &asked).unwrap()
}

/// Tests that the soonest 64 of 100 released turns are kept, and that they expire.
#[test]
fn a_line_keeps_so_many_turns_the_soonest_and_lives_no_longer_than_twice_its_wait() {
    let mut scripted = Scripted::new(vec!["gcra 10/s burst 1".parse().unwrap()], CLOCK);
    let reserved: Vec<Decision> =
        (0..102).map(|number| reserve(&mut scripted, START, id(number))).collect();
    let receipts: Vec<Receipt> =
        reserved.into_iter().filter_map(|mut decision| decision.take_receipt()).collect();
    let mut given_back = 0;
    for receipt in receipts[1..101].iter().rev() {
        let cancelled = scripted.ask(START, &Request::cancel(receipt)).unwrap();
        given_back += usize::from(cancelled.is_allowed());
        let again = scripted.ask(START, &Request::cancel(receipt)).unwrap();
        assert!(!again.is_allowed(), "a reservation is cancelled once");
    }
    assert_eq!(given_back, 100, "each is sooner than those before it");
    let line = scripted.line(SUBJECT).unwrap();
    assert_eq!(line.members.len(), Line::TURNS + 1, "and one who still waits");
    let expires = line.expires_ms.unwrap() * 1_000;
    assert!((START + 10_100_000..=START + 20_300_000).contains(&expires), "{expires}");
    for turn in 1..=64 {
        let wait = reserve(&mut scripted, START, id(1_000 + turn)).wait();
        assert_eq!(wait, Duration::from_millis(turn * 100), "turn {turn}");
    }
    assert_eq!(Span::from(reserve(&mut scripted, START, id(2_000)).wait()).as_micros(), 10_200_000);
}

/// Tests that an id used by two reservations cancels neither, because it is ambiguous.
#[test]
fn a_name_that_two_reservations_have_cancels_neither() {
    let policies = ["gcra 10/s burst 1 as a", "gcra 10/s burst 1 as b"];
    let mut scripted = Scripted::new(policies.map(|spec| spec.parse().unwrap()).to_vec(), CLOCK);
    let mut receipts = [[1, 0], [0, 1], [1, 0], [0, 1]].map(|costs| {
        let asked = Request::new(Operation::Reserve { within: Span::HOUR }, SUBJECT);
        let name = id(7);
        let asked = asked.costs(sluicegate_core::Costs::Each(&costs)).in_line_as(&name);
        scripted.ask(START, &asked).unwrap().take_receipt().unwrap()
    });
    let [.., one, other] = receipts.each_mut();
    assert!(one.place().is_some());
    assert_eq!(one.place(), other.place());
    for receipt in [one, other] {
        let cancelled = scripted.ask(START, &Request::cancel(receipt)).unwrap();
        assert!(!cancelled.is_allowed());
    }
}
