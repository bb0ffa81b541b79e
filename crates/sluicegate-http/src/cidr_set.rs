//! Many ranges of addresses.

use std::net::IpAddr;

use crate::cidr::Cidr;

/// Ranges of addresses, of which a search halves its way to the one that matters.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct CidrSet {
    /// Apart from each other, lowest first; IPv4 before IPv6.
    ranges: Box<[Cidr]>,
}

impl CidrSet {
    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.covers(Cidr::host(address))
    }

    /// Whether one of the ranges has all of `range`.
    pub(crate) fn covers(&self, range: Cidr) -> bool {
        // Ranges are apart or inside one another, and none here is inside another: only the last
        // one that isn't after it can hold it.
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
        // `Cidr` orders by family, lowest address, and length, so that a range comes before
        // those inside it.
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

    /// Addresses that often lie in one another's ranges.
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
        fn a_set_holds_what_one_of_its_ranges_holds(
            ranges in prop::collection::vec(range(), 0..12), wanted in range(), one in address(),
        ) {
            let set: CidrSet = ranges.iter().copied().collect();
            prop_assert_eq!(set.covers(wanted), ranges.iter().any(|range| range.covers(wanted)));
            prop_assert_eq!(set.contains(one), ranges.iter().any(|range| range.contains(one)));
        }
    }
}
