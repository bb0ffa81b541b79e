//! The URL of a store.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

/// The URL of a store: `memory:` (or `memory`), `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`,
/// or the same with `valkey://`.
///
/// ```
/// use sluicegate::config::StoreUrl;
///
/// assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
/// let store: StoreUrl = "valkey://user:secret@db.example:6380/2".parse()?;
/// assert_eq!(store.to_string(), "redis://***@db.example:6380/2");
/// assert!("rediss://db.example".parse::<StoreUrl>().is_err());
/// # Ok::<(), sluicegate::config::StoreUrlError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// The embedded store of this process.
    #[default]
    Memory,
    /// A Redis or Valkey server.
    Redis(RedisUrl),
}

/// The URL of a Redis or Valkey server. It may contain a password, so it prints without user and
/// password.
#[derive(Clone, Eq, PartialEq)]
pub struct RedisUrl(String);

impl RedisUrl {
    /// The URL to connect to, with scheme `redis://`, including user and password.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.0.strip_prefix("redis://").unwrap_or_default();
        match rest.rsplit_once('@') {
            Some((_, server)) => write!(f, "redis://***@{server}"),
            None => write!(f, "redis://{rest}"),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({self})")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Redis(url) => url.fmt(f),
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        if matches!(text, "memory" | "memory:") {
            return Ok(Self::Memory);
        }
        let is_scheme = |scheme: &str| {
            scheme.len() <= 20
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        };
        // Without a scheme, a password could be anywhere, so the message quotes nothing.
        let (scheme, rest) = text
            .split_once("://")
            .filter(|(scheme, _)| is_scheme(scheme))
            .ok_or_else(|| StoreUrlError(format!("not a store URL: {ACCEPTED}")))?;
        match scheme {
            "redis" | "valkey" => redis(rest).map(Self::Redis),
            "memory" => Err(StoreUrlError("`memory:` takes nothing after the colon".to_owned())),
            other => Err(StoreUrlError(format!("`{other}://` is not supported: {ACCEPTED}"))),
        }
    }
}

const ACCEPTED: &str = "write memory:, redis://HOST:PORT or valkey://HOST:PORT";

/// Why a store URL is invalid. The message never contains a password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreUrlError(String);

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for StoreUrlError {}

/// Parses what comes after `redis://`.
fn redis(rest: &str) -> Result<RedisUrl, StoreUrlError> {
    let problem = |message: &str| Err(StoreUrlError(message.to_owned()));
    if rest.chars().any(|character| character.is_whitespace() || character.is_control()) {
        return problem(
            "the store URL holds white space or a control character: write it as %20, %0A …",
        );
    }
    // A URL parser ends the host here: with a slash in the password, the client would connect to
    // the wrong host.
    let (authority, path) = match rest.find(['/', '?', '#']) {
        Some(end) => rest.split_at(end),
        None => (rest, ""),
    };
    if path.contains('@') {
        return problem(
            "the user or password of the store URL holds one of `/ ? #`: write them as %2F, %3F and %23",
        );
    }
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let database = path.strip_prefix('/').unwrap_or_default();
    if path.contains(['?', '#']) {
        return problem("the store URL has a query: remove it from the `?` or `#` on");
    }
    let (host, port) = match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        // What follows the bracket has to begin with a colon; an empty port is rejected below.
        Some((host, port)) => (host, Some(port.strip_prefix(':').unwrap_or_default())),
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() {
        return problem("the store URL has no host: write one, such as redis://127.0.0.1:6379");
    }
    if !port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0)) {
        return problem(
            "the port of the store URL must be a number from 1 to 65535, such as redis://127.0.0.1:6379",
        );
    }
    let is_number = database.bytes().all(|byte| byte.is_ascii_digit())
        && (database.is_empty() || database.parse::<u16>().is_ok());
    if !is_number {
        return problem(
            "the database of the store URL must be a number from 0 to 65535, such as redis://127.0.0.1:6379/0",
        );
    }
    let url = format!("redis://{rest}");
    // The client parses the URL again. Check now that it can, rather than at the first use.
    #[cfg(feature = "redis")]
    drop(
        sluicegate_redis::RedisStore::builder(&url)
            .map_err(|error| StoreUrlError(error.to_string()))?,
    );
    Ok(RedisUrl(url))
}
