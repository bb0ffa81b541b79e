//! Whose address a request came from, and as whom it is limited.

mod chain;
mod embedded;
mod error;
mod header;
mod node;

use std::net::IpAddr;
use std::num::NonZeroU8;

use crate::cidr::Cidr;
use crate::cidr_set::CidrSet;
use crate::request::{RequestView, single_value};

pub use error::ClientAddressError;
pub use header::AddressHeader;

use chain::{Bounds, Chain};

/// How the address of a client is found, and which addresses count as one client.
///
/// By default a client is the peer of the connection, and no header field is looked at: anybody
/// can send any. Behind proxies the peer is a proxy, and the address is read from *one* field
/// that the proxies write, under these rules:
///
/// - The field is read only if the peer is a trusted proxy. Otherwise the peer is the client.
/// - A chain (`Forwarded`, `X-Forwarded-For`) is walked from its end, where the proxies write.
///   Trusted addresses are skipped; the first one that is not trusted is the client, and what
///   stands before it, which the client may have made up, is never looked at.
/// - With a [number of hops](Self::behind_hops) the client stands that far from the end.
/// - What can't be read (`unknown`, a name, nonsense) ends the walk at the address before it, on
///   the trusted side. So does the bound of [`MAX_HOPS`](Self::MAX_HOPS) elements and
///   [`MAX_BYTES`](Self::MAX_BYTES) bytes, counted from the end, however long the field is. Empty
///   elements (`a, , b`) are passed over.
///
/// A client with IPv6 has a whole network of addresses, so a key is the network: by default 64
/// bits of an IPv6 address, and a whole IPv4 address. Before that, IPv4 addresses are unwrapped:
/// mapped ones (`::ffff:0:0/96`), and globally valid ones inside NAT64 (`64:ff9b::/96`) and 6to4
/// (`2002::/16`).
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
    header: AddressHeader,
    hops: Option<NonZeroU8>,
}

impl ClientAddress {
    /// The most elements of a chain that are looked at, empty ones included.
    pub const MAX_HOPS: usize = 64;
    /// The most bytes of a chain that are looked at.
    pub const MAX_BYTES: usize = 8 * 1024;

    /// The peer of the connection is the client.
    pub const fn peer() -> Self {
        Self { proxies: None, ipv4_prefix: 32, ipv6_prefix: 64 }
    }

    /// Behind proxies with these addresses, which write `header`.
    pub fn behind(trusted: impl IntoIterator<Item = Cidr>, header: AddressHeader) -> Self {
        let proxies = Proxies { trusted: trusted.into_iter().collect(), header, hops: None };
        Self { proxies: Some(proxies), ..Self::peer() }
    }

    /// Behind exactly `hops` proxies, each of which adds the address of its own peer to `header`,
    /// where the addresses of those before the last one are not known. The peer must be one of
    /// `trusted`; with [`Cidr::ALL_IPV4`] and [`Cidr::ALL_IPV6`] any will do, which is right only
    /// where nobody but the last proxy can connect.
    ///
    /// # Errors
    /// When the header is no chain, or the hops are above [`MAX_HOPS`](Self::MAX_HOPS).
    pub fn behind_hops(
        trusted: impl IntoIterator<Item = Cidr>,
        header: AddressHeader,
        hops: NonZeroU8,
    ) -> Result<Self, ClientAddressError> {
        if !header.is_chain() {
            return Err(ClientAddressError::HopsOfOneAddress { header });
        }
        if usize::from(hops.get()) > Self::MAX_HOPS {
            return Err(ClientAddressError::TooManyHops { hops: hops.get() });
        }
        let proxies = Proxies { trusted: trusted.into_iter().collect(), header, hops: Some(hops) };
        Ok(Self { proxies: Some(proxies), ..Self::peer() })
    }

    /// Clients with IPv4 are told apart by their first `bits` bits, 32 unless this says otherwise.
    ///
    /// # Errors
    /// Above 32.
    pub fn ipv4_prefix(self, bits: u8) -> Result<Self, ClientAddressError> {
        if bits > 32 {
            return Err(ClientAddressError::PrefixTooLong { bits, most: 32 });
        }
        Ok(Self { ipv4_prefix: bits, ..self })
    }

    /// Clients with IPv6 are told apart by their first `bits` bits, 64 unless this says otherwise.
    /// More than 64 lets a client choose among keys.
    ///
    /// # Errors
    /// Above 128.
    pub fn ipv6_prefix(self, bits: u8) -> Result<Self, ClientAddressError> {
        if bits > 128 {
            return Err(ClientAddressError::PrefixTooLong { bits, most: 128 });
        }
        Ok(Self { ipv6_prefix: bits, ..self })
    }

    /// The client's address; `None` when the request has no peer.
    ///
    /// It is that of a proxy when every address was trusted, or when the walk ended at one.
    #[must_use]
    pub fn find(&self, request: &dyn RequestView) -> Option<IpAddr> {
        let peer = request.peer()?.to_canonical();
        match &self.proxies {
            Some(proxies) if proxies.trusted.contains(peer) => Some(proxies.find(request, peer)),
            _ => Some(peer),
        }
    }

    /// The network that the client is limited as: what the component `ip` of a key is.
    #[must_use]
    pub fn network(&self, request: &dyn RequestView) -> Option<Cidr> {
        self.find(request).map(|address| self.network_of(address))
    }

    /// The network that a client of this address is limited as.
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
        let element = match self.header {
            AddressHeader::Forwarded => node::of_forwarded,
            AddressHeader::XForwardedFor => node::with_optional_port,
            AddressHeader::One(_) => {
                return self.find_single(request, node::with_optional_port, peer);
            }
            AddressHeader::OneWithPort(_) => {
                return self.find_single(request, node::with_port, peer);
            }
        };
        let mut chain = Chain::of(request, self.header.name(), self.header.quoting());
        let mut bounds = Bounds { hops: ClientAddress::MAX_HOPS, bytes: ClientAddress::MAX_BYTES };
        let mut nearest = peer;
        let mut hops = 0;
        while let Some(text) = chain.previous(&mut bounds) {
            // RFC 9110, 5.6.1.2: who reads a list ignores its empty elements.
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

    fn find_single(
        &self,
        request: &dyn RequestView,
        read: fn(&[u8]) -> Option<IpAddr>,
        peer: IpAddr,
    ) -> IpAddr {
        let value = single_value(request, self.header.name()).ok();
        value.and_then(read).map_or(peer, |address| address.to_canonical())
    }
}

#[cfg(test)]
mod tests;
