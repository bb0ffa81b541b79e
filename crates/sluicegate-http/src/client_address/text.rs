//! Reads addresses that were written instead of found in a request.

use std::net::IpAddr;

use super::{ClientAddress, embedded, node};
use crate::cidr::Cidr;

impl ClientAddress {
    /// Returns the network that a client is limited as, from its address as text.
    ///
    /// The text comes from a log, a command line or an API request. The network is the one that
    /// [`network`](Self::network) finds for a request from that address.
    ///
    /// The text is an address, with or without port, brackets and zone, or a network that lies in the
    /// network of one client. `None` for any other text, and for a wider network.
    ///
    /// ```
    /// use sluicegate_http::ClientAddress;
    ///
    /// let client = ClientAddress::peer();
    /// let network = |text: &str| client.network_of_text(text.as_bytes()).map(|it| it.to_string());
    /// for text in ["2001:db8:1:2::1", "2001:DB8:1:2:0:0:0:1", "[2001:db8:1:2::1]:443", "2001:db8:1:2::/64"] {
    ///     assert_eq!(network(text).as_deref(), Some("2001:db8:1:2::/64"));
    /// }
    /// for text in ["198.51.100.1", "198.51.100.1:5000", "::ffff:198.51.100.1", "198.51.100.1/32"] {
    ///     assert_eq!(network(text).as_deref(), Some("198.51.100.1"));
    /// }
    /// assert_eq!(network("alice"), None);
    /// assert_eq!(network("198.51.100.0/24"), None, "256 clients");
    /// ```
    #[must_use]
    pub fn network_of_text(&self, text: &[u8]) -> Option<Cidr> {
        let text = node::readable(text)?;
        let Some((address, length)) = text.split_once('/') else {
            return address(text).map(|address| self.network_of(address));
        };
        self.network_in(written_range(address, length)?)
    }

    /// Returns the network of the client that every address of `range` belongs to.
    fn network_in(&self, range: Cidr) -> Option<Cidr> {
        // A network in which IPv4 addresses are embedded may begin and end with addresses of other
        // clients. It belongs to one client if it has an address that embeds none.
        let mut addresses = embedded::invalid().filter(|address| range.contains(*address));
        if self.network_of(range.address()) == range
            || addresses.any(|address| self.network_of(address) == range)
        {
            return Some(range);
        }
        let [first, last] = [range.address(), range.last()].map(|address| self.network_of(address));
        (first == last).then_some(first)
    }
}

fn address(text: &str) -> Option<IpAddr> {
    let Some((before, zone)) = text.split_once('%') else {
        return node::with_optional_port(text.as_bytes());
    };
    // The zone names an interface of one machine. The peer of a connection stores it apart from its
    // address.
    let (zone, after) = zone.find(']').map_or((zone, ""), |end| zone.split_at(end));
    let address = node::with_optional_port([before, after].concat().as_bytes());
    address.filter(|address| address.is_ipv6() && !zone.is_empty())
}

/// Parses a range whose address may have any bits set.
fn written_range(text: &str, length: &str) -> Option<Cidr> {
    let address = address(text)?;
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = length.parse().ok().filter(|length| is_number && *length <= most)?;
    Some(Cidr::masked(address, length))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn network(client: &ClientAddress, text: &str) -> Option<String> {
        client.network_of_text(text.as_bytes()).map(|network| network.to_string())
    }

    #[test]
    fn an_address_has_one_network_however_it_is_written() {
        let client = ClientAddress::peer();
        for (text, expected) in [
            ("2001:db8:1:2::1", Some("2001:db8:1:2::/64")),
            ("2001:DB8:1:2::2", Some("2001:db8:1:2::/64")),
            ("2001:0db8:0001:0002:0000:0000:0000:0001", Some("2001:db8:1:2::/64")),
            (" 2001:db8:1:2::1\n", Some("2001:db8:1:2::/64")),
            ("[2001:db8:1:2::1]", Some("2001:db8:1:2::/64")),
            ("[2001:db8:1:2::1]:443", Some("2001:db8:1:2::/64")),
            ("2001:db8:1:2::/64", Some("2001:db8:1:2::/64")),
            ("2001:db8:1:2::1/64", Some("2001:db8:1:2::/64")),
            ("2001:db8:1:2:3::/80", Some("2001:db8:1:2::/64")),
            ("2001:db8:1:2::1/128", Some("2001:db8:1:2::/64")),
            ("2001:db8:1:2::/63", None),
            ("2001:db8::/32", None),
            ("fe80::1%eth0", Some("fe80::/64")),
            ("fe80::1%25eth0", Some("fe80::/64")),
            ("[fe80::1%1]:80", Some("fe80::/64")),
            ("fe80::1%", None),
            ("198.51.100.1%eth0", None),
            ("198.51.100.1", Some("198.51.100.1")),
            ("198.51.100.1:80", Some("198.51.100.1")),
            ("198.51.100.1/32", Some("198.51.100.1")),
            ("::ffff:198.51.100.1", Some("198.51.100.1")),
            ("::FFFF:c633:6401", Some("198.51.100.1")),
            ("[::ffff:198.51.100.1]:80", Some("198.51.100.1")),
            ("::ffff:198.51.100.1/128", Some("198.51.100.1")),
            ("64:ff9b::198.51.100.1", Some("198.51.100.1")),
            ("2002:c633:6401::/48", Some("198.51.100.1")),
            ("2002:c633:6401:7::1", Some("198.51.100.1")),
            ("64:ff9b::10.0.0.1", Some("64:ff9b::/64")),
            ("198.51.100.0/24", None),
            ("::ffff:198.51.100.0/120", None),
            ("198.51.100.1/33", None),
            ("198.51.100.1/+32", None),
            ("198.51.100.1/", None),
            ("198.51.100.1/32/32", None),
            ("198.51.100.01", None),
            ("198.51.100", None),
            ("3325256705", None),
            ("alice", None),
            ("", None),
            ("1\0", None),
        ] {
            assert_eq!(network(&client, text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(client.network_of_text(&[b':'; 100_000]), None);
        assert_eq!(client.network_of_text(b"\xff"), None);
    }

    #[test]
    fn the_lengths_of_the_prefixes_count() {
        let client = ClientAddress::peer().ipv4_prefix(24).unwrap().ipv6_prefix(48).unwrap();
        for (text, expected) in [
            ("198.51.100.1", Some("198.51.100.0/24")),
            ("198.51.100.0/24", Some("198.51.100.0/24")),
            ("::ffff:198.51.100.0/120", Some("198.51.100.0/24")),
            ("198.51.0.0/16", None),
            ("2001:db8:1:2::1", Some("2001:db8:1::/48")),
            ("2001:db8:1::/48", Some("2001:db8:1::/48")),
            ("2001:db8::/47", None),
        ] {
            assert_eq!(network(&client, text).as_deref(), expected, "{text:?}");
        }
    }

    /// Half of them with an IPv4 address inside.
    fn any_address() -> impl Strategy<Value = IpAddr> {
        let embedding = (
            prop::sample::select(vec!["::ffff:0:0", "64:ff9b::", "2002::"]),
            any::<u32>(),
            any::<u128>(),
        );
        let embedding = embedding.prop_map(|(around, inner, rest)| {
            let around: std::net::Ipv6Addr = around.parse().unwrap();
            let inner = u128::from(inner);
            let is_first = around.segments()[0] == 0x2002;
            let bits = if is_first { inner << 80 | rest >> 48 } else { inner };
            IpAddr::V6((around.to_bits() | bits).into())
        });
        prop_oneof![any::<IpAddr>(), embedding]
    }

    #[test]
    fn a_network_with_a_private_address_is_no_ipv4_network() {
        let client = ClientAddress::peer().ipv4_prefix(0).unwrap().ipv6_prefix(101).unwrap();
        let private = "64:ff9b::a00:0".parse().unwrap();
        let network = client.network_of(private);
        assert_eq!(network.to_string(), "64:ff9b::800:0/101");
        assert_eq!(client.network_of_text(b"64:ff9b::800:0/101"), Some(network));
        assert_eq!(client.network_of_text(b"64:ff9b::808:808").unwrap().to_string(), "0.0.0.0/0");
    }

    proptest! {
        /// A key that a list shows can be given back.
        #[test]
        fn the_text_of_a_network_is_that_network(
            address in any_address(), ipv4 in 0..=32_u8, ipv6 in 0..=128_u8,
        ) {
            let client = ClientAddress::peer().ipv4_prefix(ipv4).unwrap().ipv6_prefix(ipv6).unwrap();
            let network = client.network_of(address);
            for text in [network.to_string(), address.to_string(), format!("[{address}]:80")] {
                if !(text.starts_with('[') && address.is_ipv4()) {
                    prop_assert_eq!(client.network_of_text(text.as_bytes()), Some(network), "{}", text);
                }
            }
        }

        #[test]
        fn any_text_is_a_stable_network_or_none(text in "[0-9a-fA-F:./%\\[\\]]{0,30}", bytes in any::<Vec<u8>>()) {
            let client = ClientAddress::peer();
            for text in [text.as_bytes(), &bytes] {
                if let Some(network) = client.network_of_text(text) {
                    let again = client.network_of_text(network.to_string().as_bytes());
                    prop_assert_eq!(again, Some(network));
                }
            }
        }
    }
}
