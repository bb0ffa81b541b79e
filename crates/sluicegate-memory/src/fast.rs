//! The fast path: checks against a limit whose only policy is an enforced bucket.

use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::kernel::bucket::{Balance, Bucket};
use sluicegate_core::kernel::{Charge, Kernel as _, Now, Overflow, Verdict};
use sluicegate_core::{Cost, Costs, Decision, Error, Limit, Request, Timestamp};

use crate::budget::Room;
use crate::cell::BucketCell;
use crate::fingerprint::Fingerprint;
use crate::general;
use crate::opened::MemoryLimit;
use crate::opened_policy::OpenedPolicy;
use crate::registry::{Full, Place, Registry};
use crate::shard::Shard;
use crate::table::Table;

/// A check that a bucket has evaluated, and charged if it passed.
pub(crate) struct Judged {
    balance: Balance,
    cost: Cost,
    verdict: Verdict,
}

/// A reason why a check was not evaluated; nothing has changed.
#[derive(Clone, Copy)]
pub(crate) enum Rare {
    /// The state must be restamped, is counted in the ticks of another rate, or has a second bound.
    State,
    Overflow(Overflow),
    /// The store is full, and the key is new.
    Full(Full, Verdict),
}

impl Judged {
    /// Returns the decision. Its arithmetic needs no lock.
    #[inline]
    pub(crate) fn decision(&self, limit: &Limit, rule: &Bucket) -> Decision {
        Decision::of_one(limit, rule, &self.balance, self.cost.get(), self.verdict)
    }
}

/// Answers a check, with the same result as [`sluicegate_core::for_stores::step`]. The general path
/// handles the rare cases: pauses, restamping a state, and waiting for capacity.
pub(crate) fn check(
    opened: &MemoryLimit,
    policy: &OpenedPolicy<BucketCell>,
    key: &[u8],
    cost: Cost,
    given: Option<Timestamp>,
) -> Result<Decision, Error> {
    let fingerprint = opened.store().fingerprint(key);
    let mut shard = policy.table.lock(fingerprint);
    let now = opened.now(given);
    if opened.may_be_paused(now) {
        drop(shard);
        return decide_generally(opened, key, fingerprint, cost, given);
    }
    let judged = judge(policy, &mut shard, fingerprint, cost, now, |shard, cell| {
        keep_first(opened.registry(), policy, shard, fingerprint, cell, now)
    });
    drop(shard);
    match judged {
        Ok(judged) => Ok(judged.decision(opened.limit(), &policy.rule)),
        Err(Rare::Overflow(overflow)) => Err(overflow.into()),
        Err(Rare::Full(full, verdict)) if !full.may_wait => {
            turn_away(opened.limit(), &policy.rule, cost, verdict, now, full)
        }
        Err(Rare::State | Rare::Full(..)) => {
            decide_generally(opened, key, fingerprint, cost, given)
        }
    }
}

/// Evaluates a check in a locked shard and stores the changed state. `keep_first` stores the state
/// of a new key.
#[inline(always)]
pub(crate) fn judge(
    policy: &OpenedPolicy<BucketCell>,
    shard: &mut Shard<BucketCell>,
    fingerprint: Fingerprint,
    cost: Cost,
    now: Now,
    keep_first: impl FnOnce(&mut Shard<BucketCell>, BucketCell) -> Result<(), Full>,
) -> Result<Judged, Rare> {
    let OpenedPolicy { table, rule, tag, .. } = policy;
    let found = shard.find(fingerprint);
    let state = match found {
        Ok(index) => {
            let state = shard.cell(index).read(*tag, rule.unit(), table.scales());
            Some(state.ok_or(Rare::State)?)
        }
        Err(_) => None,
    };
    let (mut balance, restamped) = rule.balance(state, now).map_err(Rare::Overflow)?;
    if restamped || !balance.is_in_its_scale() {
        return Err(Rare::State);
    }
    let verdict = rule.judge(&balance, cost.get(), None);
    if let Verdict::Pass { wait } = verdict {
        let charge = Charge::Admitted { cost: cost.get(), act_in: wait };
        rule.charge(&mut balance, charge).map_err(Rare::Overflow)?;
        let cell = BucketCell::write(rule.kept(&balance), *tag);
        match found {
            Ok(index) => *shard.cell_mut(index) = cell,
            Err(_) => keep_first(shard, cell).map_err(|full| Rare::Full(full, verdict))?,
        }
    }
    Ok(Judged { balance, cost, verdict })
}

#[cold]
fn decide_generally(
    opened: &MemoryLimit,
    key: &[u8],
    fingerprint: Fingerprint,
    cost: Cost,
    given: Option<Timestamp>,
) -> Result<Decision, Error> {
    let request = Request::check(key).costs(Costs::Same(cost));
    general::decide(opened, &request, fingerprint, given)
}

/// Stores the state of a new key.
#[cold]
#[inline(never)]
fn keep_first(
    registry: &Registry,
    policy: &OpenedPolicy<BucketCell>,
    shard: &mut Shard<BucketCell>,
    fingerprint: Fingerprint,
    cell: BucketCell,
    now: Now,
) -> Result<(), Full> {
    let mut room = Room::none(registry.budget());
    let (table, needed) = (&*policy.table, Table::<BucketCell>::FIRST_LOAD);
    registry.make_room(Place { table, shard, fingerprint }, now.micros, &mut room, needed)?;
    room.spend(needed);
    table.insert(shard, fingerprint, cell, now.micros);
    Ok(())
}

/// Answers a check of a new key that doesn't fit.
#[cold]
fn turn_away(
    limit: &Limit,
    rule: &Bucket,
    cost: Cost,
    verdict: Verdict,
    now: Now,
    full: Full,
) -> Result<Decision, Error> {
    let (fresh, _) = rule.balance(None, now)?;
    let mut decision = Decision::of_one(limit, rule, &fresh, cost.get(), verdict);
    decision.turn_away_for_room(full.retry_after());
    Ok(decision)
}
