//! Opening a store from its URL.

use std::fmt;
use std::sync::Arc;

use sluicegate_core::{Clock, KeyPrefix, SharedStore, Span};
use sluicegate_memory::MemoryStore;
#[cfg(feature = "redis")]
use sluicegate_redis::RedisStore;

use crate::config::{Config, MemoryConfig, Overflow, StoreUrl};
use crate::uses::MissingNames;

/// The options of a store. Each kind of store uses those that concern it.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Redis: the prefix of every key.
    pub prefix: KeyPrefix,
    /// Redis: how long one call may take for a limit without a deadline. Default: 50 ms.
    pub deadline: Span,
    /// Embedded store: the maximum number of keys, and what happens beyond.
    pub memory: MemoryConfig,
    /// Embedded store: its clock. Default: the process's clock.
    pub clock: Option<Arc<dyn Clock>>,
}

/// Why a store can't be opened from its URL, or a registry from a configuration. The message says what
/// to change, and never contains a password.
#[derive(Clone, Eq, PartialEq)]
pub struct OpenError(Reason);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Reason {
    Store(String),
    Missing(MissingNames),
}

impl OpenError {
    fn store(message: String) -> Self {
        Self(Reason::Store(message))
    }

    /// The names that the configuration lacks, if that is why.
    #[must_use]
    pub const fn missing(&self) -> Option<&MissingNames> {
        match &self.0 {
            Reason::Missing(missing) => Some(missing),
            Reason::Store(_) => None,
        }
    }
}

impl From<MissingNames> for OpenError {
    fn from(missing: MissingNames) -> Self {
        Self(Reason::Missing(missing))
    }
}

impl StoreUrl {
    /// Opens the store that the URL names. It doesn't connect yet: the first use does.
    ///
    /// ```
    /// use sluicegate::{Limiter, StoreOptions, StoreUrl};
    ///
    /// let store = "memory:".parse::<StoreUrl>()?.open(&StoreOptions::default())?;
    /// let limiter = Limiter::new(store, sluicegate::limit("login", ["gcra 5/min"])?);
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// assert!(limiter.check("alice").await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If this build or the Redis client doesn't support the URL.
    pub fn open(&self, options: &StoreOptions) -> Result<SharedStore, OpenError> {
        match self {
            Self::Memory => Ok(SharedStore::new(options.embedded())),
            #[cfg(feature = "redis")]
            Self::Redis(url) => {
                let store = RedisStore::builder(url.expose())
                    .map_err(|error| OpenError::store(format!("store {self}: {error}")))?
                    .prefix(options.prefix.clone())
                    .deadline(options.deadline)
                    .build();
                Ok(SharedStore::new(store))
            }
            #[cfg(not(feature = "redis"))]
            Self::Redis(_) => Err(OpenError::store(format!(
                "store {self}: this build has no Redis: enable the feature `redis` of the crate `sluicegate`"
            ))),
        }
    }
}

impl StoreOptions {
    fn embedded(&self) -> MemoryStore {
        let mut builder = MemoryStore::builder();
        if let Some(most) = self.memory.max_keys {
            builder = builder.max_keys(most);
        }
        builder = builder.overflow(match self.memory.overflow {
            Overflow::Evict => sluicegate_memory::Overflow::Evict,
            Overflow::Deny => sluicegate_memory::Overflow::Deny,
        });
        if let Some(clock) = &self.clock {
            builder = builder.clock(Arc::clone(clock));
        }
        builder.build()
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            prefix: KeyPrefix::default(),
            deadline: Config::DEADLINE,
            memory: MemoryConfig::default(),
            clock: None,
        }
    }
}

impl From<&Config> for StoreOptions {
    /// The options from a configuration; the deadline is the default, [`Config::DEADLINE`].
    fn from(config: &Config) -> Self {
        Self {
            prefix: config.redis.prefix.clone(),
            memory: config.memory.clone(),
            ..Self::default()
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("prefix", &self.prefix)
            .field("deadline", &self.deadline)
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Store(message) => f.write_str(message),
            Reason::Missing(missing) => missing.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use sluicegate_core::Store as _;

    use super::*;

    #[test]
    fn the_embedded_store_is_set_up_as_told() {
        let mut options = StoreOptions::default();
        options.memory.max_keys = std::num::NonZeroUsize::new(1_234);
        let store = StoreUrl::Memory.open(&options).unwrap();
        assert_eq!(store.stats().max_keys, Some(1_234));
        let limiter = crate::Limiter::new(store.clone(), crate::limit("l", ["gcra 1/s"]).unwrap());
        assert!(limiter.check_now("k").unwrap().is_allowed());
        assert_eq!(store.stats().keys, Some(1), "clones share the state");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.ping()).unwrap();
    }

    #[test]
    #[cfg(feature = "redis")]
    fn a_store_is_called_by_its_address_without_the_password() {
        let id = |url: &str| {
            url.parse::<StoreUrl>().unwrap().open(&StoreOptions::default()).unwrap().id()
        };
        let one = id("redis://user:secret@127.0.0.1:1/2");
        assert!(!one.to_string().contains("secret"), "{one}");
        assert_eq!(one, id("redis://user:secret@127.0.0.1:1/2"));
        assert_ne!(one, id("redis://user:secret@127.0.0.1:2/2"));
        assert_ne!(one, id("redis://user:secret@127.0.0.1:1/3"), "a database has its own keys");
        assert_eq!(id("redis://127.0.0.1:1"), id("redis://127.0.0.1:1/0"));
        assert_ne!(id("memory:"), id("memory:"), "each embedded store is its own");
    }
}
