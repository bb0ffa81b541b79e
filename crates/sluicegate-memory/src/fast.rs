//! The fast path: checks against a limit whose only policy is an enforced bucket.

use sluicegate_core::kernel::{Admission, Kernel as _, Now, Verdict, bucket};
use sluicegate_core::{Decision, Error, Limit, OpenedLimit as _, Request, Span};

use crate::cell::BucketCell;
use crate::fingerprint::Fingerprint;
use crate::general;
use crate::opened::MemoryLimit;
use crate::registry::{Full, Registry};
use crate::seat::SeatOf;
use crate::shard::Shard;

/// Answers a check; the same as [`sluicegate_core::step`] would. What is rare is left to the
/// general path: to restamp a state, and to wait for room.
#[inline]
pub(crate) fn check(
    opened: &MemoryLimit,
    seat: &SeatOf<BucketCell>,
    request: &Request<'_>,
    fingerprint: Fingerprint,
    cost: u64,
    now: Now,
) -> Result<Decision, Error> {
    let SeatOf { table, rule, tag, .. } = seat;
    let mut shard = table.lock(fingerprint);
    let found = shard.find(fingerprint);
    let state = match found {
        Ok(index) => Some(shard.cell(index).read(*tag, rule.unit(), table.scales())),
        Err(_) => None,
    };
    let (mut balance, restamped) = rule.balance(state, now)?;
    if restamped {
        drop(shard);
        return general::decide(opened, request, fingerprint, now);
    }
    let verdict = rule.judge(&balance, cost, None);
    if let Verdict::Pass { wait } = verdict {
        rule.admit(&mut balance, Admission { cost, wait, act_in: wait })?;
        let cell = BucketCell::write(rule.kept(&balance), *tag);
        match found {
            Ok(index) => *shard.cell_mut(index) = cell,
            Err(_) => {
                let registry = opened.registry();
                if let Err(full) = first(registry, seat, &mut shard, fingerprint, cell, now) {
                    drop(shard);
                    if registry.evicts() {
                        return general::decide(opened, request, fingerprint, now);
                    }
                    return turn_away(opened.limit(), rule, cost, verdict, now, full);
                }
            }
        }
    }
    // No lock has to be held for the arithmetic of an answer.
    drop(shard);
    Ok(Decision::of_bucket(opened.limit(), rule, &balance, cost, verdict))
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
    now: Now,
) -> Result<(), Full> {
    registry.make_room(&seat.table, shard, now.micros)?;
    seat.table.insert(shard, fingerprint, cell, now.micros);
    Ok(())
}

/// The answer to a new key that there is no room for.
#[cold]
fn turn_away(
    limit: &Limit,
    rule: &bucket::Bucket,
    cost: u64,
    verdict: Verdict,
    now: Now,
    full: Full,
) -> Result<Decision, Error> {
    let (fresh, _) = rule.balance(None, now)?;
    let mut decision = Decision::of_bucket(limit, rule, &fresh, cost, verdict);
    decision.turn_away_for_room(Span::from_micros(full.retry).unwrap_or(Span::MAX));
    Ok(decision)
}
