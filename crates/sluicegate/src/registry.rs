//! All limits of a program, by name.

mod at_run_time;
mod builder;
mod changes;
mod combinations;
mod differences;
mod gate;
mod gate_cache;
mod generation;
mod given;
mod hypothetical;
mod joined;
mod joint;
mod number_sets;
mod opened;
mod overridden;
mod overrides;
mod resolution;
mod resolved;
mod response_fields;
mod route;
mod settle;
mod shared;
mod standing;
mod target;
mod token_routing;

use std::fmt;
use std::sync::Arc;

use sluicegate_core::{Limit, LimitName, Policy, SharedStore, Store, StoreError};
use smallvec::SmallVec;

use crate::capacity::TooSmall;
use crate::config_file::{
    ClientConfig, Config, EnvoyConfig, HttpConfig, LimitConfig, Origins, RespConfig, Switch,
};
use crate::open_store::OpenError;
use crate::uses::{MissingNames, Uses};

pub use builder::RegistryBuilder;
use builder::tell_warnings;
pub use changes::{Changes, ReloadError};
pub(crate) use gate::Look;
pub use gate::{Counted, CountedKey, Gate, JoinError, Leased, MissingKey, RequestKeys};
pub use hypothetical::{Hypothetical, KeyTreatment};
pub use standing::{Standing, Treatment};

pub(crate) use response_fields::{Shown, ShownPartition};

use gate_cache::GateCache;
use shared::{Fixed, Shared, StoreSource};
use target::Target;

/// All limits of a program, by name: those in a [config file](crate::config), and those given in code. Cloning is
/// cheap, and clones share everything.
///
/// A call site holds a [`Gate`]. At run time, the whole configuration can be replaced ([`Registry::replace`]), and
/// limits can be switched off and on; gates follow immediately. The consumed units are kept, because the store keeps
/// them under the names of limit and policy.
///
/// ```
/// use sluicegate::{Config, Registry};
///
/// let of = |text: &str| Config::parse(text, "limits.yaml");
/// let registry = Registry::open(&of("limits: {login: {policies: [gcra 1/min burst 2]}}")?)?;
/// let login = registry.gate("login");
/// let passes = || Ok::<_, sluicegate::Error>(login.check("alice").now()?.is_allowed());
/// assert!(passes()? && passes()?);
/// assert!(!passes()?);
///
/// let changes = registry.replace(&of("limits: {login: {policies: [gcra 1/min burst 3]}}")?)?;
/// assert_eq!(changes.to_string(), "changed: login");
/// assert!(passes()?, "one more than before");
/// assert!(!passes()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    shared: Arc<Shared>,
}

impl Registry {
    /// Opens the limits of a configuration, in the store that it names. It doesn't connect yet: the first use does.
    ///
    /// # Errors
    /// Returns an error if the store can't be opened.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        Ok(Self::builder_from(config)?.build())
    }

    /// Opens the limits of a configuration, if it has the limits that the program names, and the policies that it names
    /// in costs.
    ///
    /// These are required from now on: a later configuration that lacks one of them is refused ([`Registry::replace`]).
    /// Names of a `#[limit]` or a middleware are required in the same way, without being listed.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    /// use sluicegate::config::Uses;
    ///
    /// let of = |text: &str| Config::parse(text, "limits.yaml");
    /// let config = of("limits: {login: {policies: [gcra 5/min]}, llm: {policies: [gcra 9/s as requests]}}")?;
    /// let uses = || [Uses::limit("login"), Uses::limit("llm").policies(["requests"])];
    /// let registry = Registry::open_for(&config, uses())?;
    /// let refused = registry.replace(&of("limits: {login: {policies: [gcra 5/min]}}")?);
    /// assert!(refused.unwrap_err().to_string().contains("limit `llm`"));
    ///
    /// let misspelt = of("limits: {logn: {policies: [gcra 5/min]}, llm: {policies: [gcra 9/s]}}")?;
    /// assert_eq!(
    ///     Registry::open_for(&misspelt, uses()).unwrap_err().to_string(),
    ///     "limit `login` (did you mean `logn`?), policy `requests` of limit `llm` (it has gcra): \
    ///      the program uses what the configuration doesn't have; add it, or change the program"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error with all missing names, or if the store can't be opened.
    pub fn open_for<U: Into<Uses>>(
        config: &Config,
        uses: impl IntoIterator<Item = U>,
    ) -> Result<Self, OpenError> {
        Ok(Self::builder_from(config)?.build_for(uses)?)
    }

    /// Returns a builder with the limits of a configuration, in the store that it names.
    ///
    /// # Errors
    /// Returns an error if the store can't be opened.
    pub fn builder_from(config: &Config) -> Result<RegistryBuilder, OpenError> {
        RegistryBuilder::open(config)
    }

    /// Returns a builder for limits given in code, in any store or stack of stores.
    pub fn builder(store: impl Store) -> RegistryBuilder {
        RegistryBuilder::new(SharedStore::new(store), StoreSource::Given)
    }

    /// Returns the gate of the limit `name`.
    ///
    /// It never fails. As long as there is no such limit, [`UnknownLimit`](crate::config::UnknownLimit) determines what
    /// happens to its requests; by default they are errors. [`Registry::open_for`] checks the names at the start.
    pub fn gate(&self, name: &str) -> Gate {
        self.find(name).unwrap_or_else(|| self.gate_on(Target::Named(name.into())))
    }

    /// Returns the gate of the limit `name`, if there is one now. It stays valid if the limit is removed
    /// and added again.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Gate> {
        let current = self.shared.current();
        let cell = Arc::clone(&current.entry(name)?.cell);
        Some(Gate::new(Arc::clone(&self.shared), cell))
    }

    /// Returns the gate of several limits, which are decided together: all or nothing, each about its own key.
    ///
    /// It equals the gates of the limits, [joined](Gate::and). The registry keeps the latest 1,024 combinations, so the
    /// caller needs no cache.
    ///
    /// ```
    /// use sluicegate::{Ask, Config, Registry};
    ///
    /// let config = "limits: {address: {policies: [gcra 10/s]}, account: {policies: [gcra 1/min]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let login = registry.together(["address", "account"])?;
    /// assert!(login.check(Ask::new("192.0.2.7").and("alice")).now()?.is_allowed());
    /// assert!(registry.together(["address", "address"]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error without a name, or if a limit is named twice.
    pub fn together<'n>(
        &self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Gate, JoinError> {
        let names: SmallVec<[&str; 4]> = names.into_iter().collect();
        for (index, name) in names.iter().enumerate() {
            if names.iter().take(index).any(|other| other == name) {
                return Err(JoinError::of_twice(name));
            }
        }
        match &*names {
            [] => Err(JoinError::of_nothing()),
            [name] => Ok(self.gate(name)),
            names => {
                let cell = self.shared.joined.cell(names.iter().copied());
                Ok(Gate::new(Arc::clone(&self.shared), cell))
            }
        }
    }

    /// Returns a gate for a limit given at its call site. Create it once per call site, and keep it.
    ///
    /// A limit of the same name in the configuration takes precedence, so that operators can override the code. Call
    /// sites that give limits of the same name share the consumed units, each with its own numbers.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {login: {policies: [gcra 1/min]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let login = registry.inline(sluicegate::Limit::new("login", ["gcra 100/s"])?);
    /// assert_eq!(login.limit().unwrap().members()[0].policy().to_string(), "gcra 1/min");
    /// let search = registry.inline(sluicegate::Limit::new("search", ["gcra 5/s"])?);
    /// assert_eq!(search.limit().unwrap().name().as_str(), "search");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// For numbers that differ from key to key, see [`Registry::keyed`].
    pub fn inline(&self, limit: impl Into<LimitConfig>) -> Gate {
        let mut writer = self.shared.write();
        let mut targets = Vec::new();
        let mut is_new = false;
        for config in parts(limit.into()) {
            let opened = writer.open_limit(config);
            if !writer.code.iter().any(|known| known.name() == opened.name()) {
                writer.code.push(Arc::clone(&opened));
                is_new = true;
            }
            targets.push(Target::Inline(opened));
        }
        if is_new {
            self.shared.publish(&mut writer);
        }
        Gate::new(Arc::clone(&self.shared), Arc::new(GateCache::new(targets)))
    }

    /// Returns a gate for a limit whose numbers a caller gives, such as a client in its request. Create it once for equal
    /// numbers, and keep it.
    ///
    /// As with [`Registry::keyed`], the configuration determines everything but the numbers under this name, and may
    /// lack the limit. Without it the other settings are those of `limit`. Consumed units are kept if the numbers change.
    ///
    /// ```
    /// use sluicegate::{Config, Limit, Registry};
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// let tier = registry.gate_with_numbers(Limit::new("tier", ["gcra 1/min burst 2"])?);
    /// assert_eq!(tier.check("acme").now()?.remaining(), Some(1));
    /// let tier = registry.gate_with_numbers(Limit::new("tier", ["gcra 1/min burst 5"])?);
    /// assert_eq!(tier.check("acme").now()?.remaining(), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gate_with_numbers(&self, limit: impl Into<LimitConfig>) -> Gate {
        let writer = self.shared.write();
        let given = parts(limit.into()).into_iter().map(|config| writer.open_limit(config));
        let targets: Vec<Target> = given.map(Target::Keyed).collect();
        drop(writer);
        Gate::new(Arc::clone(&self.shared), Arc::new(GateCache::new(targets)))
    }

    /// Replaces the configuration, completely or not at all.
    ///
    /// The consumed units are kept. Limits given in code stay unless the configuration has one of the same name. A
    /// [switch](Registry::switch) at run time stays in force.
    ///
    /// # Errors
    /// Returns an error if it changes something that needs a restart: the store, its options, or the service's
    /// addresses and load limits. A registry that was given its store in code ignores the configuration's store.
    ///
    /// Returns an error with all missing names if it lacks any that the program [uses](Registry::open_for). Returns an
    /// error if the caps of the embedded store can't hold one key of each limit.
    pub fn replace(&self, config: &Config) -> Result<Changes, ReloadError> {
        let mut writer = self.shared.write();
        let fixed = Fixed::of(config, writer.store_source);
        if let Some(known) = &writer.fixed {
            let fields = known.differences(&fixed);
            if !fields.is_empty() {
                return Err(ReloadError::NeedsRestart { fields });
            }
        }
        let code = writer.code.iter().map(|opened| &opened.config);
        let too_small = TooSmall::of(&writer.store.stats(), config.limits.iter().chain(code));
        if !too_small.is_empty() {
            let messages: Vec<_> = too_small.into_iter().map(TooSmall::message).collect();
            return Err(ReloadError::StoreTooSmall { message: messages.join("; ") });
        }
        let limits = writer.open(config);
        let lost = writer.lost(config, &limits);
        if !lost.is_empty() {
            return Err(ReloadError::Missing(lost));
        }
        let changes = writer.changes(config, &limits);
        writer.fixed = Some(fixed);
        // The file may say the same in other words, and on other lines.
        writer.digest = Some(config.digest());
        writer.origins = config.origins();
        if !changes.is_empty() {
            writer.adopt(config, limits);
            self.shared.publish(&mut writer);
            drop(writer);
            tell_warnings(config);
        }
        Ok(changes)
    }

    /// Switches all limits off or on. This overrides the configuration, and later ones, until the
    /// next switch or [`switch_back`](Registry::switch_back).
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    /// use sluicegate::config::Switch;
    ///
    /// let registry = Registry::open(&Config::default())?;
    /// let demo = registry.gate("demo");
    /// registry.switch(Switch::Off);
    /// assert!(demo.limit().is_none());
    /// registry.switch_back();
    /// assert!(demo.limit().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn switch(&self, to: Switch) {
        let mut writer = self.shared.write();
        writer.switched = Some(to);
        self.shared.publish(&mut writer);
    }

    /// Lets the configuration decide again whether limits are in force.
    pub fn switch_back(&self) {
        let mut writer = self.shared.write();
        writer.switched = None;
        self.shared.publish(&mut writer);
    }

    /// Returns whether limits are in force.
    #[must_use]
    pub fn switched(&self) -> Switch {
        self.shared.current().switch
    }

    /// Switches one limit off or on, as [`Registry::switch`] does for all. Returns its former position, or `None` if
    /// there is no such limit. A configuration without the limit ends the override too.
    #[must_use = "the limit might not exist"]
    pub fn switch_limit(&self, name: &str, to: Switch) -> Option<Switch> {
        self.set_switch(name, Some(to))
    }

    /// Lets the configuration decide again whether a limit is in force. Returns its former
    /// position, or `None` if there is no such limit.
    #[must_use = "the limit might not exist"]
    pub fn switch_limit_back(&self, name: &str) -> Option<Switch> {
        self.set_switch(name, None)
    }

    /// Returns whether a limit is in force while limits are in general; `None` if there is no such limit.
    #[must_use]
    pub fn limit_switched(&self, name: &str) -> Option<Switch> {
        self.shared.current().entry(name).map(|entry| entry.switch)
    }

    /// Returns all limits: those of the configuration in its order, then those given only in code.
    #[must_use]
    pub fn limits(&self) -> Vec<Arc<LimitConfig>> {
        self.shared.current().configs()
    }

    /// Returns the limit with this name.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<Arc<LimitConfig>> {
        self.shared.current().entry(name).map(|entry| Arc::clone(&entry.opened.config))
    }

    /// Returns the places of the configuration's settings in its files. They follow the file even if only lines moved.
    #[must_use]
    pub fn origins(&self) -> Arc<Origins> {
        Arc::clone(&self.shared.write().origins)
    }

    /// Returns the settings for HTTP requests and responses.
    #[must_use]
    pub fn http(&self) -> Arc<HttpConfig> {
        Arc::clone(&self.shared.current().http)
    }

    /// Returns the limits of Envoy's descriptors.
    #[must_use]
    pub fn envoy(&self) -> Arc<EnvoyConfig> {
        Arc::clone(&self.shared.current().envoy)
    }

    /// Returns the clients of the service that the configuration names. It is the same list as long as they don't
    /// change.
    #[must_use]
    pub fn clients(&self) -> Arc<[ClientConfig]> {
        Arc::clone(&self.shared.current().clients)
    }

    /// Returns whether requests to the service may give the policies of their limits.
    #[must_use]
    pub fn limits_in_requests(&self) -> Switch {
        self.shared.current().limits_in_requests
    }

    /// Returns the settings for commands in Redis' protocol.
    #[must_use]
    pub fn resp(&self) -> RespConfig {
        self.shared.current().resp
    }

    /// Returns the store of the limits.
    #[must_use]
    pub fn store(&self) -> SharedStore {
        self.shared.write().store.clone()
    }

    /// Notes the outcome of a [ping](SharedStore::ping). So the log has one line when the store begins to fail, and one
    /// when it answers again, even while there are no requests.
    pub fn note_ping(&self, outcome: Result<(), &StoreError>) {
        let (store, observers) = {
            let writer = self.shared.write();
            (writer.store.clone(), writer.observers.clone())
        };
        observers.store_health().pinged(&|| store.id(), outcome);
    }

    /// Returns a number that grows with every replacement and every switch. A value computed from the configuration is
    /// valid as long as the number is unchanged.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.shared.current().number
    }

    /// Waits until the [generation](Registry::generation) is above `seen`, and returns it.
    pub async fn changed(&self, seen: u64) -> u64 {
        let mut changes = self.shared.changes();
        // The sender exists as long as `self`.
        changes.wait_for(|number| *number > seen).await.map_or(seen, |number| *number)
    }

    /// Returns whether this and `other` are clones of one registry.
    #[cfg(feature = "macros")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Notes the program's uses, or returns those that are missing.
    fn require(&self, uses: Vec<Uses>) -> Result<(), MissingNames> {
        let mut writer = self.shared.write();
        let missing = MissingNames::of(&uses, &writer.known(&writer.limits));
        if !missing.is_empty() {
            return Err(missing);
        }
        writer.used.require(uses);
        Ok(())
    }

    fn gate_on(&self, target: Target) -> Gate {
        Gate::new(Arc::clone(&self.shared), Arc::new(GateCache::new([target])))
    }

    /// Returns a number that identifies the content of the configuration in force: that of its file and of the files that
    /// it names. `None` without a configuration. Equal contents have equal numbers in all processes.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let of = |text: &str| Registry::open(&Config::parse(text, "limits.yaml").unwrap()).unwrap().config_digest();
    /// let text = "limits: {a: {policies: [gcra 1/s]}}";
    /// assert_eq!(of(text), of(text));
    /// assert_ne!(of(text), of("limits: {a: {policies: [gcra 2/s]}}"));
    /// ```
    #[must_use]
    pub fn config_digest(&self) -> Option<u64> {
        self.shared.write().digest
    }

    /// Returns whether the configuration in force was read from the bytes with this digest.
    #[cfg(feature = "watch")]
    pub(crate) fn is_of_bytes(&self, digest: u64) -> bool {
        self.shared.write().digest == Some(digest)
    }

    fn set_switch(&self, name: &str, to: Option<Switch>) -> Option<Switch> {
        let mut writer = self.shared.write();
        let before = self.shared.current().entry(name)?.switch;
        match to {
            Some(to) => drop(writer.switched_limits.insert(name.into(), to)),
            None => drop(writer.switched_limits.remove(name)),
        }
        self.shared.publish(&mut writer);
        Some(before)
    }
}

/// Splits several limits together into one limit per part.
fn parts(config: LimitConfig) -> Vec<LimitConfig> {
    if let [_] = config.limit.parts() {
        return vec![config];
    }
    let part = |(part, name): (usize, &LimitName)| {
        let members = config.limit.members().iter().filter(|member| member.part() == part);
        let policies: Vec<Policy> =
            members.map(|member| member.policy().clone().named(member.name().clone())).collect();
        let limit = Limit::new(name, policies).ok()?;
        let limit = limit.otherwise_as(&config.limit, part);
        // Overrides apply to the combined limits, so a part has none.
        Some(LimitConfig { limit, overrides: Vec::new(), ..config.clone() })
    };
    config.limit.parts().iter().enumerate().filter_map(part).collect()
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let current = self.shared.current();
        let names: Vec<&str> = current.limits.iter().map(|entry| entry.opened.name()).collect();
        f.debug_struct("Registry")
            .field("generation", &current.number)
            .field("limits", &names)
            .finish_non_exhaustive()
    }
}
