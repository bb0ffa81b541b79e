//! The URL of a store, parsed into its servers and access options.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use sluicegate_core::did_you_mean;

use crate::access::{Credentials, TlsOptions};

/// The URL of a store on Redis or Valkey servers, parsed and checked. It may contain a password, but prints
/// without it.
///
/// | URL | where |
/// | --- | --- |
/// | `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]` | one server; the port is 6379, the database 0 |
/// | `unix://[USER:PASSWORD@]/PATH[?db=DATABASE]`, `redis+unix://…` | a server on the same machine, by its socket |
/// | `redis+cluster://[USER:PASSWORD@]HOST[:PORT],…` | a cluster, by some of its nodes |
/// | `redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/NAME[/DATABASE]` | the primary that these sentinels know by a name; their port is 26379 |
///
/// `valkey` may replace `redis`. With `rediss` or `valkeys` instead, all connections use TLS. These URLs
/// accept the [`TlsOptions`] `ca`, `cert`, `key` and `server_name`, as in `?ca=FILE&server_name=NAME`.
/// Special characters (`/ ? # % @ & ,`) of a user, password, path, name or file are written as `%2F` and so
/// on.
///
/// ```
/// use sluicegate_redis::RedisUrl;
///
/// let url: RedisUrl = "valkeys://limiter:secret@db.example/2?ca=/etc/ca.pem".parse()?;
/// assert_eq!(url.to_string(), "rediss://***@db.example:6379/2?ca=/etc/ca.pem");
/// let error = "rediss://db.example?cq=/etc/ca.pem".parse::<RedisUrl>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the store URL has the option `cq`: did you mean `ca`? (ca, cert, key, server_name)"
/// );
/// # Ok::<(), sluicegate_redis::UrlError>(())
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl {
    pub(crate) servers: Servers,
    pub(crate) credentials: Option<Credentials>,
    pub(crate) database: u16,
    /// `None` without encryption.
    pub(crate) tls: Option<TlsOptions>,
}

/// The servers of a URL, and their topology.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Servers {
    /// One server with all keys.
    One(Place),
    /// Some of the nodes of a cluster.
    Cluster(Vec<Host>),
    /// Sentinels, and their name for the primary.
    Sentinels(Vec<Host>, String),
}

/// The address of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Place {
    Tcp(Host),
    /// The path of a socket.
    Unix(PathBuf),
}

/// A host and a port. The host's name is resolved for each connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// A problem with a store URL, and its fix. The text never contains a password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UrlError(String);

impl RedisUrl {
    /// Returns whether all connections use TLS.
    #[must_use]
    pub const fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns whether the URL names sentinels, which may have their own credentials and certificates.
    #[must_use]
    pub const fn has_sentinels(&self) -> bool {
        matches!(self.servers, Servers::Sentinels(..))
    }

    /// Returns whether the URL names nodes of a cluster.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// Returns the URL's TLS options, if it uses TLS.
    #[must_use]
    pub const fn tls(&self) -> Option<&TlsOptions> {
        self.tls.as_ref()
    }

    /// Returns the URL's user and password.
    #[must_use]
    pub const fn credentials(&self) -> Option<&Credentials> {
        self.credentials.as_ref()
    }
}

impl FromStr for RedisUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let is_scheme = |scheme: &str| {
            scheme.len() <= 20
                && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c))
        };
        // Without a scheme, a password could be anywhere, so the message quotes nothing.
        let (scheme, rest) = text
            .split_once("://")
            .filter(|(scheme, _)| is_scheme(scheme))
            .ok_or_else(|| UrlError(format!("not a store URL: {ACCEPTED}")))?;
        let scheme = Scheme::of(scheme)
            .ok_or_else(|| UrlError(format!("`{scheme}://` is not supported: {ACCEPTED}")))?;
        if rest.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return problem("holds white space or a control character: write it as %20, %0A …");
        }
        if let Some((_, after)) = rest.split_once('#') {
            // The text after it may be a password.
            return problem(if after.contains('@') { SPECIAL } else { FRAGMENT });
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        if query.is_some_and(|query| query.contains('@')) {
            return problem(SPECIAL);
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        // A socket's path may contain any character.
        if scheme.kind != Kind::Unix && path.contains('@') {
            return problem(SPECIAL);
        }
        let (account, hosts) = match authority.rsplit_once('@') {
            Some((account, hosts)) => (Some(account), hosts),
            None => (None, authority),
        };
        let mut options = Options::of(query, scheme)?;
        let (servers, database) = scheme.servers(hosts, path, &mut options)?;
        Ok(Self {
            servers,
            credentials: account.map(credentials).transpose()?.flatten(),
            database,
            tls: options.tls,
        })
    }
}

/// The scheme, before `://`.
#[derive(Clone, Copy)]
struct Scheme {
    kind: Kind,
    is_encrypted: bool,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Kind {
    One,
    Unix,
    Cluster,
    Sentinel,
}

impl Scheme {
    fn of(text: &str) -> Option<Self> {
        let (protocol, kind) = match text.split_once('+') {
            None if text == "unix" => ("redis", Kind::Unix),
            None => (text, Kind::One),
            Some((protocol, "unix")) => (protocol, Kind::Unix),
            Some((protocol, "cluster")) => (protocol, Kind::Cluster),
            Some((protocol, "sentinel")) => (protocol, Kind::Sentinel),
            Some(_) => return None,
        };
        let is_encrypted = match protocol {
            "redis" | "valkey" => false,
            // A socket has no network to encrypt.
            "rediss" | "valkeys" if kind != Kind::Unix => true,
            _ => return None,
        };
        Some(Self { kind, is_encrypted })
    }

    /// Returns the servers and the database.
    fn servers(
        self,
        hosts: &str,
        path: &str,
        options: &mut Options,
    ) -> Result<(Servers, u16), UrlError> {
        let path_parts = || path.strip_prefix('/').unwrap_or_default();
        match self.kind {
            Kind::One => match &hosts_of(hosts, PORT)?[..] {
                [host] => Ok((Servers::One(Place::Tcp(host.clone())), database(path_parts())?)),
                _ => problem(
                    "names several hosts: write redis+cluster:// before those of a cluster, and redis+sentinel://HOST:PORT,HOST:PORT/NAME for sentinels",
                ),
            },
            Kind::Unix => {
                let path = decoded(path)?;
                if !hosts.is_empty() || path.len() < 2 {
                    return problem(
                        "has no path of a socket: write unix:///PATH, or unix://USER:PASSWORD@/PATH",
                    );
                }
                Ok((Servers::One(Place::Unix(path.into())), options.database))
            }
            Kind::Cluster => {
                if database(path_parts())? != 0 {
                    return problem(
                        "has a database, and a cluster has only the first: leave it out",
                    );
                }
                Ok((Servers::Cluster(hosts_of(hosts, PORT)?), 0))
            }
            Kind::Sentinel => {
                let (name, number) = path_parts().split_once('/').unwrap_or((path_parts(), ""));
                let name = decoded(name)?;
                if name.is_empty() {
                    return problem(
                        "lacks what the sentinels call the primary: write redis+sentinel://HOST:PORT,HOST:PORT/NAME",
                    );
                }
                let hosts = hosts_of(hosts, SENTINEL_PORT)?;
                Ok((Servers::Sentinels(hosts, name), database(number)?))
            }
        }
    }

    /// Returns the names of the scheme's options.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self { is_encrypted: true, .. } => &TlsOptions::NAMES,
            Self { kind: Kind::Unix, .. } => &["db"],
            _ => &[],
        }
    }
}

/// The options after the question mark.
struct Options {
    database: u16,
    tls: Option<TlsOptions>,
}

impl Options {
    fn of(query: Option<&str>, scheme: Scheme) -> Result<Self, UrlError> {
        let known = scheme.options();
        let mut tls = TlsOptions::default();
        let mut options = Self { database: 0, tls: None };
        let mut seen = Vec::new();
        for option in query.into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            if !known.contains(&name) {
                return Err(unknown_option(name, known));
            }
            if seen.contains(&name) {
                return Err(UrlError(format!("the store URL has `{name}` twice: keep one")));
            }
            seen.push(name);
            let value = decoded(value)?;
            if value.is_empty() {
                return Err(UrlError(format!(
                    "the store URL has `{name}` without a value: write `{name}=…`, or leave it out"
                )));
            }
            match name {
                "db" => options.database = database(&value)?,
                "ca" => tls.ca = Some(value.into()),
                "cert" => tls.cert = Some(value.into()),
                "key" => tls.key = Some(value.into()),
                _ => tls.server_name = Some(value),
            }
        }
        if let Some(why) = tls.problem() {
            return Err(UrlError(format!("the store URL's option {why}")));
        }
        options.tls = scheme.is_encrypted.then_some(tls);
        Ok(options)
    }
}

fn unknown_option(name: &str, known: &[&str]) -> UrlError {
    if TlsOptions::NAMES.contains(&name) {
        return UrlError(format!(
            "the store URL has the TLS option `{name}`, but isn't encrypted: write rediss:// instead of redis://, or omit the option"
        ));
    }
    // Anything else than a word might be a part of a password.
    let is_word = !name.is_empty()
        && name.len() <= 20
        && name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    let shown =
        if is_word { format!("the option `{name}`") } else { "an unknown option".to_owned() };
    UrlError(match (known, did_you_mean(name, known.iter().copied())) {
        ([], _) => format!("the store URL has {shown}, and takes none: leave it out"),
        (_, Some(hint)) => format!("the store URL has {shown}: {hint} ({})", known.join(", ")),
        (_, None) => format!("the store URL has {shown}: its options are {}", known.join(", ")),
    })
}

/// The default ports of a server and of a sentinel.
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

const ACCEPTED: &str = "write memory:, redis://HOST:PORT, rediss://HOST:PORT (with TLS), unix:///PATH, redis+cluster://HOST:PORT,… or redis+sentinel://HOST:PORT,…/NAME";
const SPECIAL: &str = "holds one of `/ ? # @` in its user, password, name or an option: write them as %2F, %3F, %23 and %40";
const FRAGMENT: &str = "has a `#`: remove it with what follows, or write it as %23";

fn problem<T>(what: &str) -> Result<T, UrlError> {
    Err(UrlError(format!("the store URL {what}")))
}

/// Parses `USER:PASSWORD`, each of which may be empty.
fn credentials(account: &str) -> Result<Option<Credentials>, UrlError> {
    let (user, password) = account.split_once(':').unwrap_or((account, ""));
    let (user, password) = (decoded(user)?, decoded(password)?);
    Ok(match (user.is_empty(), password.is_empty()) {
        (true, true) => None,
        (true, false) => Some(Credentials::of_default_user(password)),
        (false, _) => Some(Credentials::new(user, password)),
    })
}

/// Parses `HOST[:PORT],…`.
fn hosts_of(hosts: &str, port: u16) -> Result<Vec<Host>, UrlError> {
    hosts.split(',').map(|host| host_of(host, port)).collect()
}

fn host_of(address: &str, default_port: u16) -> Result<Host, UrlError> {
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        // A colon must follow the bracket; an empty port is rejected below.
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or_default())),
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() {
        return problem("has no host: write one, such as redis://127.0.0.1:6379");
    }
    let port = match port {
        None => Some(default_port),
        Some(port) => port.parse().ok().filter(|port| *port > 0),
    };
    let Some(port) = port else {
        return problem(
            "has an invalid port: write a number from 1 to 65535, such as redis://127.0.0.1:6379",
        );
    };
    let host = decoded(host)?;
    let is_name = |name: &str| {
        name.len() <= 255 && !name.contains(|c: char| "/?#@[]\\<>^|% ,:\"'`{}".contains(c))
    };
    let is_v6 = address.starts_with('[');
    let is_host = if is_v6 { host.parse::<Ipv6Addr>().is_ok() } else { is_name(&host) };
    if !is_host {
        return problem(
            "has an invalid host: write a name or an address, such as redis://db.example:6379 or redis://[::1]:6379",
        );
    }
    Ok(Host { name: host, port })
}

fn database(text: &str) -> Result<u16, UrlError> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(database) if is_number => Ok(database),
        _ if text.is_empty() => Ok(0),
        _ => problem(
            "has an invalid database: write a number from 0 to 65535, such as redis://127.0.0.1:6379/0",
        ),
    }
}

fn decoded(text: &str) -> Result<String, UrlError> {
    let text = percent_decode_str(text).decode_utf8().map_err(|_| {
        UrlError(
            "the store URL has bytes after `%` that aren't UTF-8: write a `%` itself as %25"
                .to_owned(),
        )
    })?;
    if text.contains('\0') {
        return problem("has a NUL (%00): remove it");
    }
    Ok(text.into_owned())
}

/// The characters that would end a part of a URL.
const RESERVED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'?').add(b'#').add(b'%').add(b'&').add(b'@').add(b',');

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted() { "rediss" } else { "redis" };
        let account = if self.credentials.is_some() { "***@" } else { "" };
        match &self.servers {
            Servers::One(Place::Tcp(host)) => write!(f, "{scheme}://{account}{host}")?,
            Servers::One(Place::Unix(path)) => {
                let path = path.to_string_lossy();
                write!(f, "unix://{account}{}", utf8_percent_encode(&path, RESERVED))?;
                return if self.database == 0 {
                    Ok(())
                } else {
                    write!(f, "?db={}", self.database)
                };
            }
            Servers::Cluster(hosts) => write!(f, "{scheme}+cluster://{account}{}", List(hosts))?,
            Servers::Sentinels(hosts, name) => {
                let name = utf8_percent_encode(name, NAME);
                write!(f, "{scheme}+sentinel://{account}{}/{name}", List(hosts))?;
            }
        }
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        match &self.tls {
            Some(tls) => tls.fmt(f),
            None => Ok(()),
        }
    }
}

const NAME: &AsciiSet = &RESERVED.add(b'/');

struct List<'h>(&'h [Host]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, host) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{host}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Host {
    /// Writes the host as in a URL.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, port } = self;
        if name.contains(':') { write!(f, "[{name}]:{port}") } else { write!(f, "{name}:{port}") }
    }
}

impl fmt::Display for TlsOptions {
    /// Writes the options as in a URL: nothing, or a query that starts with a question mark.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path =
            |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let values = [path(&self.ca), path(&self.cert), path(&self.key), self.server_name.clone()];
        let mut mark = '?';
        for (name, value) in Self::NAMES.iter().zip(values) {
            if let Some(value) = value {
                write!(f, "{mark}{name}={}", utf8_percent_encode(&value, RESERVED))?;
                mark = '&';
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

impl UrlError {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UrlError {}

#[cfg(test)]
mod tests;
