//! The credentials that a request carries, and where it comes from.

use std::fmt;

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

/// The verified certificate of a connection's client. A listener with TLS puts it into the extensions of each request.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificate {
    /// The subject's common name, and its alternative names, in this order.
    pub(crate) names: Vec<String>,
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
