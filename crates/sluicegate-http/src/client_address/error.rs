//! What can be wrong with how a client's address is to be found.

use std::error::Error;
use std::fmt;

use super::{AddressHeader, ClientAddress};

/// A way to find a client's address that can't be meant.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ClientAddressError {
    /// Hops were counted in a field that holds one address.
    HopsOfOneAddress {
        /// The field.
        header: AddressHeader,
    },
    /// The name of a header field has other characters than those may have.
    NoHeaderName {
        /// The name, or its beginning.
        text: String,
    },
    /// An address has fewer bits.
    PrefixTooLong {
        /// The bits asked for.
        bits: u8,
        /// The bits of an address.
        most: u8,
    },
    /// More hops than are looked at.
    TooManyHops {
        /// The hops asked for.
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
                "{hops} hops are more than are looked at: write 1 to {}",
                ClientAddress::MAX_HOPS
            ),
        }
    }
}

impl Error for ClientAddressError {}
