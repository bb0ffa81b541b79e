//! IPv4 addresses embedded in IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the IPv4 address embedded in an IPv6 address, or the address itself.
///
/// NAT64 and 6to4 may embed only globally routable addresses. Others stay IPv6, because an embedded
/// 10.0.0.1 is not the host with that address in the local network.
pub(super) fn unwrap(address: IpAddr) -> IpAddr {
    let IpAddr::V6(outer) = address.to_canonical() else {
        return address.to_canonical();
    };
    let [a, b, c, d, e, f, g, h] = outer.segments();
    let inner = match (a, b) {
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => joined(g, h),
        (0x2002, high) => joined(high, c),
        _ => return outer.into(),
    };
    if is_global(inner) { inner.into() } else { outer.into() }
}

/// Returns one address of each block that NAT64 and 6to4 must not embed, embedded by both.
pub(super) fn invalid() -> impl Iterator<Item = IpAddr> {
    const BLOCKS: [[u8; 4]; 8] = [
        [0, 0, 0, 0],
        [10, 0, 0, 0],
        [100, 64, 0, 0],
        [127, 0, 0, 0],
        [169, 254, 0, 0],
        [172, 16, 0, 0],
        [192, 168, 0, 0],
        [224, 0, 0, 0],
    ];
    BLOCKS.into_iter().flat_map(|[a, b, c, d]| {
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let nat64 = [0x64, 0xff9b, 0, 0, 0, 0, high, low];
        [nat64, [0x2002, high, low, 0, 0, 0, 0, 0]].map(|segments| Ipv6Addr::from(segments).into())
    })
}

fn joined(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// Returns whether an address is globally routable, or reserved for documentation.
fn is_global(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    // 0/8 is "this network", 100.64/10 carrier-grade NAT, 240/4 reserved.
    let special = first == 0 || (first == 100 && second & 0xc0 == 64) || first >= 240;
    !(special
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_block_is_embedded() {
        assert!(invalid().all(|address| unwrap(address) == address));
        assert_eq!(invalid().count(), 16);
    }

    #[test]
    fn an_address_is_unwrapped_where_it_is_valid() {
        for (outer, inner) in [
            ("192.0.2.1", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("64:ff9b::192.0.2.1", "192.0.2.1"),
            ("64:ff9b::10.0.0.1", "64:ff9b::10.0.0.1"),
            ("64:ff9b:1::192.0.2.1", "64:ff9b:1::192.0.2.1"),
            ("64:ff9b:0:0:1::192.0.2.1", "64:ff9b:0:0:1::192.0.2.1"),
            ("2002:c000:201::1", "192.0.2.1"),
            ("2002:c000:201:5:6:7:8:9", "192.0.2.1"),
            ("2002:7f00:1::1", "2002:7f00:1::1"),
            ("2002:a9fe:a9fe::1", "2002:a9fe:a9fe::1"),
            ("2002:6440:1::1", "2002:6440:1::1"),
            ("2002:c0a8:1::1", "2002:c0a8:1::1"),
            ("2002:e000:1::1", "2002:e000:1::1"),
            ("2002:f000:1::1", "2002:f000:1::1"),
            ("2002::1", "2002::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            let (outer, inner): (IpAddr, IpAddr) = (outer.parse().unwrap(), inner.parse().unwrap());
            assert_eq!(unwrap(outer), inner, "{outer}");
        }
    }
}
