//! The credentials of a connection, for protocols in which it presents them once.

use std::fmt;
use std::net::IpAddr;

use super::caller::Caller;
use super::refusal::Refusal;
use crate::serving::ClientCertificate;

/// The credentials that a connection has presented for all its requests, and its callers as last found.
pub(crate) struct Login {
    token: Option<Box<[u8]>>,
    pub(super) certificate: Option<ClientCertificate>,
    pub(super) peer: IpAddr,
    pub(super) found: Option<Found>,
}

/// The callers of a connection under one configuration.
pub(super) struct Found {
    /// The generation of the registry.
    pub(super) generation: u64,
    /// The caller of administrative calls.
    pub(super) administrative: Result<Caller, Refusal>,
    /// The caller of other calls.
    pub(super) other: Result<Caller, Refusal>,
}

/// The reason that a login is refused.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum LoginError {
    /// The service has no tokens, so there is nothing to verify.
    NoTokens,
    /// No caller of this name has the token.
    Refused(Refusal),
}

impl Login {
    /// Makes the login of a connection that has presented a certificate or nothing.
    pub(crate) const fn new(peer: IpAddr, certificate: Option<ClientCertificate>) -> Self {
        Self { token: None, certificate, peer, found: None }
    }

    /// Forgets the token.
    pub(crate) fn forget(&mut self) {
        (self.token, self.found) = (None, None);
    }

    pub(super) fn token(&self) -> Option<&[u8]> {
        self.token.as_deref()
    }

    pub(super) fn set_token(&mut self, token: &[u8]) {
        (self.token, self.found) = (Some(token.into()), None);
    }

    /// Returns an error for the caller unless the connection comes from a program on this machine.
    pub(super) fn verify_local(&self) -> Result<(), String> {
        if self.peer.to_canonical().is_loopback() {
            return Ok(());
        }
        Err("this call comes from another machine, and the service has no admin token: set SLUICEGATE_ADMIN_TOKEN or \
             --admin-token-file where it starts, and present the token"
            .to_owned())
    }
}

/// Omits the token.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("peer", &self.peer).finish_non_exhaustive()
    }
}
