//! The URL of a store.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

#[cfg(feature = "redis")]
pub use sluicegate_redis::RedisUrl;

/// The URL of a store: `memory:` (or `memory`), or of Redis or Valkey servers, such as
/// `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`; [`RedisUrl`] has all the forms.
///
/// ```
/// use sluicegate::config::StoreUrl;
///
/// assert_eq!("memory:".parse(), Ok(StoreUrl::Memory));
/// # #[cfg(feature = "redis")] {
/// let store: StoreUrl = "valkeys://user:secret@db.example:6380/2".parse()?;
/// assert_eq!(store.to_string(), "rediss://***@db.example:6380/2");
/// # }
/// assert!("http://db.example".parse::<StoreUrl>().is_err());
/// # Ok::<(), sluicegate::config::StoreUrlError>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreUrl {
    /// The embedded store of this process.
    #[default]
    Memory,
    /// Redis or Valkey servers.
    Redis(RedisUrl),
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
        match text {
            "memory" | "memory:" => Ok(Self::Memory),
            _ if text.starts_with("memory:") => {
                Err(StoreUrlError("`memory:` takes nothing after the colon".to_owned()))
            }
            _ => text.parse().map(Self::Redis).map_err(|error| StoreUrlError(format!("{error}"))),
        }
    }
}

/// The reason why a store URL is invalid. The message never contains a password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreUrlError(String);

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for StoreUrlError {}

#[cfg(not(feature = "redis"))]
pub use without_redis::RedisUrl;

/// The known part of a URL that this build can't open.
#[cfg(not(feature = "redis"))]
mod without_redis {
    use std::fmt;
    use std::str::FromStr;

    use super::StoreUrlError;

    /// The URL of Redis or Valkey servers, in a build without the feature `redis`, which reads only the scheme. So
    /// files that are shared with other builds are valid here too.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct RedisUrl {
        scheme: String,
    }

    impl FromStr for RedisUrl {
        type Err = StoreUrlError;

        fn from_str(text: &str) -> Result<Self, StoreUrlError> {
            let scheme = text.split_once("://").map(|(scheme, _)| scheme).filter(|scheme| {
                let protocol = scheme.split_once('+').map_or(*scheme, |(protocol, _)| protocol);
                matches!(protocol, "redis" | "rediss" | "valkey" | "valkeys" | "unix")
            });
            let not_one = || {
                let text = "not a store URL: write memory:, or redis://HOST:PORT in a build with the feature `redis`";
                StoreUrlError(text.to_owned())
            };
            Ok(Self { scheme: scheme.ok_or_else(not_one)?.to_owned() })
        }
    }

    impl fmt::Display for RedisUrl {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{}://***", self.scheme)
        }
    }
}
