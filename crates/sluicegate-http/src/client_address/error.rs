//! Errors in the configuration of client addresses.

use std::error::Error;
use std::fmt;

use http::HeaderName;

use super::ClientAddress;

/// An invalid configuration of how to find the client's address.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ClientAddressError {
    /// A number of hops for a field that holds one address.
    HopsOfOneAddress {
        /// The name of the field.
        header: HeaderName,
    },
    /// Text that is not the name of a header field.
    NoHeaderName {
        /// The first 60 characters of the text.
        text: String,
    },
    /// A prefix longer than an address.
    PrefixTooLong {
        /// The requested length in bits.
        bits: u8,
        /// The length of an address in bits: 32 or 128.
        most: u8,
    },
    /// More hops than [`ClientAddress::MAX_HOPS`].
    TooManyHops {
        /// The requested number of hops.
        hops: u8,
    },
}

impl fmt::Display for ClientAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HopsOfOneAddress { header } => write!(
                f,
                "`{header}` holds one address: count hops in forwarded or x-forwarded-for, or leave the hops out"
            ),
            Self::NoHeaderName { text } => write!(
                f,
                "`{}` is not the name of a header field: write one such as forwarded, x-forwarded-for or cf-connecting-ip",
                text.escape_debug()
            ),
            Self::PrefixTooLong { bits, most } => write!(
                f,
                "a prefix of {bits} bits is longer than an IPv{} address: write 0 to {most}",
                if *most == 32 { 4 } else { 6 }
            ),
            Self::TooManyHops { hops } => write!(
                f,
                "{hops} hops are more than the maximum: write 1 to {}",
                ClientAddress::MAX_HOPS
            ),
        }
    }
}

impl Error for ClientAddressError {}
