//! Where a server is, from its URL.

use std::fmt;

use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisError};
use sluicegate_core::KeyPrefix;

/// Why a store URL is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

/// Where a server is, how to sign in there, and which keys are ours.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// Connects, but leaves the choice of the database to us.
    pub(super) client: Client,
    /// Host and port, for messages.
    pub(super) address: String,
    pub(super) database: i64,
    pub(crate) prefix: KeyPrefix,
}

impl Endpoint {
    pub(crate) fn new(url: &str) -> Result<Self, UrlError> {
        let url = url
            .strip_prefix("valkey://")
            .map_or_else(|| url.to_owned(), |rest| format!("redis://{rest}"));
        if !url.starts_with("redis://") {
            let scheme = url.split_once("://").map_or("none", |(scheme, _)| scheme);
            let tls = if matches!(scheme, "rediss" | "valkeys") {
                ", and this build can't speak TLS"
            } else {
                ""
            };
            return Err(UrlError(format!(
                "the store URL's scheme is `{}`{tls}: write redis://HOST:PORT or valkey://HOST:PORT",
                scheme.escape_debug()
            )));
        }
        let malformed = |_: RedisError| {
            UrlError(
                "the store URL is malformed: write redis://[USER:PASSWORD@]HOST:PORT[/DATABASE], and / ? # % @ of a password as %2F %3F %23 %25 %40"
                    .to_owned(),
            )
        };
        let info = url.as_str().into_connection_info().map_err(malformed)?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => authority(host, *port),
            address => address.to_string(),
        };
        let database = info.redis_settings().db();
        // With RESP3 the client is notified of a disconnection, so that the next request uses a new
        // connection rather than the broken one.
        let redis = info.redis_settings().clone().set_db(0).set_protocol(ProtocolVersion::RESP3);
        let tcp = TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_redis_settings(redis).set_tcp_settings(tcp))
            .map_err(malformed)?;
        Ok(Self { client, address, database, prefix: KeyPrefix::default() })
    }

    /// Host and port, where they are what names the server.
    pub(super) fn host_and_port(&self) -> Option<(&str, u16)> {
        match self.client.get_connection_info().addr() {
            ConnectionAddr::Tcp(host, port) => Some((host, *port)),
            _ => None,
        }
    }
}

impl fmt::Display for Endpoint {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)?;
        if self.database == 0 { Ok(()) } else { write!(f, "/{}", self.database) }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

/// Host and port as they stand in a URL.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
