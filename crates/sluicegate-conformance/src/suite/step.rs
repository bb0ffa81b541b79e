//! Random requests to limits of several parts.

use sluicegate_core::{Costs, Limit, Operation, Request, Span, Timestamp};

use super::timestamp;
use crate::schedules::{Dice, Kind, random_policies};

const SUBJECTS: [&[u8]; 4] = [b"a", b"b", b"", b"}\0{"];

/// The operations on states, with arguments of 0.
const OPERATIONS: [Operation<'static>; 12] = [
    Operation::Check,
    Operation::Peek,
    Operation::Reserve { within: Span::ZERO },
    Operation::Take,
    Operation::Charge,
    Operation::Refund,
    Operation::GiveBack { taken_at: Timestamp::EPOCH },
    Operation::Reset,
    Operation::Ban { lasts: Span::ZERO },
    Operation::Unban,
    Operation::Pause { lasts: Span::ZERO, policy: None },
    Operation::Resume { policy: None },
];

/// A request with all that it refers to.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) now: u64,
    pub(super) subjects: Vec<&'static [u8]>,
    pub(super) operation: Operation<'static>,
    pub(super) costs: Vec<u64>,
}

impl Step {
    /// Returns a random request to a limit, soon after `now`.
    pub(super) fn random(dice: &mut Dice, limit: &Limit, now: &mut u64) -> Self {
        *now += match dice.below(4) {
            0 => 0,
            1 => dice.below(50_000),
            2 => dice.below(2_000_000),
            _ => dice.below(60_000_000),
        };
        if dice.one_in(10) {
            *now -= dice.below(1_000_000);
        }
        let can_pause = limit.parts().len() == 1 && dice.one_in(3);
        let can_ban = limit.has_bans() && limit.parts().len() == 1;
        let others = dice.pick(&OPERATIONS);
        let operation = match if dice.one_in(2) { others } else { Operation::Check } {
            Operation::Ban { .. } | Operation::Unban if !can_ban => Operation::Check,
            Operation::Reset if dice.one_in(2) => Operation::Check,
            Operation::Ban { .. } => Operation::Ban { lasts: Span::MINUTE },
            Operation::Pause { .. } | Operation::Resume { .. } if !can_pause => Operation::Check,
            // A pause doesn't end before the last request, because a store may remove it then.
            Operation::Pause { .. } => {
                Operation::Pause { lasts: Span::DAY, policy: random_policy(dice, limit) }
            }
            Operation::Resume { .. } => Operation::Resume { policy: random_policy(dice, limit) },
            Operation::GiveBack { .. } => Operation::GiveBack {
                taken_at: timestamp(*now - dice.pick(&[0, 1, 1_000, 1_000_000]).min(*now)),
            },
            Operation::Reserve { .. } if limit.can_reserve() => {
                Operation::Reserve { within: Span::from_micros(dice.below(3_000_000)).unwrap() }
            }
            Operation::Reserve { .. } => Operation::Check,
            other => other,
        };
        let subjects = limit.parts().iter().map(|_| SUBJECTS[dice.below_len(SUBJECTS.len())]);
        let subjects = subjects.collect();
        let costs = limit.members().iter().map(|_| dice.below(4)).collect();
        Self { now: *now, subjects, operation, costs }
    }

    /// Returns the request under injected time.
    pub(super) fn request(&self) -> Request<'_> {
        let (key, also) = self.subjects.split_first().unwrap();
        let costs = Costs::Each(&self.costs);
        Request::new(self.operation, key).also(also).costs(costs).at(timestamp(self.now))
    }
}

/// Returns the index of a random policy, or `None` for all.
fn random_policy(dice: &mut Dice, limit: &Limit) -> Option<u8> {
    let policy = dice.one_in(2).then(|| dice.below_len(limit.members().len()))?;
    u8::try_from(policy).ok()
}

/// Returns `count` limits of random policies.
pub(super) fn random_parts(dice: &mut Dice, kinds: &[Kind], count: usize) -> Vec<Limit> {
    let part = |part| {
        let count = 1 + dice.below_len(3);
        let policies = random_policies(dice, kinds, count);
        Limit::new(format!("part-{part}"), policies).unwrap()
    };
    (0..count).map(part).collect()
}
