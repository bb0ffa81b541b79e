//! Where a server is, from its URL.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use sluicegate_core::KeyPrefix;
use url::{Host, Url};

/// Why a store URL is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError(String);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

/// The port of a URL that has none.
const PORT: u16 = 6379;

/// Where a server is, how to sign in there, and which keys are ours.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(super) place: Place,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) database: u16,
    /// The place, for messages.
    pub(super) address: String,
    pub(crate) prefix: KeyPrefix,
}

/// What is connected to.
#[derive(Clone)]
pub(super) enum Place {
    /// A host, whose name is resolved for each connection, and a port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(PathBuf),
}

impl Endpoint {
    pub(crate) fn new(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("none", url));
        match scheme {
            "redis" | "valkey" => Self::tcp(rest),
            "unix" | "redis+unix" | "valkey+unix" => Self::unix(rest),
            _ => {
                let tls = if matches!(scheme, "rediss" | "valkeys") {
                    ", and this build can't speak TLS"
                } else {
                    ""
                };
                Err(UrlError(format!(
                    "the store URL's scheme is `{}`{tls}: write redis://HOST:PORT or valkey://HOST:PORT",
                    scheme.escape_debug()
                )))
            }
        }
    }

    fn tcp(rest: &str) -> Result<Self, UrlError> {
        let malformed = || {
            UrlError(
                "the store URL is malformed: write redis://[USER:PASSWORD@]HOST:PORT[/DATABASE], and / ? # % @ of a password as %2F %3F %23 %25 %40"
                    .to_owned(),
            )
        };
        let url = Url::parse(&format!("redis://{rest}")).map_err(|_| malformed())?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(malformed());
        }
        let host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            Some(host) => {
                decoded(&host.to_string()).filter(|host| !host.is_empty()).ok_or_else(malformed)?
            }
            None => return Err(malformed()),
        };
        let database = match url.path().trim_start_matches('/') {
            "" => 0,
            database => database.parse().map_err(|_| malformed())?,
        };
        let user = decoded(url.username()).ok_or_else(malformed)?;
        let password = url.password().map(|password| decoded(password).ok_or_else(malformed));
        let port = url.port().unwrap_or(PORT);
        Ok(Self {
            address: authority(&host, port),
            place: Place::Tcp(host, port),
            user: Some(user).filter(|user| !user.is_empty()),
            password: password.transpose()?,
            database,
            prefix: KeyPrefix::default(),
        })
    }

    /// `[USER:PASSWORD@]PATH[?db=DATABASE]`
    fn unix(rest: &str) -> Result<Self, UrlError> {
        let malformed = || {
            UrlError(
                "the store URL is malformed: write unix://[USER:PASSWORD@]/PATH[?db=DATABASE], and / ? # % @ of a password or path as %2F %3F %23 %25 %40"
                    .to_owned(),
            )
        };
        let (rest, database) = match rest.split_once('?') {
            None => (rest, 0),
            Some((rest, query)) => {
                let database = query.strip_prefix("db=").and_then(|db| db.parse().ok());
                (rest, database.ok_or_else(malformed)?)
            }
        };
        let (account, path) = rest.split_at(rest.find('/').ok_or_else(malformed)?);
        let (user, password) = match account.strip_suffix('@') {
            Some(account) => {
                let (user, password) = account.split_once(':').unwrap_or((account, ""));
                let decoded = |text| decoded(text).ok_or_else(malformed);
                (decoded(user)?, Some(decoded(password)?))
            }
            None if account.is_empty() => (String::new(), None),
            None => return Err(malformed()),
        };
        let path = decoded(path).filter(|path| path.len() > 1).ok_or_else(malformed)?;
        Ok(Self {
            address: path.clone(),
            place: Place::Unix(path.into()),
            user: Some(user).filter(|user| !user.is_empty()),
            password,
            database,
            prefix: KeyPrefix::default(),
        })
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

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}
