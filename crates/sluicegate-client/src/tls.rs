//! TLS to a service.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Encrypts a stream to `host`, whose certificate an authority must have signed that the system trusts.
///
/// # Errors
/// Says what is wrong.
pub(crate) async fn encrypt(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("TLS: {error}");
    let name = ServerName::try_from(host.to_owned()).map_err(|error| failed(&error))?;
    let configuration = tokio::task::spawn_blocking(configuration).await;
    let configuration = configuration.map_err(|error| failed(&error))??;
    let connector = TlsConnector::from(Arc::new(configuration));
    connector.connect(name, stream).await.map_err(|error| failed(&error))
}

fn configuration() -> Result<ClientConfig, String> {
    let mut trusted = RootCertStore::empty();
    // Among the many of a system, some may be of a kind that nobody understands.
    trusted.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if trusted.is_empty() {
        return Err(
            "this system has no authorities to trust: install its certificates, or name a file with \
             some in SSL_CERT_FILE"
                .to_owned(),
        );
    }
    let provider = Arc::new(ring::default_provider());
    let configuration = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?;
    Ok(configuration.with_root_certificates(trusted).with_no_client_auth())
}
