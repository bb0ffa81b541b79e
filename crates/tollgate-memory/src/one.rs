//! The straight path: checks against a limit whose only policy is an enforced bucket.

use tollgate_core::kernel::{Ask, Overflow, Times, bucket};
use tollgate_core::{Decision, Notes, Span, StoreError};

use crate::cell::BucketCell;
use crate::fingerprint::Fingerprint;
use crate::handle::SeatOf;
use crate::registry::{Full, Registry};
use crate::shard::Shard;

/// What came of a check, before it is put into words: that is arithmetic that no lock has to be
/// held for.
pub(crate) struct Judged {
    /// After the charge.
    standing: bucket::Standing,
    ask: Ask,
    cost: u64,
    restamped: bool,
    full: Option<Full>,
}

/// Answers a check; the same as [`tollgate_core::evaluate`] would. `general` is the general path,
/// which can wait for room.
#[inline]
pub(crate) fn check(
    registry: &Registry,
    seat: &SeatOf<BucketCell>,
    fingerprint: Fingerprint,
    cost: u64,
    times: Times,
    general: impl FnOnce() -> Result<Decision, StoreError>,
) -> Result<Decision, StoreError> {
    let mut shard = seat.table.lock(fingerprint);
    let judged = judge(registry, seat, &mut shard, fingerprint, cost, times)?;
    drop(shard);
    if judged.full.is_some() && registry.evicts() {
        return general();
    }
    Ok(judged.into_decision(&seat.rule))
}

/// Judges a check in the locked shard of its key, and charges it there if it passes.
#[inline]
pub(crate) fn judge(
    registry: &Registry,
    seat: &SeatOf<BucketCell>,
    shard: &mut Shard<BucketCell>,
    fingerprint: Fingerprint,
    cost: u64,
    times: Times,
) -> Result<Judged, Overflow> {
    let SeatOf { table, rule, tag, .. } = seat;
    let found = shard.find(fingerprint);
    let state = match found {
        Ok(index) => Some(shard.cell(index).read(*tag, rule.unit(), table.scales())),
        Err(_) => None,
    };
    let (mut standing, mut restamped) = rule.stand(state, times)?;
    if restamped && let Some(times) = registry.catch_up(times) {
        (standing, restamped) = rule.stand(state, times)?;
    }
    let ask = rule.ask(&standing, cost, None);
    let mut full = None;
    if let Ask::Pass { wait } = ask {
        let before = standing;
        rule.admit(&mut standing, cost, wait, wait)?;
        let cell = BucketCell::write(rule.state(&standing), *tag);
        match found {
            Ok(index) => *shard.cell_mut(index) = cell,
            Err(_) => {
                if let Err(no_room) = first(registry, seat, shard, fingerprint, cell, times) {
                    (standing, full) = (before, Some(no_room));
                }
            }
        }
    } else if let Ok(index) = found
        && restamped
    {
        // The one thing that is written on a denial too.
        *shard.cell_mut(index) = BucketCell::write(rule.state(&standing), *tag);
    }
    Ok(Judged { standing, ask, cost, restamped, full })
}

impl Judged {
    /// The answer in words.
    #[inline]
    pub(crate) fn into_decision(self, rule: &bucket::Bucket) -> Decision {
        let mut decision = Decision::of_bucket(rule, &self.standing, self.cost, self.ask);
        if self.restamped || self.full.is_some() {
            self.note(&mut decision);
        }
        decision
    }

    #[cold]
    fn note(&self, decision: &mut Decision) {
        decision.set_notes(Notes { restamped: self.restamped, ..Notes::default() });
        if let Some(full) = self.full {
            decision.turn_away_for_room(Span::from_micros(full.retry).unwrap_or(Span::MAX));
        }
    }
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
