//! The credentials that a request carries, and where it comes from.

use std::fmt;

use crate::serving::ClientCertificate;

/// The credentials that a request carries in its protocol, and where it comes from.
pub(crate) struct Presented<'a> {
    pub(crate) token: PresentedToken<'a>,
    pub(crate) certificate: Option<&'a ClientCertificate>,
    /// Returns an error, for the caller, unless the request comes from a program on this machine.
    pub(crate) is_local: &'a dyn Fn() -> Result<(), String>,
}

/// The token of a request.
pub(crate) enum PresentedToken<'a> {
    None,
    One(&'a [u8]),
    /// Something else in the place of a token; the text says what to send.
    Malformed(&'static str),
}

/// Omits the token.
impl fmt::Debug for PresentedToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::One(_) => "One(***)",
            Self::Malformed(_) => "Malformed",
        })
    }
}
