//! The listeners of the service.

use std::path::PathBuf;

use super::ListenAddress;

/// The listeners of the service. Each is for other clients, and has its own bound on connections.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ListenersConfig {
    /// The HTTP API. Default: 127.0.0.1:8080.
    pub http: ListenerConfig,
    /// The gRPC services.
    pub grpc: Option<ListenerConfig>,
    /// Commands in Redis' protocol.
    pub resp: Option<ListenerConfig>,
    /// The HTTP API with the page, the metrics and all admin calls, which the HTTP listener then lacks.
    pub admin: Option<ListenerConfig>,
    /// A listener that serves only `/metrics`.
    pub metrics: Option<ListenerConfig>,
    /// A listener that serves only `/healthz` and `/readyz`.
    pub health: Option<ListenerConfig>,
}

/// One listener of the service.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ListenerConfig {
    /// The address to listen on.
    pub address: ListenAddress,
    /// Encryption. Default: `None`, for plain connections.
    pub tls: Option<TlsConfig>,
}

/// TLS of a listener. The files are in PEM, and are read again when they change.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The file with the certificate, followed by those of intermediate authorities.
    pub cert: PathBuf,
    /// The file with the certificate's private key.
    pub key: PathBuf,
    /// The treatment of certificates of clients.
    pub clients: ClientCertificates,
}

/// The treatment of certificates of clients.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// No client is asked for a certificate.
    Ignored,
    /// Clients may present a certificate that an authority in this file has signed.
    Accepted(PathBuf),
    /// Clients must present a certificate that an authority in this file has signed.
    Required(PathBuf),
}

impl TlsConfig {
    /// Makes the TLS of a listener of a program's own.
    #[must_use]
    pub const fn new(cert: PathBuf, key: PathBuf, clients: ClientCertificates) -> Self {
        Self { cert, key, clients }
    }
}

impl ClientCertificates {
    /// Returns the file with the authorities.
    #[must_use]
    pub const fn authorities(&self) -> Option<&PathBuf> {
        match self {
            Self::Ignored => None,
            Self::Accepted(file) | Self::Required(file) => Some(file),
        }
    }
}

impl Default for ListenersConfig {
    /// Returns a plain HTTP listener on port 8080 of the loopback address.
    fn default() -> Self {
        let http = ListenAddress::LOOPBACK.into();
        Self { http, grpc: None, resp: None, admin: None, metrics: None, health: None }
    }
}

impl From<ListenAddress> for ListenerConfig {
    /// Returns a plain listener.
    fn from(address: ListenAddress) -> Self {
        Self { address, tls: None }
    }
}
