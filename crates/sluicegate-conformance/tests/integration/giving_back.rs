//! Tests that a key that gave units back never admits more than a key that never took them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use sluicegate_conformance::schedules::{Dice, Kind, Numbers, each, random_policy};
use sluicegate_core::for_stores::{Now, Stored, step};
use sluicegate_core::{
    Algorithm, Costs, Decision, Limit, Operation, Policy, Request, Start, Timestamp, Window,
};

const START: u64 = 1_699_920_000_000_000;

/// A key under one policy.
#[derive(Clone)]
struct Key {
    limit: Limit,
    held: Vec<Option<Stored>>,
}

impl Key {
    fn new(policy: Policy) -> Self {
        Self { limit: Limit::new("l", vec![policy]).unwrap(), held: vec![None] }
    }

    fn ask(&mut self, at: u64, operation: Operation<'_>, units: u64) -> Decision {
        let costs = [units];
        let request = Request::new(operation, b"k").costs(Costs::Each(&costs));
        let now = Now { micros: at, max_clock_back: None };
        step(&self.limit, &request, now, &mut self.held).unwrap().decision
    }

    fn give_back(&mut self, at: u64, taken: &Decision, units: u64) {
        let taken_at = taken.taken_at().unwrap();
        let _ = self.ask(at, Operation::GiveBack { taken_at }, units);
    }

    fn remaining(&self, at: u64) -> u64 {
        self.clone().ask(at, Operation::Peek, 1).remaining().unwrap_or(u64::MAX)
    }
}

/// Returns `true` if later requests may already wait behind the units, so that none are given back.
fn keeps_all(policy: &Policy) -> bool {
    matches!(
        policy.algorithm(),
        Algorithm::Shaper { .. } | Algorithm::Smooth { .. } | Algorithm::WarmUp { .. }
    )
}

fn random(dice: &mut Dice) -> Policy {
    let kind = dice.pick(&Kind::ALL);
    random_policy(dice, kind, Numbers::Small)
}

#[test]
fn what_is_given_back_is_never_more_than_what_was_taken_withholds() {
    each("giving_back_never_more", 4_000, |seed| {
        let mut dice = Dice::new(seed);
        let policy = random(&mut dice);
        let mut now = START + dice.below(10_000_000_000);
        let mut with = Key::new(policy.clone());
        let others = |dice: &mut Dice, now: &mut u64, keys: &mut [&mut Key]| {
            for _ in 0..dice.below(5) {
                *now += dice.pick(&[0, 1, 1_000, 50_000, 700_000, 20_000_000]);
                let units = dice.between(1, 4);
                keys.iter_mut().for_each(|key| drop(key.ask(*now, Operation::Charge, units)));
            }
        };
        if policy.quota().units == 0 {
            return;
        }
        others(&mut dice, &mut now, &mut [&mut with]);
        let mut without = with.clone();
        let units = dice.between(1, 4);
        let taken = with.ask(now, Operation::Check, units);
        if taken.is_denied() {
            assert_eq!(taken.taken_at(), None);
            return;
        }
        let mut kept = with.clone();
        others(&mut dice, &mut now, &mut [&mut with, &mut without, &mut kept]);
        now += dice.pick(&[0, 1, 100_000, 2_000_000]);
        with.give_back(now, &taken, units);
        // A window that the request opened continues, so it ends earlier than a later one. A used
        // key fills up, while an unused one stays empty.
        let begins = matches!(
            policy.algorithm(),
            Algorithm::FixedWindow { window: Window::FirstAdmitted(_), .. }
                | Algorithm::Smooth { start: Start::Empty, .. }
        );
        for later in [0, 1, 999, 30_000, 400_000, 3_000_000, 90_000_000, 4_000_000_000] {
            let at = now + later;
            let [with, without, kept] = [&with, &without, &kept].map(|key| key.remaining(at));
            assert!(with <= without || begins, "{policy}: {with} of {without} after {later} µs");
            assert!(with >= kept, "{policy}: {with}, but {kept} if it had been kept");
            if keeps_all(&policy) {
                assert_eq!(with, kept, "{policy}");
            }
        }
    });
}

#[test]
fn what_is_given_back_at_once_is_as_if_it_had_not_been_taken() {
    each("giving_back_at_once", 1_000, |seed| {
        let mut dice = Dice::new(seed);
        let policy = random(&mut dice);
        if keeps_all(&policy) || policy.quota().units == 0 {
            return;
        }
        let mut key = Key::new(policy.clone());
        let _ = key.ask(START, Operation::Check, 1);
        let now = START + dice.below(3_000_000);
        let before = key.remaining(now);
        let taken = key.ask(now, Operation::Check, 1);
        if taken.is_allowed() {
            let _ = key.ask(now, Operation::Charge, 2);
            key.give_back(now, &taken, 1);
            assert_eq!(key.remaining(now), before.saturating_sub(2), "{policy}");
        }
    });
}

#[test]
fn a_time_at_which_nothing_was_taken_gives_nothing_back() {
    for spec in ["sliding_log 5/h", "sliding_window 5/h slices 60", "fixed_window 5/h"] {
        let mut key = Key::new(spec.parse().unwrap());
        let _ = key.ask(START, Operation::Charge, 3);
        for taken_at in [START - 3_600_000_000, START + 120_000_000] {
            let taken_at = Timestamp::from_micros_clamped(taken_at);
            let _ = key.ask(START + 60_000_000, Operation::GiveBack { taken_at }, 3);
            assert_eq!(key.remaining(START + 60_000_000), 2, "{spec} at {taken_at:?}");
        }
    }
}
