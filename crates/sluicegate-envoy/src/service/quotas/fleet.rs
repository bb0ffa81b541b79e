//! The assigned shares, for operators.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use sluicegate_core::LimitName;
use sluicegate_core::for_stores::Pace;

use super::{FundKey, KnownFund, QuotaCounts, Shared};

/// The quotas of all limits at this replica.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuotaFleet {
    /// The numbers of all limits together.
    pub counts: QuotaCounts,
    /// The limits that have buckets, in the order of their names.
    pub limits: Vec<LimitQuotas>,
}

/// The quotas of a limit at this replica.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct LimitQuotas {
    /// The name of the limit.
    pub limit: String,
    /// Keys with buckets.
    pub keys: u64,
    /// The shares of all keys together.
    pub shares: QuotaShares,
    /// Up to 10 keys, those that need most first.
    pub busiest: Vec<KeyQuotas>,
}

/// The quotas of a key at this replica.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct KeyQuotas {
    /// The key.
    pub key: Box<[u8]>,
    /// The shares of its buckets.
    pub shares: QuotaShares,
}

/// Shares of a rate. Rates are in requests per 1,000 seconds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct QuotaShares {
    /// Buckets with a share.
    pub assigned_buckets: u64,
    /// The whole rate.
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
    let mut limits = BTreeMap::<LimitName, LimitQuotas>::new();
    for (key, known) in &mut shared.state().funds {
        let row = limits.entry(key.limit.clone()).or_insert_with(|| LimitQuotas::new(&key.limit));
        row.add(key, shares(known, now));
    }
    QuotaFleet { counts: shared.counts.read(), limits: limits.into_values().collect() }
}

fn shares(known: &mut KnownFund, now: u64) -> QuotaShares {
    let (numbers, fund) = (known.numbers, &mut known.fund);
    QuotaShares {
        assigned_buckets: fund.assigned() as u64,
        rate: numbers.demand_of(Pace::WHOLE),
        assigned: numbers.demand_of(fund.booked()),
        needed: numbers.demand_of(fund.needed()),
        unassigned: numbers.demand_of(fund.free_below(Pace::WHOLE, now)),
    }
}

impl LimitQuotas {
    /// The maximum number of keys in a row.
    const MOST_KEYS: usize = 10;

    fn new(limit: &LimitName) -> Self {
        Self { limit: limit.to_string(), ..Self::default() }
    }

    fn add(&mut self, key: &FundKey, shares: QuotaShares) {
        self.keys += 1;
        self.shares += shares;
        let place = self.busiest.partition_point(|other| other.shares.needed >= shares.needed);
        if place < Self::MOST_KEYS {
            self.busiest.truncate(Self::MOST_KEYS - 1);
            self.busiest.insert(place, KeyQuotas { key: key.key.clone(), shares });
        }
    }
}

impl AddAssign for QuotaShares {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, part| *sum = sum.saturating_add(part);
        add(&mut self.assigned_buckets, other.assigned_buckets);
        add(&mut self.rate, other.rate);
        add(&mut self.assigned, other.assigned);
        add(&mut self.needed, other.needed);
        add(&mut self.unassigned, other.unassigned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_keys_that_need_most_and_the_sum_of_all() {
        let limit: LimitName = "fleet".parse().unwrap();
        let mut row = LimitQuotas::new(&limit);
        for number in [7, 3, 20, 1, 19, 2, 18, 4, 17, 5, 16, 6, 15, 8, 14, 9, 13, 10, 12, 11] {
            let key = FundKey { limit: limit.clone(), key: [number].into() };
            row.add(&key, QuotaShares { needed: number.into(), ..QuotaShares::default() });
        }
        let busiest: Vec<_> = row.busiest.iter().map(|row| row.key[0]).collect();
        assert_eq!(busiest, [20, 19, 18, 17, 16, 15, 14, 13, 12, 11]);
        assert_eq!((row.keys, row.shares.needed), (20, 210));
    }
}
