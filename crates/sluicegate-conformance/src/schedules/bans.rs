//! Random bans.

use std::time::Duration;

use sluicegate_core::{Ban, Rate};

use super::Dice;
use crate::reference::Model;

/// Returns a random rule for bans: after 1 to 3 denials, at first for 1 s to 1 h.
#[must_use]
#[expect(clippy::expect_used, reason = "a test that builds an invalid ban must fail")]
pub fn random_ban(dice: &mut Dice) -> Ban {
    let time = Duration::from_micros;
    let lengths = [1_000_000, 7_000_001, 60_000_000, 3_600_000_000];
    let denials = dice.pick(&[1, 1, 2, 2, 3]);
    let after = Rate::new(denials, time(dice.pick(&lengths))).expect("a rate above 0");
    let lasts = dice.pick(&lengths);
    let ban = Ban::new(after, time(lasts)).expect("a ban in range");
    let ban = if dice.one_in(2) { ban } else { ban.doubling() };
    let up_to = lasts * dice.pick(&[1, 2, 3, 8, 24]);
    ban.with_up_to(time(up_to)).expect("a ban in range")
}

/// Returns a time at or within 1 µs of a change in the model's ban, in 1 of 8 cases.
pub(super) fn edge(dice: &mut Dice, model: &Model) -> Option<u64> {
    let edges = model.ban_edges(b"a");
    if edges.is_empty() || !dice.one_in(8) {
        return None;
    }
    Some(dice.pick(&edges) + dice.below(3) - 1)
}
