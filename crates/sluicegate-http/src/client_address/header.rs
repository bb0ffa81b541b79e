//! The header field with the client's address.

use std::fmt;
use std::str::FromStr;

use http::HeaderName;
use http::header::FORWARDED;

use super::chain::Quoting;
use super::error::ClientAddressError;

static FORWARDED_NAME: HeaderName = FORWARDED;
static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The header field to which the trusted proxies write the client's address.
///
/// Parses from the name of the field regardless of case, and prints it in lower case.
///
/// ```
/// use sluicegate_http::AddressHeader;
///
/// assert_eq!("X-Forwarded-For".parse(), Ok(AddressHeader::XForwardedFor));
/// assert_eq!("CF-Connecting-IP".parse(), Ok(AddressHeader::CF_CONNECTING_IP));
/// assert_eq!(AddressHeader::Forwarded.to_string(), "forwarded");
/// assert!("x forwarded for".parse::<AddressHeader>().is_err());
/// ```
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum AddressHeader {
    /// `Forwarded` of RFC 7239: a chain, `for=192.0.2.1;proto=https, for="[2001:db8::1]:443"`.
    Forwarded,
    /// `X-Forwarded-For`: a chain, `192.0.2.1, 2001:db8::1`. Ports are ignored.
    XForwardedFor,
    /// A field with one address, which the outermost proxy overwrites. A port is ignored; a field
    /// with several addresses or differing lines counts as unreadable.
    One(HeaderName),
    /// A field with one address and always a port, without brackets around IPv6: `2001:db8::1:80`.
    OneWithPort(HeaderName),
}

impl AddressHeader {
    /// The field of Cloudflare.
    pub const CF_CONNECTING_IP: Self = Self::One(HeaderName::from_static("cf-connecting-ip"));
    /// The field of Akamai and of Cloudflare Enterprise.
    pub const TRUE_CLIENT_IP: Self = Self::One(HeaderName::from_static("true-client-ip"));
    /// The field of Fly.io.
    pub const FLY_CLIENT_IP: Self = Self::One(HeaderName::from_static("fly-client-ip"));
    /// The field of Amazon CloudFront.
    pub const CLOUDFRONT_VIEWER_ADDRESS: Self =
        Self::OneWithPort(HeaderName::from_static("cloudfront-viewer-address"));
    /// The field of Envoy.
    pub const X_ENVOY_EXTERNAL_ADDRESS: Self =
        Self::One(HeaderName::from_static("x-envoy-external-address"));
    /// The field that many nginx configurations set.
    pub const X_REAL_IP: Self = Self::One(HeaderName::from_static("x-real-ip"));

    /// Returns the field of this name: a chain for `forwarded` and `x-forwarded-for`, and one address
    /// for any other, with a port for `cloudfront-viewer-address`.
    #[must_use]
    pub fn of(name: HeaderName) -> Self {
        if name == FORWARDED {
            Self::Forwarded
        } else if name == X_FORWARDED_FOR {
            Self::XForwardedFor
        } else if Self::CLOUDFRONT_VIEWER_ADDRESS.name() == name {
            Self::OneWithPort(name)
        } else {
            Self::One(name)
        }
    }

    /// Returns the name of the field.
    #[must_use]
    pub fn name(&self) -> &HeaderName {
        match self {
            Self::Forwarded => &FORWARDED_NAME,
            Self::XForwardedFor => &X_FORWARDED_FOR,
            Self::One(name) | Self::OneWithPort(name) => name,
        }
    }

    /// Returns whether every proxy appends to the field, so that it holds several addresses.
    pub(super) const fn is_chain(&self) -> bool {
        matches!(self, Self::Forwarded | Self::XForwardedFor)
    }

    /// Returns whether an element may contain commas in quotes.
    pub(super) const fn quoting(&self) -> Quoting {
        match self {
            Self::Forwarded => Quoting::Quotes,
            _ => Quoting::None,
        }
    }
}

impl fmt::Display for AddressHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().as_str())
    }
}

impl FromStr for AddressHeader {
    type Err = ClientAddressError;

    fn from_str(text: &str) -> Result<Self, ClientAddressError> {
        HeaderName::from_bytes(text.as_bytes())
            .map(Self::of)
            .map_err(|_| ClientAddressError::NoHeaderName { text: text.chars().take(60).collect() })
    }
}
