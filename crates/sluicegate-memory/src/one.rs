//! The straight path: checks against a limit whose only policy is an enforced bucket.

use sluicegate_core::kernel::{Ask, Times, bucket};
use sluicegate_core::{Decision, Span, StoreError};

use crate::cell::BucketCell;
use crate::fingerprint::Fingerprint;
use crate::handle::SeatOf;
use crate::registry::{Full, Registry};
use crate::shard::Shard;

/// Answers a check; the same as [`sluicegate_core::evaluate`] would. What is rare is left to
/// `general`: to restamp a state, and to wait for room.
#[inline]
pub(crate) fn check(
    registry: &Registry,
    seat: &SeatOf<BucketCell>,
    fingerprint: Fingerprint,
    cost: u64,
    times: Times,
    general: impl FnOnce() -> Result<Decision, StoreError>,
) -> Result<Decision, StoreError> {
    let SeatOf { table, rule, tag, .. } = seat;
    let mut shard = table.lock(fingerprint);
    let found = shard.find(fingerprint);
    let state = match found {
        Ok(index) => Some(shard.cell(index).read(*tag, rule.unit(), table.scales())),
        Err(_) => None,
    };
    let (mut standing, restamped) = rule.stand(state, times)?;
    if restamped {
        drop(shard);
        return general();
    }
    let ask = rule.ask(&standing, cost, None);
    if let Ask::Pass { wait } = ask {
        rule.admit(&mut standing, cost, wait, wait)?;
        let cell = BucketCell::write(rule.state(&standing), *tag);
        match found {
            Ok(index) => *shard.cell_mut(index) = cell,
            Err(_) => {
                if let Err(full) = first(registry, seat, &mut shard, fingerprint, cell, times) {
                    drop(shard);
                    if registry.evicts() {
                        return general();
                    }
                    return turn_away(rule, cost, ask, times, full);
                }
            }
        }
    }
    // No lock has to be held for the arithmetic of an answer.
    drop(shard);
    Ok(Decision::of_bucket(rule, &standing, cost, ask))
}

/// Keeps the state of a key that is new.
#[cold]
#[inline(never)]
fn first(
    registry: &Registry,
    seat: &SeatOf<BucketCell>,
    shard: &mut Shard<BucketCell>,
    fingerprint: Fingerprint,
    cell: BucketCell,
    times: Times,
) -> Result<(), Full> {
    registry.make_room(&seat.table, shard, times.now)?;
    seat.table.insert(shard, fingerprint, cell, times.now);
    Ok(())
}

/// The answer to a new key that there is no room for.
#[cold]
fn turn_away(
    rule: &bucket::Bucket,
    cost: u64,
    ask: Ask,
    times: Times,
    full: Full,
) -> Result<Decision, StoreError> {
    let (fresh, _) = rule.stand(None, times)?;
    let mut decision = Decision::of_bucket(rule, &fresh, cost, ask);
    decision.turn_away_for_room(Span::from_micros(full.retry).unwrap_or(Span::MAX));
    Ok(decision)
}
