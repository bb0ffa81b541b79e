//! Configures a registry.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sluicegate_core::{SharedStore, Store as _};

use super::overridden::Overridden;
use super::shared::{Fixed, Shared, StoreSource, Writer};
use super::{Registry, parts};
use crate::capacity::TooSmall;
use crate::config_file::{Config, LimitConfig, MetricsConfig, StoreUrl};
use crate::config_file::{RespConfig, Switch, UnknownLimit};
use crate::observe::{Observer, Observers};
use crate::open_store::{OpenError, StoreOptions};
use crate::uses::{MissingNames, UsedNames, Uses};

/// A builder of a [`Registry`].
///
/// ```
/// use sluicegate::{MemoryStore, Registry};
/// use sluicegate::config::UnknownLimit;
///
/// let registry = Registry::builder(MemoryStore::new())
///     .limit(sluicegate::Limit::new("login", ["gcra 5/min"])?)
///     .unknown(UnknownLimit::Deny)
///     .build();
/// assert!(registry.gate("login").check("alice").now()?.is_allowed());
/// assert!(registry.gate("logout").check("alice").now()?.is_denied());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct RegistryBuilder {
    store: SharedStore,
    store_source: StoreSource,
    config: Option<Config>,
    limits: Vec<LimitConfig>,
    enabled: Switch,
    unknown: UnknownLimit,
    observers: Observers,
}

impl RegistryBuilder {
    pub(super) fn new(store: SharedStore, store_source: StoreSource) -> Self {
        Self {
            store,
            store_source,
            config: None,
            limits: Vec::new(),
            enabled: Switch::default(),
            unknown: UnknownLimit::default(),
            observers: Observers::default(),
        }
    }

    /// Returns a builder with the store that a configuration names.
    pub(super) fn open(config: &Config) -> Result<Self, OpenError> {
        let store = config.store.open(&StoreOptions::from(config))?;
        // The file was checked for the store that it names, which the caller may have replaced.
        if config.store == StoreUrl::Memory {
            let too_small = TooSmall::of(&store.stats(), &config.limits);
            OpenError::unless_it_fits(&too_small)?;
        }
        Ok(Self::new(store, StoreSource::Configured).config(config))
    }

    /// Adds a limit. It replaces an earlier one of the same name; a limit of the same name in a
    /// configuration takes precedence over both.
    pub fn limit(mut self, limit: impl Into<LimitConfig>) -> Self {
        for config in parts(limit.into()) {
            self.limits.retain(|known| known.limit.name() != config.limit.name());
            self.limits.push(config);
        }
        self
    }

    /// Sets the limits and settings of a configuration, which can be
    /// [replaced](Registry::replace) later. Ignores its store, since the registry has one.
    pub fn config(mut self, config: &Config) -> Self {
        self.config = Some(config.clone());
        self
    }

    /// Sets whether limits are in force as long as there is no configuration. Default: on.
    pub const fn enabled(mut self, switch: Switch) -> Self {
        self.enabled = switch;
        self
    }

    /// Sets what happens to requests for unknown limits as long as there is no configuration. Default: they are errors.
    pub const fn unknown(mut self, then: UnknownLimit) -> Self {
        self.unknown = then;
        self
    }

    /// Adds an observer of every answer of a limit.
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    pub(super) fn observers(mut self, observers: Observers) -> Self {
        self.observers = observers;
        self
    }

    /// Returns the registry.
    #[must_use]
    pub fn build(self) -> Registry {
        let mut writer = Writer::new(self.store, self.store_source, self.observers);
        (writer.enabled, writer.unknown) = (self.enabled, self.unknown);
        for limit in self.limits {
            let opened = writer.open_limit(limit);
            writer.code.push(opened);
        }
        if let Some(config) = &self.config {
            let limits = writer.open(config);
            writer.fixed = Some(Fixed::of(config, writer.store_source));
            writer.adopt(config, limits);
            tell_warnings(config);
        }
        Registry { shared: Arc::new(Shared::new(writer)) }
    }

    /// Returns the registry, if it has the names that the program uses. They are required from now on, as with
    /// [`Registry::open_for`].
    ///
    /// ```
    /// use sluicegate::{MemoryStore, Registry};
    /// use sluicegate::config::Uses;
    ///
    /// let builder = || -> Result<_, Box<dyn std::error::Error>> {
    ///     let llm = ["gcra 60/min as requests", "gcra 90000/min as tokens"];
    ///     Ok(Registry::builder(MemoryStore::new()).limit(sluicegate::Limit::new("llm", llm)?))
    /// };
    /// assert!(builder()?.build_for([Uses::limit("llm").policies(["tokens"])]).is_ok());
    /// let missing = builder()?.build_for(["lm", "login"]).unwrap_err();
    /// assert!(missing.limits().eq(["lm", "login"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error with all missing names.
    pub fn build_for<U: Into<Uses>>(
        self,
        uses: impl IntoIterator<Item = U>,
    ) -> Result<Registry, MissingNames> {
        let registry = self.build();
        registry.require(uses.into_iter().map(Into::into).collect())?;
        Ok(registry)
    }
}

/// Logs probable mistakes in a configuration that is in force now.
pub(super) fn tell_warnings(config: &Config) {
    for warning in config.warnings() {
        tracing::warn!("{warning}");
    }
}

impl Writer {
    pub(super) fn new(store: SharedStore, store_source: StoreSource, observers: Observers) -> Self {
        Self {
            store,
            store_source,
            observers,
            fixed: None,
            enabled: Switch::default(),
            unknown: UnknownLimit::default(),
            http: Arc::default(),
            metrics: MetricsConfig::default(),
            envoy: Arc::default(),
            clients: Arc::default(),
            limits_in_requests: Switch::Off,
            resp: RespConfig::default(),
            limits: Vec::new(),
            origins: Arc::default(),
            digest: None,
            code: Vec::new(),
            overridden: Overridden::default(),
            switched: None,
            switched_limits: BTreeMap::new(),
            used: UsedNames::default(),
        }
    }
}

impl fmt::Debug for RegistryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryBuilder")
            .field("limits", &self.limits)
            .field("enabled", &self.enabled)
            .field("unknown", &self.unknown)
            .finish_non_exhaustive()
    }
}
