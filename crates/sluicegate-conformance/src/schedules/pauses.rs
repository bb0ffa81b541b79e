//! Random pauses.

use sluicegate_core::MAX_EXACT;

use super::Dice;
use crate::reference::{Model, Operation};

/// Returns a random pause, or the end of one, of a limit with this many policies.
pub(super) fn random_pause(dice: &mut Dice, policies: usize) -> Operation {
    let policy = dice.one_in(2).then(|| dice.below_len(policies));
    if dice.one_in(3) {
        return Operation::Resume { policy };
    }
    let lengths = [1_000, 700_001, 2_000_000, 2_000_000, 60_000_000, 3_600_000_000];
    let lasts_us = if dice.one_in(12) { MAX_EXACT } else { dice.pick(&lengths) };
    Operation::Pause { lasts_us, policy }
}

/// Returns a time at or within 1 µs of the end of one of the model's pauses, in 1 of 8 cases.
pub(super) fn edge(dice: &mut Dice, model: &Model) -> Option<u64> {
    let edges = model.pause_edges(b"a");
    if edges.is_empty() || !dice.one_in(8) {
        return None;
    }
    Some(dice.pick(&edges) + dice.below(3) - 1)
}
