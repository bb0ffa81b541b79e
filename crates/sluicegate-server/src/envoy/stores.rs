//! The stores of the rules' limits.

use std::fmt;

use sluicegate::config::{Password, RegistryBuilder, StoreUrl};
use sluicegate::store::{SharedStore, StoreOptions};
use sluicegate::{Config, Registry};
use sluicegate_envoy::incumbent::{Environment, Redis};

use super::per_second::PerSecond;
use crate::output::Failure;

/// The store of the limits, and maybe one of its own for those per second.
///
/// Prints as their addresses, without passwords.
pub(super) struct Stores {
    /// The configuration without limits of rules.
    config: Config,
    per_second: Option<Config>,
}

impl Stores {
    /// Finds the stores by the environment; `store` replaces the one of all limits.
    ///
    /// # Errors
    /// Returns an error if a URL is invalid.
    pub(super) fn new(store: Option<&str>, environment: &Environment) -> Result<Self, Failure> {
        let mut base = Config::default();
        base.limits.clear();
        let of = |redis: &Redis, variables: &str| with_redis(base.clone(), redis, variables);
        let per_second = environment.redis_per_second.as_ref();
        let per_second = per_second
            .map(|redis| of(redis, "REDIS_PERSECOND_URL and REDIS_PERSECOND_TYPE"))
            .transpose()?;
        let mut config = base.clone();
        match (store, &environment.redis) {
            (Some(store), _) => config.store = crate::setup::store_url(store)?,
            (None, Some(redis)) => config = of(redis, "REDIS_URL and REDIS_TYPE")?,
            (None, None) => config.store = StoreUrl::Memory,
        }
        Ok(Self { config, per_second })
    }

    /// Returns the configuration of a registry without limits of rules.
    pub(super) fn config(&self) -> Config {
        self.config.clone()
    }

    /// Returns a registry over the stores.
    ///
    /// # Errors
    /// Returns an error if a store can't be opened.
    pub(super) fn registry(&self) -> Result<RegistryBuilder, Failure> {
        let Some(per_second) = &self.per_second else {
            return Registry::builder_from(&self.config).map_err(Failure::usage);
        };
        let store = PerSecond { per_second: open(per_second)?, others: open(&self.config)? };
        Ok(Registry::builder(store).config(&self.config))
    }
}

impl fmt::Display for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.per_second {
            Some(per_second) => {
                write!(f, "{}, and {} for limits per second", self.config.store, per_second.store)
            }
            None => self.config.store.fmt(f),
        }
    }
}

fn open(config: &Config) -> Result<SharedStore, Failure> {
    config.store.open(&StoreOptions::from(config)).map_err(Failure::usage)
}

fn with_redis(mut config: Config, redis: &Redis, variables: &str) -> Result<Config, Failure> {
    config.store =
        redis.url.parse().map_err(|error| Failure::usage(format_args!("{variables}: {error}")))?;
    let access = &mut config.redis.access;
    access.user.clone_from(&redis.user);
    access.password = redis.password.clone().map(Password::Text);
    access.ca = redis.ca.as_ref().map(Into::into);
    access.cert = redis.cert.as_ref().map(Into::into);
    access.key = redis.key.as_ref().map(Into::into);
    Ok(config)
}
