//! The address of a control plane.

use std::fmt;
use std::fs;
use std::io;
use std::time::Duration;

use sluicegate_core::printable;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Error, Identity};

use crate::incumbent::{ControlPlane, ControlPlaneTls};

/// Settings of a control plane that can't be used.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct XdsError(String);

impl fmt::Display for XdsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for XdsError {}

/// Returns the address of a control plane, with the present content of the files for TLS.
///
/// # Errors
/// Returns an error that names the variable or file.
pub(super) fn endpoint(plane: &ControlPlane) -> Result<Endpoint, XdsError> {
    /// The pause in Go's programs.
    const KEEPALIVE: Duration = Duration::from_secs(15);
    /// Servers in Go end connections whose clients ping more often than every 5 minutes.
    const PING: Duration = Duration::from_secs(6 * 60);
    /// Time for a connection, and for the answer to a ping.
    const PATIENCE: Duration = Duration::from_secs(20);
    let wrong = |why: &str| {
        let target = printable(&plane.target);
        XdsError(format!("CONFIG_GRPC_XDS_SERVER_URL must be HOST:PORT, but is `{target}`{why}"))
    };
    let scheme = if plane.tls.is_some() { "https" } else { "http" };
    let url = match target(&plane.target) {
        Target::Unix(_) if plane.tls.is_some() => {
            return Err(wrong(": a Unix socket has no TLS"));
        }
        Target::Unix(path) => format!("unix://{path}"),
        Target::Address(address) => {
            let authority: http::uri::Authority = address.parse().map_err(|_| wrong(""))?;
            if authority.port_u16().is_none() || address.contains('@') {
                return Err(wrong(""));
            }
            format!("{scheme}://{address}")
        }
    };
    let endpoint = Endpoint::from_shared(url).map_err(|_| wrong(""))?;
    let endpoint = endpoint
        .connect_timeout(PATIENCE)
        .tcp_keepalive(Some(KEEPALIVE))
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PATIENCE);
    let Some(files) = &plane.tls else { return Ok(endpoint) };
    let failure =
        |error: Error| XdsError(format!("TLS to the control plane: {}", with_causes(&error)));
    endpoint.tls_config(tls(files)?).map_err(failure)
}

/// Returns the additional headers of a stream.
///
/// # Errors
/// Returns an error without the values, which may be secret.
pub(super) fn headers(plane: &ControlPlane) -> Result<MetadataMap, XdsError> {
    const NAME: &str = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";
    let mut headers = MetadataMap::new();
    for (key, value) in &plane.headers {
        let (shown, name) = (printable(key), key.to_ascii_lowercase());
        let name = AsciiMetadataKey::from_bytes(name.as_bytes());
        let name = name
            .map_err(|_| XdsError(format!("{NAME}: `{shown}` isn't the name of a text header")))?;
        let value = AsciiMetadataValue::try_from(value);
        let mut value = value
            .map_err(|_| XdsError(format!("{NAME}: the value of `{shown}` isn't ASCII text")))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Ok(headers)
}

/// Returns an error's message with those of its causes.
pub(super) fn with_causes(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let message = error.to_string();
        if !text.ends_with(&message) {
            text = format!("{text}: {message}");
        }
        cause = error.source();
    }
    text
}

/// An address as gRPC writes it.
#[derive(Debug, Eq, PartialEq)]
enum Target<'t> {
    Address(&'t str),
    Unix(&'t str),
}

/// Reads `HOST:PORT`, `dns:HOST:PORT`, `dns://SERVER/HOST:PORT`, `passthrough:///HOST:PORT` or `unix:PATH`.
fn target(text: &str) -> Target<'_> {
    if let Some(path) = text.strip_prefix("unix:") {
        return Target::Unix(path.strip_prefix("//").unwrap_or(path));
    }
    let scheme = ["dns:", "passthrough:"].iter().find_map(|scheme| text.strip_prefix(scheme));
    let address = match scheme {
        Some(rest) => {
            rest.strip_prefix("//").and_then(|it| it.split_once('/')).map_or(rest, |it| it.1)
        }
        None => text,
    };
    Target::Address(address)
}

fn tls(files: &ControlPlaneTls) -> Result<ClientTlsConfig, XdsError> {
    let read = |variable: &str, path: &str| {
        let why = |error: io::Error| XdsError(format!("{variable}: {}: {error}", printable(path)));
        fs::read(path).map_err(why)
    };
    let mut tls = ClientTlsConfig::new();
    tls = match &files.ca {
        Some(path) => {
            let authority = read("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", path)?;
            tls.ca_certificate(Certificate::from_pem(authority))
        }
        None => tls.with_native_roots(),
    };
    if let Some((cert, key)) = &files.identity {
        let cert = read("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", cert)?;
        let key = read("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", key)?;
        tls = tls.identity(Identity::from_pem(cert, key));
    }
    if let Some(name) = &files.server_name {
        tls = tls.domain_name(name);
    }
    Ok(tls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_in_grpc() {
        for (text, expected) in [
            ("plane:18000", Target::Address("plane:18000")),
            ("[::1]:18000", Target::Address("[::1]:18000")),
            ("dns:plane:18000", Target::Address("plane:18000")),
            ("dns:///plane:18000", Target::Address("plane:18000")),
            ("dns://8.8.8.8/plane:18000", Target::Address("plane:18000")),
            ("passthrough:///plane:1", Target::Address("plane:1")),
            ("unix:/run/plane", Target::Unix("/run/plane")),
            ("unix:///run/plane", Target::Unix("/run/plane")),
        ] {
            assert_eq!(target(text), expected);
        }
    }
}
