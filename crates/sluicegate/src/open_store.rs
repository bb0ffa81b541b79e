//! Opening a store from its URL.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "redis")]
use sluicegate_core::Store;
use sluicegate_core::{Clock, KeyPrefix, SharedStore};
use sluicegate_memory::MemoryStore;
#[cfg(feature = "redis")]
use sluicegate_redis::{RedisStore, RedisStoreBuilder};

use crate::capacity::TooSmall;
use crate::config_file::{
    Config, FallbackConfig, MemoryConfig, RedisAccess, SentinelAccess, StoreUrl, Switch,
};
#[cfg(feature = "redis")]
use crate::layers::{Breaker, DenyCache, Fallback, Leases, Retry};
use crate::uses::MissingNames;

/// The options of a store. Each kind of store uses those that concern it.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Redis: the prefix of every key.
    pub prefix: KeyPrefix,
    /// Redis: access settings for its servers that the URL doesn't set.
    pub access: RedisAccess,
    /// Redis: access settings for sentinels, if the URL names some.
    pub sentinel: SentinelAccess,
    /// Redis: maximum time of one call for a limit without a deadline. Default: 50 ms.
    pub deadline: Duration,
    /// Redis: whether a circuit breaker stops calls to a server that fails. Default: on.
    pub breaker: Switch,
    /// Redis: the number of connections to each server, or each node of a cluster, up to 16. Default: 1.
    pub connections: NonZeroUsize,
    /// Redis: the fallback for a server that fails, for limits whose [`OnStoreFailure`](crate::OnStoreFailure)
    /// is `Local`. Default: none.
    pub fallback: Option<FallbackConfig>,
    /// Maximum time by which a state's timestamp may be ahead of the store's clock. A state beyond counts as stamped
    /// now. Default: 5 s.
    pub max_clock_back: Duration,
    /// Embedded store: the maximum number of keys and of their bytes, and what happens beyond.
    pub memory: MemoryConfig,
    /// Embedded store: its clock. Default: the process's clock.
    pub clock: Option<Arc<dyn Clock>>,
}

/// The reason why a store can't be opened from its URL, or a registry from a configuration. The message says what
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

    /// Returns the error if some caps of the embedded store can't hold one key of each limit.
    pub(crate) fn unless_it_fits(too_small: &[TooSmall]) -> Result<(), Self> {
        let messages: Vec<_> = too_small.iter().map(|cap| cap.message()).collect();
        if messages.is_empty() { Ok(()) } else { Err(Self::store(messages.join("; "))) }
    }

    /// Returns the names that the configuration lacks, if they are the reason.
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
    /// use sluicegate::Limiter;
    /// use sluicegate::config::StoreUrl;
    /// use sluicegate::store::StoreOptions;
    ///
    /// let store = "memory:".parse::<StoreUrl>()?.open(&StoreOptions::default())?;
    /// let limiter = Limiter::new(store, sluicegate::Limit::new("login", ["gcra 5/min"])?);
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// assert!(limiter.check("alice").await?.is_allowed());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if this build doesn't support the URL, or the options don't fit it.
    pub fn open(&self, options: &StoreOptions) -> Result<SharedStore, OpenError> {
        match self {
            Self::Memory => Ok(SharedStore::new(options.embedded())),
            #[cfg(feature = "redis")]
            Self::Redis(url) => {
                let builder = RedisStoreBuilder::new(url)
                    .and_then(|builder| options.access.apply(url, builder))
                    .and_then(|builder| options.sentinel.apply(url, &options.access, builder))
                    .map_err(|error| OpenError::store(format!("store {self}: {error}")))?;
                let builder = builder
                    .prefix(options.prefix.clone())
                    .deadline(options.deadline)
                    .connections(options.connections)
                    .max_clock_back(options.max_clock_back);
                Ok(options.with_layers(builder.build()))
            }
            #[cfg(not(feature = "redis"))]
            Self::Redis(_) => Err(OpenError::store(format!(
                "store {self}: this build has no Redis: enable the feature `redis` of the crate `sluicegate`"
            ))),
        }
    }
}

impl StoreOptions {
    /// Returns the store with the layers before a server. Denials are remembered, units leased and requests retried. A
    /// local limiter takes over only for limits that ask for it.
    #[cfg(feature = "redis")]
    fn with_layers(&self, store: RedisStore) -> SharedStore {
        let store = Retry::of_those_who_want(store, self.deadline);
        match self.breaker {
            Switch::On => self.falling_back(Breaker::new(store)),
            Switch::Off => self.falling_back(store),
        }
    }

    #[cfg(feature = "redis")]
    fn falling_back(&self, store: impl Store) -> SharedStore {
        match self.fallback {
            Some(FallbackConfig { processes }) => {
                let local = MemoryStore::builder()
                    .overflow(sluicegate_memory::Overflow::Deny)
                    .max_clock_back(self.max_clock_back);
                let fallback = Fallback::builder(store, processes).local(local.build());
                within_reach(fallback.by_default(false).build())
            }
            None => within_reach(store),
        }
    }

    fn embedded(&self) -> MemoryStore {
        let mut builder = self.memory.builder().max_clock_back(self.max_clock_back);
        if let Some(clock) = &self.clock {
            builder = builder.clock(Arc::clone(clock));
        }
        builder.build()
    }
}

#[cfg(feature = "redis")]
fn within_reach(store: impl Store) -> SharedStore {
    let remembering = DenyCache::builder(store).by_default(false).build();
    SharedStore::new(Leases::builder(remembering).by_default(None).build())
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            prefix: KeyPrefix::default(),
            access: RedisAccess::default(),
            sentinel: SentinelAccess::default(),
            deadline: Config::DEADLINE,
            breaker: Switch::On,
            connections: NonZeroUsize::MIN,
            fallback: None,
            max_clock_back: Config::MAX_CLOCK_BACK,
            memory: MemoryConfig::default(),
            clock: None,
        }
    }
}

impl From<&Config> for StoreOptions {
    /// Returns the options from a configuration; the deadline is the default, [`Config::DEADLINE`].
    fn from(config: &Config) -> Self {
        Self {
            prefix: config.redis.prefix.clone(),
            access: config.redis.access.clone(),
            breaker: config.redis.breaker,
            connections: config.redis.connections,
            fallback: config.fallback,
            sentinel: config.redis.sentinel.clone(),
            memory: config.memory.clone(),
            max_clock_back: config.max_clock_back,
            ..Self::default()
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("prefix", &self.prefix)
            .field("access", &self.access)
            .field("sentinel", &self.sentinel)
            .field("deadline", &self.deadline)
            .field("breaker", &self.breaker)
            .field("connections", &self.connections)
            .field("fallback", &self.fallback)
            .field("max_clock_back", &self.max_clock_back)
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
    use sluicegate_core::{ManualClock, Store as _, Timestamp};

    use super::*;

    #[test]
    fn the_embedded_store_is_set_up_as_told() {
        let mut options = StoreOptions::default();
        options.memory.max_keys = NonZeroUsize::new(1_234);
        options.memory.max_bytes = NonZeroUsize::new(5_000_000);
        let store = StoreUrl::Memory.open(&options).unwrap();
        assert_eq!(store.stats().max_keys, Some(1_234));
        assert_eq!(store.stats().max_bytes, Some(5_000_000));
        let limiter =
            crate::Limiter::new(store.clone(), crate::Limit::new("l", ["gcra 1/s"]).unwrap());
        assert!(limiter.check("k").now().unwrap().is_allowed());
        assert_eq!(store.stats().keys, Some(1), "clones share the state");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(store.ping()).unwrap();
    }

    #[test]
    #[cfg(feature = "redis")]
    fn as_many_connections_are_opened_as_the_configuration_says() {
        let text = "redis: {connections: 3}\nlimits: {l: {policies: [gcra 1/s]}}";
        let config = Config::parse(text, "limits.yaml").unwrap();
        assert_eq!(StoreOptions::from(&config).connections.get(), 3);
        assert_eq!(StoreOptions::default().connections.get(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_holds_up_a_key_as_long_as_the_configuration_says() {
        let allows_after_two_seconds = |more: &str| {
            let text = format!("{more}\nlimits: {{l: {{policies: [gcra 1/s]}}}}");
            let config = Config::parse(&text, "limits.yaml").unwrap();
            let clock = Arc::new(ManualClock::default());
            let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000).unwrap();
            let mut options = StoreOptions::from(&config);
            options.clock = Some(clock.clone());
            let store = config.store.open(&options).unwrap();
            let limiter = crate::Limiter::new(store, config.limits[0].limit.clone());
            let [first, second, third] = [1_000, 900, 902].map(|seconds| {
                clock.set(at(seconds));
                limiter.check("k").now().unwrap().is_allowed()
            });
            assert!(first && !second);
            third
        };
        assert!(allows_after_two_seconds(""), "five seconds is what it is by default");
        assert!(!allows_after_two_seconds("max_clock_back: 2min"));
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
        // The order in which several servers are named doesn't matter.
        let [one, other] =
            ["a:1,b:2", "b:2,a:1"].map(|hosts| id(&format!("redis+cluster://{hosts}")));
        assert_eq!(one, other);
        assert_ne!(id("redis+cluster://a:1"), id("redis://a:1"));
        let [one, other] =
            ["a:1,b:2", "b:2,a:1"].map(|hosts| id(&format!("redis+sentinel://{hosts}/main")));
        assert_eq!(one, other);
        assert_ne!(one, id("redis+sentinel://a:1,b:2/other"));
    }
}
