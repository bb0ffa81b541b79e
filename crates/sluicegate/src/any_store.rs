//! A store chosen when the program runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    Clock, Decision, EmbeddedStore, KeyPrefix, Limit, Request, SliceCounts, Store, StoreError,
    TimeSource,
};
use sluicegate_memory::{MemoryStore, Stats as MemoryStats};
#[cfg(feature = "redis")]
use sluicegate_redis::RedisStore;

use crate::config::{Config, MemoryConfig, Overflow, StoreUrl};

/// A store chosen by its URL when the program runs. Cloning is cheap, and clones share the state.
///
/// ```
/// use sluicegate::{AnyStore, Limiter, StoreOptions};
///
/// let store = AnyStore::open(&"memory:".parse()?, &StoreOptions::default())?;
/// let limiter = Limiter::new(store, sluicegate::limit("login", ["gcra 5/min"])?);
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// assert!(limiter.check("alice").await?.is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum AnyStore {
    /// The embedded store of this process.
    Memory(Arc<MemoryStore>),
    /// A Redis or Valkey server.
    #[cfg(feature = "redis")]
    Redis(RedisStore),
}

/// What [`AnyStore`] prepared for a limit.
pub struct AnyHandle(Inner);

enum Inner {
    Memory(<MemoryStore as Store>::Handle),
    #[cfg(feature = "redis")]
    Redis(<RedisStore as Store>::Handle),
}

/// What it takes to give a reservation in an [`AnyStore`] back.
#[derive(Debug)]
pub struct AnyReceipt(InnerReceipt);

#[derive(Debug)]
enum InnerReceipt {
    Memory(<MemoryStore as Store>::Receipt),
    #[cfg(feature = "redis")]
    Redis(<RedisStore as Store>::Receipt),
}

/// How a store is set up: each kind of store takes what concerns it.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Redis: what every key begins with.
    pub prefix: KeyPrefix,
    /// Redis: how long one call may take; 50 ms unless told.
    pub deadline: Duration,
    /// Embedded: the most keys, and what happens above them.
    pub memory: MemoryConfig,
    /// Embedded: where its time comes from; the process's clock unless told.
    pub clock: Option<Arc<dyn Clock>>,
}

/// A store that can't be made from its URL. The message says what to change and never holds a
/// password.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenError(String);

impl AnyStore {
    /// Makes the store that `url` names. Connects to nothing: that happens at the first use.
    ///
    /// # Errors
    /// When the URL names a store that this build or the client doesn't know.
    pub fn open(url: &StoreUrl, options: &StoreOptions) -> Result<Self, OpenError> {
        match url {
            StoreUrl::Memory => Ok(Self::Memory(Arc::new(options.embedded()))),
            #[cfg(feature = "redis")]
            StoreUrl::Redis(redis) => {
                let store = RedisStore::builder(redis.expose())
                    .map_err(|error| OpenError(format!("store {url}: {error}")))?
                    .prefix(options.prefix.clone())
                    .deadline(options.deadline)
                    .build();
                Ok(Self::Redis(store))
            }
            #[cfg(not(feature = "redis"))]
            StoreUrl::Redis(_) => Err(OpenError(format!(
                "store {url}: this build has no Redis: enable the feature `redis` of the crate `sluicegate`"
            ))),
        }
    }

    /// What the embedded store holds and has dropped; `None` of another store.
    #[must_use]
    pub fn stats(&self) -> Option<MemoryStats> {
        match self {
            Self::Memory(store) => Some(store.stats()),
            #[cfg(feature = "redis")]
            Self::Redis(_) => None,
        }
    }

    /// One step of tidying up, to be called once a second or so: an embedded store removes states
    /// that equal a fresh key's. Other stores do it by themselves.
    pub fn sweep_some(&self) {
        match self {
            Self::Memory(store) => {
                let _ = store.sweep_some();
            }
            #[cfg(feature = "redis")]
            Self::Redis(_) => {}
        }
    }

    /// Asks whether the store can decide. The embedded store always can; on a server a script writes
    /// a key that lives for a second.
    ///
    /// # Errors
    /// When it can't; the message says why.
    pub async fn ping(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            #[cfg(feature = "redis")]
            Self::Redis(store) => store.ping().await,
        }
    }
}

impl Store for AnyStore {
    type Handle = AnyHandle;
    type Receipt = AnyReceipt;

    fn open(&self, limit: Arc<Limit>, time: TimeSource) -> AnyHandle {
        AnyHandle(match self {
            Self::Memory(store) => Inner::Memory(store.open(limit, time)),
            #[cfg(feature = "redis")]
            Self::Redis(store) => Inner::Redis(store.open(limit, time)),
        })
    }

    async fn decide<'a>(
        &'a self,
        handle: &'a AnyHandle,
        request: Request<'a>,
    ) -> Result<Decision, StoreError> {
        match (self, &handle.0) {
            (Self::Memory(store), Inner::Memory(handle)) => store.decide_now(handle, request),
            #[cfg(feature = "redis")]
            (Self::Redis(store), Inner::Redis(handle)) => store.decide(handle, request).await,
            #[cfg(feature = "redis")]
            _ => Err(foreign()),
        }
    }

    fn decide_at_once(
        &self,
        handle: &AnyHandle,
        request: Request<'_>,
    ) -> Option<Result<Decision, StoreError>> {
        match (self, &handle.0) {
            (Self::Memory(store), Inner::Memory(handle)) => Some(store.decide_now(handle, request)),
            #[cfg(feature = "redis")]
            (Self::Redis(store), Inner::Redis(handle)) => store.decide_at_once(handle, request),
            #[cfg(feature = "redis")]
            _ => Some(Err(foreign())),
        }
    }

    async fn reserve<'a>(
        &'a self,
        handle: &'a AnyHandle,
        request: Request<'a>,
    ) -> Result<(Decision, Option<AnyReceipt>), StoreError> {
        match (self, &handle.0) {
            (Self::Memory(store), Inner::Memory(handle)) => {
                let (decision, receipt) = store.reserve_now(handle, request)?;
                Ok((decision, receipt.map(InnerReceipt::Memory).map(AnyReceipt)))
            }
            #[cfg(feature = "redis")]
            (Self::Redis(store), Inner::Redis(handle)) => {
                let (decision, receipt) = store.reserve(handle, request).await?;
                Ok((decision, receipt.map(InnerReceipt::Redis).map(AnyReceipt)))
            }
            #[cfg(feature = "redis")]
            _ => Err(foreign()),
        }
    }

    async fn cancel<'a>(
        &'a self,
        handle: &'a AnyHandle,
        receipt: &'a AnyReceipt,
    ) -> Result<bool, StoreError> {
        match (self, &handle.0, &receipt.0) {
            (Self::Memory(store), Inner::Memory(handle), InnerReceipt::Memory(receipt)) => {
                Ok(store.cancel_now(handle, receipt))
            }
            #[cfg(feature = "redis")]
            (Self::Redis(store), Inner::Redis(handle), InnerReceipt::Redis(receipt)) => {
                store.cancel(handle, receipt).await
            }
            #[cfg(feature = "redis")]
            _ => Err(foreign()),
        }
    }

    async fn slices<'a>(
        &'a self,
        handle: &'a AnyHandle,
        request: Request<'a>,
    ) -> Result<SliceCounts, StoreError> {
        match (self, &handle.0) {
            (Self::Memory(store), Inner::Memory(handle)) => store.slices_now(handle, request),
            #[cfg(feature = "redis")]
            (Self::Redis(store), Inner::Redis(handle)) => store.slices(handle, request).await,
            #[cfg(feature = "redis")]
            _ => Err(foreign()),
        }
    }
}

#[cfg(feature = "redis")]
#[cold]
fn foreign() -> StoreError {
    StoreError::new(
        sluicegate_core::StoreErrorKind::InvalidRequest,
        "the limit was opened by a store of another kind: open it by the one that is asked",
    )
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory(_) => "AnyStore::Memory(..)",
            #[cfg(feature = "redis")]
            Self::Redis(_) => "AnyStore::Redis(..)",
        })
    }
}

impl fmt::Debug for AnyHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyHandle").finish_non_exhaustive()
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
            deadline: Config::DEADLINE.into(),
            memory: MemoryConfig::default(),
            clock: None,
        }
    }
}

impl From<&Config> for StoreOptions {
    /// What the file says; the deadline is that of no particular limit, [`Config::DEADLINE`].
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
        f.write_str(&self.0)
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "redis")]
    fn a_limit_of_another_kind_of_store_is_refused() {
        let open =
            |url: &str| AnyStore::open(&url.parse().unwrap(), &StoreOptions::default()).unwrap();
        let limit = Arc::new(crate::limit("l", ["gcra 1/s"]).unwrap());
        let elsewhere = open("redis://127.0.0.1:1").open(limit, TimeSource::Store);
        let memory = open("memory:");
        let answer = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
            .block_on(memory.decide(&elsewhere, Request::check(b"k")));
        assert_eq!(answer.unwrap_err().kind(), sluicegate_core::StoreErrorKind::InvalidRequest);
    }

    #[test]
    fn the_embedded_store_is_set_up_as_told() {
        let mut options = StoreOptions::default();
        options.memory.max_keys = std::num::NonZeroUsize::new(1_234);
        let store = AnyStore::open(&StoreUrl::Memory, &options).unwrap();
        assert_eq!(store.stats().map(|stats| stats.max_keys), Some(1_234));
        let clone = store.clone();
        let limiter = crate::Limiter::new(clone, crate::limit("l", ["gcra 1/s"]).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(limiter.check("k")).unwrap().is_allowed());
        assert_eq!(store.stats().map(|stats| stats.keys), Some(1), "clones share the state");
        runtime.block_on(store.ping()).unwrap();
    }
}
