//! The settings for HTTP requests and responses.

use sluicegate_http::{ClientAddress, FieldFormat, ForwardedFields};

/// The settings for HTTP requests and responses.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The source of the client's address, and how many of its bits identify a client. The keys of the limits already
    /// use it.
    pub client_address: ClientAddress,
    /// Which response fields tell a client about its limits.
    pub fields: FieldFormat,
    /// The fields in which trusted proxies describe requests to `/v1/auth/…` of the service.
    pub forwarded_request: ForwardedFields,
}
