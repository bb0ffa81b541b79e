//! All limits of a config file, by name.

use std::time::Duration;

use tollgate_core::Limit;

use crate::any_store::{AnyStore, OpenError, StoreOptions};
use crate::config::{Config, LimitConfig, StoreUrl};
use crate::limiter::Limiter;

/// All limits of a config file, each with a limiter in the store that the file names.
///
/// ```
/// use tollgate::{Registry, config::Config};
///
/// let config = Config::parse("limits: {login: {policies: [gcra 5/min]}}", "limits.yaml")?;
/// let registry = Registry::open(&config)?;
/// assert!(registry.get("login").is_some());
/// assert!(registry.get("logout").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Registry {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    config: LimitConfig,
    limiter: Limiter<AnyStore>,
}

impl Registry {
    /// Makes the stores and the limiters of a config. Connects to nothing: that happens at the
    /// first use.
    ///
    /// # Errors
    /// When the store can't be made from its URL.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        // A store has one deadline for all its calls: limits with the same one share a store. The
        // embedded store never waits, and its state is its own: all limits share one.
        let mut stores: Vec<(Duration, AnyStore)> = Vec::new();
        let mut entries = Vec::with_capacity(config.limits.len());
        for limit in &config.limits {
            let options =
                StoreOptions { deadline: limit.deadline.into(), ..StoreOptions::from(config) };
            let embedded = config.store == StoreUrl::Memory;
            let known =
                stores.iter().find(|(deadline, _)| embedded || *deadline == options.deadline);
            let store = match known {
                Some((_, store)) => store.clone(),
                None => {
                    let store = AnyStore::open(&config.store, &options)?;
                    stores.push((options.deadline, store.clone()));
                    store
                }
            };
            let limiter = Limiter::builder(store, limit.limit.clone())
                .on_store_failure(limit.on_store_failure)
                .build();
            entries.push(Entry { config: limit.clone(), limiter });
        }
        Ok(Self { entries })
    }

    /// The limiter of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Limiter<AnyStore>> {
        self.position(name).and_then(|index| self.entries.get(index)).map(|entry| &entry.limiter)
    }

    /// The place of a name in the order of the file.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.entries.iter().position(|entry| entry.config.limit.name().as_str() == name)
    }

    /// What the file says of each limit, with its limiter, in the order of the file.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&LimitConfig, &Limiter<AnyStore>)> {
        self.entries.iter().map(|entry| (&entry.config, &entry.limiter))
    }

    /// The limits, in the order of the file.
    #[must_use]
    pub fn limits(&self) -> impl ExactSizeIterator<Item = &Limit> {
        self.entries.iter().map(|entry| entry.limiter.limit())
    }
}
