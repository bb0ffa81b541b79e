//! TLS to a service.

use std::error::Error;
use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Opens TLS to `host`, whose certificate must be signed by an authority that the system trusts.
///
/// # Errors
/// Returns an error of the kind `InvalidData` if another attempt would fail too.
pub(crate) async fn encrypt(stream: TcpStream, host: &str) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(invalid)?;
    let configuration = tokio::task::spawn_blocking(configuration).await??;
    TlsConnector::from(Arc::new(configuration)).connect(name, stream).await
}

fn configuration() -> io::Result<ClientConfig> {
    let mut trusted = RootCertStore::empty();
    // Ignore certificates that can't be parsed: a system's store may contain some.
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if trusted.is_empty() {
        return Err(invalid(
            "this system has no authorities to trust: install its certificates, or name a file with \
             some in SSL_CERT_FILE",
        ));
    }
    let provider = Arc::new(ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(invalid)?;
    Ok(configuration.with_root_certificates(trusted).with_no_client_auth())
}

fn invalid(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
