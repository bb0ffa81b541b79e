//! Finds the address of the client, and the network that it is limited as.

mod chain;
mod embedded;
mod error;
mod header;
mod node;
mod text;

use std::net::IpAddr;
use std::num::NonZeroU8;

use crate::cidr::Cidr;
use crate::cidr_set::CidrSet;
use crate::request::{RequestView, single_value};

pub use error::ClientAddressError;
pub use header::AddressHeader;

use chain::{Bounds, Chain};

/// The rules that find a client's address, and the networks that count as one client.
///
/// By default the client is the peer of the connection, and header fields are ignored, because
/// anyone can send them. Behind proxies the peer is a proxy, and the client's address comes from
/// *one* field that the proxies write, under these rules:
///
/// - The field counts only if the peer is a trusted proxy. Otherwise the peer is the client.
/// - A chain (`Forwarded`, `X-Forwarded-For`) is read from its end, where the proxies append.
///   Trusted addresses are skipped, and the first untrusted one is the client. Anything before it
///   is ignored, since the client may have made it up.
/// - With a [number of hops](Self::behind_hops), the client is the element that many hops from the
///   end.
/// - An element that is not an address (`unknown`, a name, garbage) ends the search. The client is
///   then the last address found before it, which is on the trusted side. The search also ends after
///   [`MAX_HOPS`](Self::MAX_HOPS) elements or [`MAX_BYTES`](Self::MAX_BYTES) bytes. Empty elements
///   (`a, , b`) are skipped.
///
/// A client with IPv6 usually has a whole network of addresses, so the client is limited as a
/// network. By default that is the first 64 bits of an IPv6 address, and the whole of an IPv4
/// address. An IPv4 address embedded in an IPv6 address counts as IPv4 if it is IPv4-mapped
/// (`::ffff:0:0/96`). In NAT64 (`64:ff9b::/96`) and 6to4 (`2002::/16`) it counts as IPv4 if it is
/// globally routable.
///
/// ```
/// use sluicegate_http::{AddressHeader, ClientAddress, Peer};
///
/// let policy = ClientAddress::behind(["10.0.0.0/8".parse()?], AddressHeader::XForwardedFor);
/// let request = http::Request::get("/")
///     .extension(Peer("10.0.0.2:443".parse()?))
///     .header("x-forwarded-for", "6.6.6.6, 2001:db8::77, 10.1.2.3")
///     .body(())?;
/// assert_eq!(policy.find(&request), Some("2001:db8::77".parse()?));
/// assert_eq!(policy.network(&request).unwrap().to_string(), "2001:db8::/64");
/// assert_eq!(ClientAddress::peer().find(&request), Some("10.0.0.2".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct ClientAddress {
    proxies: Option<Proxies>,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Proxies {
    trusted: CidrSet,
    /// The field with the client's address; `None` if the peer is the client.
    header: Option<AddressHeader>,
    hops: Option<NonZeroU8>,
}

impl ClientAddress {
    /// The maximum number of elements read from a chain, including empty ones.
    pub const MAX_HOPS: usize = 64;
    /// The maximum number of bytes read from a chain.
    pub const MAX_BYTES: usize = 8 * 1024;

    /// Takes the peer of the connection as the client.
    pub const fn peer() -> Self {
        Self { proxies: None, ipv4_prefix: 32, ipv6_prefix: 64 }
    }

    /// Reads the address from `header` if the peer is in `trusted`, the addresses of the proxies.
    pub fn behind(trusted: impl IntoIterator<Item = Cidr>, header: AddressHeader) -> Self {
        Self::by(trusted, Some(header), None)
    }

    /// Takes the peer of the connection as the client, and trusts the proxies in `trusted` to describe other parts of a
    /// request: [`ForwardedRequest`](crate::ForwardedRequest).
    ///
    /// ```
    /// use sluicegate_http::ClientAddress;
    ///
    /// let address = ClientAddress::peer_trusting(["10.0.0.0/8".parse()?]);
    /// assert!(address.trusts([10, 0, 0, 7].into()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peer_trusting(trusted: impl IntoIterator<Item = Cidr>) -> Self {
        Self::by(trusted, None, None)
    }

    fn by(
        trusted: impl IntoIterator<Item = Cidr>,
        header: Option<AddressHeader>,
        hops: Option<NonZeroU8>,
    ) -> Self {
        let proxies = Proxies { trusted: trusted.into_iter().collect(), header, hops };
        Self { proxies: Some(proxies), ..Self::peer() }
    }

    /// Reads the address from a chain that exactly `hops` proxies append to, each the address of
    /// its own peer. Only the peer must be in `trusted`, so this suits proxies whose addresses are
    /// unknown, except for the last. To trust any peer, use [`Cidr::ALL_IPV4`] and
    /// [`Cidr::ALL_IPV6`]: safe only where no one but the last proxy can connect.
    ///
    /// # Errors
    /// Returns an error if `header` is not a chain, or `hops` is above [`MAX_HOPS`](Self::MAX_HOPS).
    pub fn behind_hops(
        trusted: impl IntoIterator<Item = Cidr>,
        header: AddressHeader,
        hops: NonZeroU8,
    ) -> Result<Self, ClientAddressError> {
        if !header.is_chain() {
            return Err(ClientAddressError::HopsOfOneAddress { header: header.name().clone() });
        }
        if usize::from(hops.get()) > Self::MAX_HOPS {
            return Err(ClientAddressError::TooManyHops { hops: hops.get() });
        }
        Ok(Self::by(trusted, Some(header), Some(hops)))
    }

    /// Sets the prefix length of the network that an IPv4 client is limited as: 0 to 32 bits, by
    /// default 32.
    ///
    /// # Errors
    /// Returns an error if `bits` is above 32.
    pub fn ipv4_prefix(self, bits: u8) -> Result<Self, ClientAddressError> {
        if bits > 32 {
            return Err(ClientAddressError::PrefixTooLong { bits, most: 32 });
        }
        Ok(Self { ipv4_prefix: bits, ..self })
    }

    /// Sets the prefix length of the network that an IPv6 client is limited as: 0 to 128 bits, by
    /// default 64. With more than 64 bits, a client can choose among several keys.
    ///
    /// # Errors
    /// Returns an error if `bits` is above 128.
    pub fn ipv6_prefix(self, bits: u8) -> Result<Self, ClientAddressError> {
        if bits > 128 {
            return Err(ClientAddressError::PrefixTooLong { bits, most: 128 });
        }
        Ok(Self { ipv6_prefix: bits, ..self })
    }

    /// Returns the client's address, or `None` if the request has no peer.
    ///
    /// It is the address of a proxy if every address is trusted, or if the search ends at one.
    #[must_use]
    pub fn find(&self, request: &dyn RequestView) -> Option<IpAddr> {
        let peer = request.peer()?.to_canonical();
        match &self.proxies {
            Some(proxies) if self.trusts(peer) => Some(proxies.find(request, peer)),
            _ => Some(peer),
        }
    }

    /// Returns whether a peer with this address is a trusted proxy.
    #[must_use]
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.proxies.as_ref().is_some_and(|proxies| proxies.trusted.contains(peer))
    }

    /// Returns the network that the client is limited as: the component `ip` of a key. `None` if the
    /// request has no peer.
    #[must_use]
    pub fn network(&self, request: &dyn RequestView) -> Option<Cidr> {
        self.find(request).map(|address| self.network_of(address))
    }

    /// Returns the lengths of the prefixes of IPv4 and of IPv6 clients.
    pub(crate) const fn prefixes(&self) -> (u8, u8) {
        (self.ipv4_prefix, self.ipv6_prefix)
    }

    /// Returns the network that a client with this address is limited as.
    #[must_use]
    pub fn network_of(&self, address: IpAddr) -> Cidr {
        let address = embedded::unwrap(address);
        let length = if address.is_ipv4() { self.ipv4_prefix } else { self.ipv6_prefix };
        Cidr::masked(address, length)
    }
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::peer()
    }
}

impl Proxies {
    fn find(&self, request: &dyn RequestView, peer: IpAddr) -> IpAddr {
        let Some(header) = &self.header else { return peer };
        let element = match header {
            AddressHeader::Forwarded => node::of_forwarded,
            AddressHeader::XForwardedFor => node::with_optional_port,
            AddressHeader::One(_) => {
                return find_single(request, header, node::with_optional_port, peer);
            }
            AddressHeader::OneWithPort(_) => {
                return find_single(request, header, node::with_port, peer);
            }
        };
        let mut chain = Chain::of(request, header.name(), header.quoting());
        let mut bounds = Bounds { hops: ClientAddress::MAX_HOPS, bytes: ClientAddress::MAX_BYTES };
        let mut nearest = peer;
        let mut hops = 0;
        while let Some(text) = chain.previous(&mut bounds) {
            // RFC 9110, section 5.6.1.2: recipients ignore empty list elements.
            if text.trim_ascii().is_empty() {
                continue;
            }
            let Some(address) = element(text) else {
                break;
            };
            nearest = address.to_canonical();
            hops += 1;
            let is_client = match self.hops {
                Some(expected) => hops == usize::from(expected.get()),
                None => !self.trusted.contains(nearest),
            };
            if is_client {
                break;
            }
        }
        nearest
    }
}

fn find_single(
    request: &dyn RequestView,
    header: &AddressHeader,
    read: fn(&[u8]) -> Option<IpAddr>,
    peer: IpAddr,
) -> IpAddr {
    let value = single_value(request, header.name()).ok();
    value.and_then(read).map_or(peer, |address| address.to_canonical())
}

#[cfg(test)]
mod tests;
