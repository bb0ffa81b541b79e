//! Ranges of IP addresses.

use std::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::IpNet;

/// A range of IP addresses in CIDR notation: `10.0.0.0/8`, `2001:db8::/32`, or a single address
/// such as `192.0.2.1`.
///
/// Every range prints in one canonical form: its lowest address, then the prefix length unless the
/// range is a single address. IPv4-mapped IPv6 addresses (`::ffff:0:0/96`) count as IPv4.
///
/// Ranges sort by family (IPv4 first), lowest address and prefix length, so a range sorts before
/// every other range that it [covers](Self::covers).
///
/// ```
/// use sluicegate_http::Cidr;
///
/// let office: Cidr = "2001:DB8:0:7::/64".parse()?;
/// assert_eq!(office.to_string(), "2001:db8:0:7::/64");
/// assert!(office.contains("2001:db8:0:7::9".parse()?));
/// assert_eq!("192.0.2.1/32".parse::<Cidr>()?.to_string(), "192.0.2.1");
///
/// let error = "10.0.0.1/8".parse::<Cidr>().unwrap_err();
/// assert_eq!(error.to_string(), "`10.0.0.1/8` has bits set after its first 8: write 10.0.0.0/8");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Cidr(IpNet);

impl Cidr {
    /// Every IPv4 address.
    pub const ALL_IPV4: Self = Self(IpNet::new_assert(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0));
    /// Every IPv6 address.
    pub const ALL_IPV6: Self = Self(IpNet::new_assert(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0));

    /// Returns the range of addresses that share their first `length` bits with `address`.
    ///
    /// # Errors
    /// Returns an error if `length` is above 32 for IPv4 or 128 for IPv6, or if `address` has bits
    /// set after the first `length`.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, CidrError> {
        let Ok(net) = IpNet::new(address, length) else {
            let (version, most) = if address.is_ipv4() { (4, 32) } else { (6, 128) };
            return Err(CidrError {
                range: format!("{address}/{length}"),
                problem: format!("is too long: an IPv{version} prefix has at most {most} bits"),
            });
        };
        let masked = Self::masked(address, length);
        if net.network() != address {
            return Err(CidrError {
                range: format!("{address}/{length}"),
                problem: format!("has bits set after its first {length}: write {masked}"),
            });
        }
        Ok(masked)
    }

    /// Returns the range of a single address.
    #[must_use]
    pub fn host(address: IpAddr) -> Self {
        Self(IpNet::from(address.to_canonical()))
    }

    /// Returns the range with a prefix of `length` bits that contains `address`; the address alone if
    /// it has fewer bits.
    pub(crate) fn masked(address: IpAddr, length: u8) -> Self {
        let (address, length) = match address.to_canonical() {
            // The IPv4 address follows the 96 bits that mark a mapped one.
            inner @ IpAddr::V4(_) if address.is_ipv6() && length >= 96 => (inner, length - 96),
            _ => (address, length),
        };
        Self(IpNet::new(address, length).unwrap_or_else(|_| IpNet::from(address)).trunc())
    }

    /// Returns the lowest address of the range.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        match self.0 {
            IpNet::V4(net) => IpAddr::V4(net.addr()),
            IpNet::V6(net) => IpAddr::V6(net.addr()),
        }
    }

    /// Returns the highest address of the range.
    pub(crate) fn last(self) -> IpAddr {
        self.0.broadcast()
    }

    /// Returns the prefix length in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub const fn len(self) -> u8 {
        match self.0 {
            IpNet::V4(net) => net.prefix_len(),
            IpNet::V6(net) => net.prefix_len(),
        }
    }

    /// Returns whether `address` is in the range.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }

    /// Returns whether every address of `other` is in the range.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.0.contains(&other.0)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.len() == self.0.max_prefix_len() {
            write!(f, "{}", self.address())
        } else {
            write!(f, "{}", self.0)
        }
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cidr({self})")
    }
}

impl From<IpAddr> for Cidr {
    fn from(address: IpAddr) -> Self {
        Self::host(address)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let wrong = || {
            let shown: String = text.chars().take(60).collect();
            CidrError {
                range: shown.escape_debug().to_string(),
                problem: "is not a range of addresses: write one such as 10.0.0.0/8, 192.0.2.1 or 2001:db8::/32"
                    .to_owned(),
            }
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let Some(length) = length else {
            return Ok(Self::host(address));
        };
        // The standard parser would accept a sign.
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        Self::new(address, length.parse().unwrap_or(u8::MAX))
    }
}

/// A range of addresses failed to parse. The message says what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CidrError {
    range: String,
    problem: String,
}

impl CidrError {
    /// Returns the message without the text of the range.
    pub(crate) fn problem(&self) -> &str {
        &self.problem
    }
}

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.range, self.problem)
    }
}

impl Error for CidrError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_has_one_spelling() {
        for (text, printed) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::/0", "::/0"),
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1/32", "192.0.2.1"),
            ("2001:DB8:0:0::1/128", "2001:db8::1"),
            ("2001:db8:0000::/064", "2001:db8::/64"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), printed, "{text}");
        }
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, hint) in [
            ("10.0.0.0/33", "at most 32"),
            ("10.0.0.0/999", "at most 32"),
            ("2001:db8::/129", "at most 128"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("2001:db8::1/64", "write 2001:db8::/64"),
            ("10.0.0.0/+8", "such as 10.0.0.0/8"),
            ("10.0.0.0/", "such as 10.0.0.0/8"),
            ("10.0.0/8", "such as 10.0.0.0/8"),
            ("010.0.0.0/8", "such as 10.0.0.0/8"),
            ("fe80::1%eth0", "such as 10.0.0.0/8"),
            ("", "such as 10.0.0.0/8"),
        ] {
            let message = text.parse::<Cidr>().unwrap_err().to_string();
            assert!(message.contains(hint), "{text}: {message}");
        }
    }

    #[test]
    fn ipv4_and_ipv6_never_contain_each_other() {
        assert!(!Cidr::ALL_IPV6.contains("10.0.0.1".parse().unwrap()));
        assert!(!Cidr::ALL_IPV4.contains("a00:1::".parse().unwrap()));
        assert!(Cidr::ALL_IPV4.contains("::ffff:10.0.0.1".parse().unwrap()));
    }

    /// The bits of an address, most significant first.
    fn bits(address: IpAddr) -> Vec<bool> {
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        octets.iter().flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1)).collect()
    }

    /// The address with one bit inverted.
    fn flipped(address: IpAddr, bit: u32) -> IpAddr {
        match address {
            IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() ^ 1 << (bit % 32)).into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() ^ 1 << bit).into(),
        }
    }

    proptest! {
        #[test]
        fn a_range_contains_the_addresses_that_share_its_prefix(
            a in any::<IpAddr>(), b in any::<IpAddr>(), length in 0_u8..=128, near in any::<bool>(), flip in 0..128_u32,
        ) {
            let (a, b) = (a.to_canonical(), b.to_canonical());
            let b = if near { flipped(a, flip) } else { b }.to_canonical();
            let length = usize::from(length).min(bits(a).len());
            let (first, rest) = (&bits(a)[..length], vec![false; bits(a).len() - length]);
            let range = Cidr::masked(a, length.try_into().unwrap());
            prop_assert_eq!(bits(range.address()), [first, &rest].concat());
            let is_in = a.is_ipv4() == b.is_ipv4() && bits(b).starts_with(first);
            prop_assert_eq!(range.contains(b), is_in);
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }
}
