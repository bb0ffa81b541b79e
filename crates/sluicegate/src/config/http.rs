//! How requests over HTTP are looked at and answered.

use sluicegate_http::{ClientAddress, FieldFormat};

/// How requests over HTTP are looked at and answered.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Where the client's address comes from, and how much of it tells clients apart. The keys of
    /// the limits use it already.
    pub client_address: ClientAddress,
    /// Which response fields tell a client about its limits.
    pub fields: FieldFormat,
}
