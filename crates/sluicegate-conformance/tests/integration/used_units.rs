//! Tests of holds that are settled for less than they took.
//!
//! Over any interval, the used units never exceed the limit, each counted at the time of its hold.
//! The tests also measure the used share of the limit.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_conformance::kernels::Kernels;
use sluicegate_conformance::reference::Clock;
use sluicegate_conformance::schedules::{Dice, each};
use sluicegate_core::{
    Costs, Hold, HoldFound, HoldId, Operation, Policy, Request, RetryAfter, Span,
};

use bounds::{Defect, TwoBounds};

mod bounds;

const START: u64 = 1_699_920_000_000_000;
const SECOND: u64 = 1_000_000;
const SUBJECT: &[u8] = b"alice";
const CLOCK: Clock = Clock::Own { max_clock_back_us: 5_000_000 };

/// A bucket of `burst` units. A unit costs `per_unit` ticks; `per_micro` ticks drain per µs.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    burst: u64,
    per_unit: u64,
    per_micro: u64,
}

impl Bucket {
    /// Fills an ideal bucket with the used units. Returns the maximum excess in ticks.
    fn excess(self, mut used: Vec<(u64, u64)>) -> u64 {
        used.sort_unstable();
        let (mut level, mut last, mut excess) = (0_u64, 0, 0);
        for (at, units) in used {
            level = level.saturating_sub((at - last) * self.per_micro) + units * self.per_unit;
            last = at;
            excess = excess.max(level.saturating_sub(self.burst * self.per_unit));
        }
        excess
    }
}

fn id(number: u64) -> HoldId {
    HoldId::from_bytes((u128::from(number) << 64 | 7).to_be_bytes())
}

/// Returns the used units per minute of a bucket of 100,000 per minute that always has waiting
/// requests. Each request estimates 4,000 units and settles for 500 after `lasts`.
fn used_a_minute(lasts: u64) -> u64 {
    let mut kernels = Kernels::new(vec!["token_bucket 100000/min".parse().unwrap()], CLOCK);
    let (mut now, mut number) = (START, 0);
    let mut held: VecDeque<(u64, HoldId)> = VecDeque::new();
    let mut used = Vec::new();
    let finish = START + 12 * 60 * SECOND;
    while now < finish {
        number += 1;
        let hold = Hold { id: id(number), lasts: Duration::from_micros(60 * SECOND) };
        let request = Request::check(SUBJECT).costs(Costs::Each(&[4_000])).hold(&hold);
        let decision = kernels.ask(now, &request).unwrap();
        if decision.is_allowed() {
            used.push((now, 500));
            held.push_back((now + lasts, hold.id));
            continue;
        }
        let RetryAfter::After(retry) = decision.retry_after() else { panic!("it never passes") };
        now += Span::from(retry).as_micros();
        if let Some((due, id)) = held.front().copied().filter(|(due, _)| *due <= now) {
            now = due;
            held.pop_front();
            let _ = kernels.ask(now, &Request::settle(SUBJECT, id, &[Some(500)])).unwrap();
        }
    }
    let bucket = Bucket { burst: 100_000, per_unit: 600, per_micro: 1 };
    assert_eq!(bucket.excess(used.clone()), 0);
    // Without the first two minutes, which include the burst.
    let late = used.iter().filter(|(at, _)| *at >= START + 120 * SECOND);
    late.map(|(_, units)| units).sum::<u64>() / 10
}

#[test]
fn estimates_that_are_settled_late_leave_most_of_the_limit_to_others() {
    let (long, short) = (used_a_minute(20 * SECOND), used_a_minute(SECOND));
    println!(
        "of 100,000 units a minute are used: {long} in holds of 20 s, {short} in holds of 1 s"
    );
    assert!(long >= 30_000, "{long}");
    assert!(short >= 60_000, "{short}");
}

/// A bucket that can be audited.
trait Target {
    /// Takes units, if that many are free.
    fn take(&mut self, now: u64, units: u64) -> bool;
    /// Takes units and holds them.
    fn hold(&mut self, now: u64, number: u64, units: u64, lasts: u64) -> bool;
    /// Settles a hold. Returns whether it was unsettled.
    fn settle(&mut self, now: u64, number: u64, used: u64) -> bool;
    fn renew(&mut self, now: u64, number: u64, lasts: u64);
}

impl Target for TwoBounds {
    fn take(&mut self, now: u64, units: u64) -> bool {
        Self::take(self, now, units)
    }

    fn hold(&mut self, now: u64, number: u64, units: u64, lasts: u64) -> bool {
        Self::hold(self, now, number, units, lasts)
    }

    fn settle(&mut self, now: u64, number: u64, used: u64) -> bool {
        Self::settle(self, now, number, used)
    }

    fn renew(&mut self, now: u64, number: u64, lasts: u64) {
        Self::renew(self, now, number, lasts);
    }
}

impl Target for Kernels {
    fn take(&mut self, now: u64, units: u64) -> bool {
        let decision = self.decide(now, SUBJECT, Operation::Check, Costs::Each(&[units]));
        decision.unwrap().is_allowed()
    }

    fn hold(&mut self, now: u64, number: u64, units: u64, lasts: u64) -> bool {
        let (hold, costs) = (Hold { id: id(number), lasts: Duration::from_micros(lasts) }, [units]);
        let request = Request::check(SUBJECT).costs(Costs::Each(&costs)).hold(&hold);
        self.ask(now, &request).unwrap().is_allowed()
    }

    fn settle(&mut self, now: u64, number: u64, used: u64) -> bool {
        let used = [Some(used)];
        let request = Request::settle(SUBJECT, id(number), &used);
        self.ask(now, &request).unwrap().hold_found() == Some(HoldFound::Live)
    }

    fn renew(&mut self, now: u64, number: u64, lasts: u64) {
        let _ = self
            .ask(now, &Request::renew(SUBJECT, id(number), Span::from_micros(lasts).unwrap()))
            .unwrap();
    }
}

/// Sends random requests. Returns by how many ticks the used units exceed the bucket.
fn audit(seed: u64, bucket: Bucket, target: &mut impl Target) -> u64 {
    let mut dice = Dice::new(seed);
    let mut now = START;
    let mut used: Vec<(u64, u64)> = Vec::new();
    // Each hold's number, its units, and the index at which they are counted.
    let mut holds: Vec<(u64, u64, usize)> = Vec::new();
    let lives =
        dice.pick(&[[1_000, 5_000, 40_000], [50_000, 50_000, 50_000], [1_000, 1_000, 900_000]]);
    for number in 0..150 {
        now += dice.pick(&[0, 0, 1, 300, 5_000, 20_000, 90_000]);
        let most = if dice.one_in(3) { bucket.burst } else { bucket.burst / 3 + 1 };
        let units = dice.between(1, most);
        match dice.below(8) {
            0..3 => {
                let lasts = dice.pick(&lives);
                if target.hold(now, number, units, lasts) {
                    holds.push((number, units, used.len()));
                    used.push((now, units));
                }
            }
            3 => used.extend(target.take(now, units).then_some((now, units))),
            4 if !holds.is_empty() => {
                let (number, ..) = dice.pick(&holds);
                target.renew(now, number, dice.pick(&lives));
            }
            5..8 if !holds.is_empty() => {
                let (number, units, counted) = dice.pick(&holds);
                let really = if dice.one_in(2) { 0 } else { dice.below(units + 1) };
                if target.settle(now, number, really) {
                    used[counted].1 = really;
                }
            }
            _ => {}
        }
    }
    bucket.excess(used)
}

const BUCKETS: [(&str, Bucket); 4] = [
    ("token_bucket 100/s burst 10", Bucket { burst: 10, per_unit: 10_000, per_micro: 1 }),
    ("gcra 1000/s burst 7", Bucket { burst: 7, per_unit: 1_000, per_micro: 1 }),
    ("leaky_bucket 300/s capacity 5", Bucket { burst: 5, per_unit: 10_000, per_micro: 3 }),
    ("token_bucket 20/s burst 100", Bucket { burst: 100, per_unit: 50_000, per_micro: 1 }),
];

#[test]
fn no_interval_has_more_used_units_than_the_limit() {
    each("used_units", 2_000, |seed| {
        for (spec, bucket) in BUCKETS {
            let policy: Policy = spec.parse().unwrap();
            let mut kernels = Kernels::new(vec![policy], CLOCK);
            assert_eq!(audit(seed, bucket, &mut kernels), 0, "{spec}");
            assert_eq!(audit(seed, bucket, &mut TwoBounds::new(bucket, Defect::None)), 0, "{spec}");
        }
    });
}

/// Tests that the audit finds defects. An audit that finds nothing proves little.
#[test]
fn mistakes_in_the_bounds_are_found() {
    for defect in Defect::ALL {
        let found = (0..200).any(|seed| {
            BUCKETS
                .iter()
                .any(|(_, bucket)| audit(seed, *bucket, &mut TwoBounds::new(*bucket, defect)) > 0)
        });
        assert!(found, "{defect:?}");
    }
}
