//! The straight path: a check against a limit whose only policy is an enforced bucket.

use tollgate_core::kernel::{Ask, Times};
use tollgate_core::{Decision, Notes, Span, StoreError};

use crate::cell::BucketCell;
use crate::fingerprint::Fingerprint;
use crate::handle::SeatOf;
use crate::lock::Guard;
use crate::registry::{Full, Registry};
use crate::shard::Shard;

/// Answers a check; the same as [`tollgate_core::evaluate`] would.
#[inline]
pub(crate) fn check(
    registry: &Registry,
    seat: &SeatOf<BucketCell>,
    fingerprint: Fingerprint,
    cost: u64,
    times: Times,
) -> Result<Decision, StoreError> {
    let SeatOf { table, rule, tag, .. } = seat;
    let mut shard = table.lock(fingerprint);
    let found = shard.find(fingerprint);
    let state = match found {
        Ok(index) => Some(shard.cell(index).read(*tag, rule.unit(), table.scales())),
        Err(_) => None,
    };
    let (mut standing, restamped) = rule.stand(state, times)?;
    let ask = rule.ask(&standing, cost, None);
    if let Ask::Pass { wait } = ask {
        let before = standing;
        rule.admit(&mut standing, cost, wait, wait)?;
        let cell = BucketCell::write(rule.state(&standing), *tag);
        match found {
            Ok(index) => *shard.cell_mut(index) = cell,
            Err(_) => {
                if let Err(full) = first(registry, seat, shard, fingerprint, cell, times) {
                    return Ok(turned_away(Decision::of_bucket(rule, &before, cost, ask), full));
                }
                return Ok(Decision::of_bucket(rule, &standing, cost, ask));
            }
        }
    } else if let Ok(index) = found
        && restamped
    {
        // The one thing that is written on a denial too.
        *shard.cell_mut(index) = BucketCell::write(rule.state(&standing), *tag);
    }
    // What is left is arithmetic: nobody should wait for it.
    drop(shard);
    let mut decision = Decision::of_bucket(rule, &standing, cost, ask);
    if restamped {
        decision.set_notes(Notes { restamped, ..Notes::default() });
    }
    Ok(decision)
}

/// Keeps the state of a key that is new.
#[cold]
#[inline(never)]
fn first(
    registry: &Registry,
    seat: &SeatOf<BucketCell>,
    mut shard: Guard<'_, Shard<BucketCell>>,
    fingerprint: Fingerprint,
    cell: BucketCell,
    times: Times,
) -> Result<(), Full> {
    registry.make_room(&seat.table, &mut shard, times.now)?;
    seat.table.insert(&mut shard, fingerprint, cell, times.now);
    Ok(())
}

#[cold]
fn turned_away(mut decision: Decision, full: Full) -> Decision {
    decision.turn_away_for_room(Span::from_micros(full.retry).unwrap_or(Span::MAX));
    decision
}
