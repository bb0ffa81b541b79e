//! Setup of a Redis or Valkey store.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use sluicegate_core::KeyPrefix;

use super::switch::Switch;

/// Setup of a Redis or Valkey store.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct RedisConfig {
    /// The prefix of every key.
    pub prefix: KeyPrefix,
    /// Whether a circuit breaker stops calls to a server that fails ([`Breaker`](crate::layers::Breaker)). Default: on.
    pub breaker: Switch,
    /// The number of connections to each server, or each node of a cluster: 1 to
    /// [`MAX_CONNECTIONS`](Self::MAX_CONNECTIONS). Default: 1.
    pub connections: NonZeroUsize,
    /// Access settings for the servers that the URL doesn't set.
    pub access: RedisAccess,
    /// Access settings for sentinels, if the URL names some.
    pub sentinel: SentinelAccess,
}

impl RedisConfig {
    /// Maximum number of connections to one server.
    pub const MAX_CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16).unwrap();
}

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            prefix: KeyPrefix::default(),
            breaker: Switch::default(),
            connections: NonZeroUsize::MIN,
            access: RedisAccess::default(),
            sentinel: SentinelAccess::default(),
        }
    }
}

/// The credentials for servers, and the trusted authorities. Files are read for each connection, so that the next one
/// uses a replaced password or certificate without a restart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RedisAccess {
    /// The user; without one, the default user of the server.
    pub user: Option<String>,
    /// The password.
    pub password: Option<Password>,
    /// A file with the certificates of the authorities to trust, in PEM. Default: those of the system.
    pub ca: Option<PathBuf>,
    /// A file with the certificate to show, in PEM.
    pub cert: Option<PathBuf>,
    /// A file with the private key of `cert`, in PEM.
    pub key: Option<PathBuf>,
    /// The name that the server's certificate has to be for. Default: the host of the URL.
    pub server_name: Option<String>,
}

/// The credentials for sentinels, and the trusted authorities. Sentinels get only the certificates of the servers'
/// credentials.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct SentinelAccess {
    /// Whether connections to them use TLS. Default: as for the servers.
    pub is_encrypted: Option<bool>,
    /// User, password and certificates. Missing certificates default to those for the servers.
    pub access: RedisAccess,
}

/// The source of a password. It prints without the password.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum Password {
    /// The password itself.
    Text(String),
    /// A file with the password and nothing else; line breaks at its end don't count.
    File(PathBuf),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(***)"),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
        }
    }
}

#[cfg(feature = "redis")]
mod with_redis {
    use std::error::Error;

    use sluicegate_redis::{Credentials, RedisStoreBuilder, RedisUrl, TlsOptions, UrlError};

    use super::{Password, RedisAccess, SentinelAccess};

    impl RedisAccess {
        /// Returns the first of the options of TLS that is set.
        pub(in crate::config_file) fn option_of_tls(&self) -> Option<&'static str> {
            let Self { user: _, password: _, ca, cert, key, server_name } = self;
            let set = [ca.is_some(), cert.is_some(), key.is_some(), server_name.is_some()];
            ["ca", "cert", "key", "server_name"]
                .into_iter()
                .zip(set)
                .find_map(|(name, is)| is.then_some(name))
        }

        /// Returns the options of TLS, unless `url` overrides them.
        pub(in crate::config_file) fn tls(&self, url: Option<&RedisUrl>) -> TlsOptions {
            let mut options = url.and_then(RedisUrl::tls).cloned().unwrap_or_default();
            options.ca = options.ca.or_else(|| self.ca.clone());
            // They can only be used together.
            if options.cert.is_none() && options.key.is_none() {
                (options.cert, options.key) = (self.cert.clone(), self.key.clone());
            }
            options.server_name = options.server_name.or_else(|| self.server_name.clone());
            options
        }

        /// Sets up the builder of a store at `url`. The URL takes precedence.
        pub(crate) fn apply(
            &self,
            url: &RedisUrl,
            builder: RedisStoreBuilder,
        ) -> Result<RedisStoreBuilder, UrlError> {
            let builder = builder.tls(self.tls(Some(url)))?;
            let written = url.credentials();
            if written.is_some_and(Credentials::has_password) {
                return Ok(builder);
            }
            let user = written.and_then(Credentials::user).or(self.user.as_deref());
            let user = user.map(str::to_owned);
            let Some(password) = self.password.clone() else {
                return Ok(match user {
                    Some(user) => builder.credentials(move || Ok(Credentials::new(&*user, ""))),
                    None => builder,
                });
            };
            Ok(builder.credentials(move || credentials(user.as_deref(), &password)))
        }
    }

    impl SentinelAccess {
        /// Sets up how the builder of a store at `url`, with access to its servers by `servers`, connects to its
        /// sentinels.
        pub(crate) fn apply(
            &self,
            url: &RedisUrl,
            servers: &RedisAccess,
            mut builder: RedisStoreBuilder,
        ) -> Result<RedisStoreBuilder, UrlError> {
            if !url.has_sentinels() {
                return Ok(builder);
            }
            let RedisAccess { user, password, .. } = &self.access;
            if let (user, Some(password)) = (user.clone(), password.clone()) {
                builder =
                    builder.sentinel_credentials(move || credentials(user.as_deref(), &password));
            } else if let Some(user) = user.clone() {
                builder = builder.sentinel_credentials(move || Ok(Credentials::new(&*user, "")));
            }
            let options = self.is_encrypted.unwrap_or(url.is_encrypted()).then(|| {
                let theirs = servers.tls(Some(url));
                let mut options = self.access.tls(None);
                options.ca = options.ca.or(theirs.ca);
                if options.cert.is_none() && options.key.is_none() {
                    (options.cert, options.key) = (theirs.cert, theirs.key);
                }
                options.server_name = options.server_name.or(theirs.server_name);
                options
            });
            builder.sentinel_tls(options)
        }
    }

    fn credentials(
        user: Option<&str>,
        password: &Password,
    ) -> Result<Credentials, Box<dyn Error + Send + Sync>> {
        match (password, user) {
            (Password::File(file), user) => Ok(Credentials::from_file(user, file)?),
            (Password::Text(text), Some(user)) => Ok(Credentials::new(user, text)),
            (Password::Text(text), None) => Ok(Credentials::of_default_user(text)),
        }
    }
}
