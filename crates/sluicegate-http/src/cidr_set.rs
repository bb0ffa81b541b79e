//! Sets of address ranges.

use std::net::IpAddr;

use crate::cidr::Cidr;

/// A set of address ranges that finds an address by binary search.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct CidrSet {
    /// Disjoint and sorted.
    ranges: Box<[Cidr]>,
}

impl CidrSet {
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.covers(Cidr::host(address))
    }

    /// Returns whether one of the ranges covers `range`.
    pub(crate) fn covers(&self, range: Cidr) -> bool {
        // Two ranges are disjoint or nested, and those of the set are disjoint. So only the last
        // one that sorts before `range`, or equal to it, can cover it.
        let after = self.ranges.partition_point(|other| *other <= range);
        after
            .checked_sub(1)
            .and_then(|index| self.ranges.get(index))
            .is_some_and(|other| other.covers(range))
    }
}

impl FromIterator<Cidr> for CidrSet {
    fn from_iter<I: IntoIterator<Item = Cidr>>(ranges: I) -> Self {
        let mut ranges: Vec<Cidr> = ranges.into_iter().collect();
        // A range sorts before those it covers.
        ranges.sort_unstable();
        ranges.dedup_by(|later, earlier| earlier.covers(*later));
        Self { ranges: ranges.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    /// Addresses that often lie in the same ranges.
    fn address() -> impl Strategy<Value = IpAddr> {
        prop_oneof![
            (0..4_u32, 0..4_u32)
                .prop_map(|(high, low)| Ipv4Addr::from_bits(high << 30 | low).into()),
            (0..4_u128, 0..4_u128)
                .prop_map(|(high, low)| Ipv6Addr::from_bits(high << 126 | low).into()),
        ]
    }

    fn range() -> impl Strategy<Value = Cidr> {
        (address(), prop_oneof![0..4_u8, 29..34_u8, 125..=128_u8])
            .prop_map(|(address, length)| Cidr::masked(address, length))
    }

    proptest! {
        #[test]
        fn a_set_covers_what_one_of_its_ranges_covers(
            ranges in prop::collection::vec(range(), 0..12), wanted in range(), one in address(),
        ) {
            let set: CidrSet = ranges.iter().copied().collect();
            prop_assert_eq!(set.covers(wanted), ranges.iter().any(|range| range.covers(wanted)));
            prop_assert_eq!(set.contains(one), ranges.iter().any(|range| range.contains(one)));
        }
    }
}
