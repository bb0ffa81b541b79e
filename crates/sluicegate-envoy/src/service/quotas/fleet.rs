//! The assigned shares, for operators.

use std::collections::BTreeMap;

use super::{QuotaCounts, Shared};

/// The quotas of all limits at this replica.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuotaFleet {
    /// The numbers of all limits together.
    pub counts: QuotaCounts,
    /// The limits that have buckets, in the order of their names.
    pub limits: Vec<LimitQuotas>,
}

/// The quotas of a limit at this replica, of all its keys together.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LimitQuotas {
    /// The name of the limit.
    pub limit: String,
    /// Keys with buckets.
    pub keys: u64,
    /// Buckets with a share.
    pub assigned_buckets: u64,
    /// The rate of all keys, in requests per 1,000 seconds.
    pub rate: u64,
    /// The assigned part of the rate.
    pub assigned: u64,
    /// The rate that the demand of all buckets needs.
    pub needed: u64,
    /// The part of the rate that isn't booked by any replica, as far as this one knows.
    pub unassigned: u64,
}

pub(super) fn fleet(shared: &Shared) -> QuotaFleet {
    let now = shared.now();
    let mut limits = BTreeMap::<String, LimitQuotas>::new();
    for (key, known) in &mut shared.state().funds {
        let numbers = known.numbers;
        let name = key.limit.as_str();
        let row = limits
            .entry(name.to_owned())
            .or_insert_with(|| LimitQuotas { limit: name.to_owned(), ..LimitQuotas::default() });
        row.keys += 1;
        row.assigned_buckets += known.fund.assigned() as u64;
        let add = |sum: &mut u64, share| *sum = sum.saturating_add(numbers.demand_of(share));
        add(&mut row.rate, 1_000_000);
        add(&mut row.assigned, known.fund.booked());
        add(&mut row.needed, known.fund.needed());
        add(&mut row.unassigned, known.fund.free_below(1_000_000, now));
    }
    QuotaFleet { counts: shared.counts.read(), limits: limits.into_values().collect() }
}
