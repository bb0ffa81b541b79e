//! All limits of a program, by name.

mod builder;
mod cell;
mod changes;
mod gate;
mod generation;
mod joint;
mod key_index;
mod keyed;
mod opened;
mod prepared;
mod resolved;
mod route;
mod shared;
mod switch;
mod target;
#[cfg(feature = "watch")]
mod watch;

use std::fmt;
use std::sync::Arc;

use sluicegate_core::{Limit, LimitName, Policy, SharedStore, Store};

use crate::config::{Config, HttpConfig, LimitConfig};
use crate::open_store::OpenError;

pub use builder::RegistryBuilder;
pub use changes::{Changes, ReloadError};
pub use gate::{Gate, MissingKey, RequestKeys};
pub(crate) use gate::{Look, fields};
pub use switch::{Switch, UnknownLimit};
#[cfg(feature = "watch")]
pub use watch::{Watch, WatchError, WatchOptions, WatchStatus};

pub(crate) use prepared::{Shown, ShownPartition};

use cell::Cell;
use shared::{Fixed, Shared, StoreSource};
use target::Target;

/// All limits of a program, by name: those of a [config file](crate::config), and those given in
/// code. Cloning is cheap, and clones share everything.
///
/// A call site holds a [`Gate`]. The configuration can be replaced whole while the program runs
/// ([`Registry::replace`]), and limits can be switched off and on again; gates follow at once. What
/// was consumed stays: it is kept in the store under the names of limit and policy, not under
/// numbers.
///
/// ```
/// use sluicegate::{Config, Registry};
///
/// let of = |text: &str| Config::parse(text, "limits.yaml");
/// let registry = Registry::open(&of("limits: {login: {policies: [gcra 1/min burst 2]}}")?)?;
/// let login = registry.gate("login");
/// let passes = || Ok::<_, sluicegate::Error>(login.check_now("alice")?.is_allowed());
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
    /// The limits of a configuration, in the store that it names. Connects to nothing: that
    /// happens at the first use.
    ///
    /// # Errors
    /// When the store can't be made.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        Ok(Self::builder_from(config)?.build())
    }

    /// Like [`Registry::open`], with more to say.
    ///
    /// # Errors
    /// When the store can't be made.
    pub fn builder_from(config: &Config) -> Result<RegistryBuilder, OpenError> {
        RegistryBuilder::open(config)
    }

    /// Limits given in code, in any store or stack of stores.
    pub fn builder(store: impl Store) -> RegistryBuilder {
        RegistryBuilder::new(SharedStore::new(store), StoreSource::Given)
    }

    /// The gate of a name. It never fails: what a name without a limit does is what
    /// [`UnknownLimit`] says, until a configuration brings the limit.
    pub fn gate(&self, name: &str) -> Gate {
        self.find(name).unwrap_or_else(|| self.gate_on(Target::Named(name.into())))
    }

    /// The gate of a name, if it has a limit now. It stays good when the limit goes and comes.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Gate> {
        let current = self.shared.current();
        let cell = Arc::clone(&current.entry(name)?.cell);
        Some(Gate::new(Arc::clone(&self.shared), cell))
    }

    /// A gate for a limit given at its call site, once for each: hold on to it. A limit of the
    /// same name in the configuration goes before it, so that an operator has the last word.
    /// Where code gives several limits of one name they share what is consumed, each call site
    /// with its own numbers.
    ///
    /// ```
    /// use sluicegate::{Config, Registry};
    ///
    /// let config = "limits: {login: {policies: [gcra 1/min]}}";
    /// let registry = Registry::open(&Config::parse(config, "limits.yaml")?)?;
    /// let login = registry.inline(sluicegate::limit("login", ["gcra 100/s"])?);
    /// assert_eq!(login.limit().unwrap().members()[0].policy().to_string(), "gcra 1/min");
    /// let search = registry.inline(sluicegate::limit("search", ["gcra 5/s"])?);
    /// assert_eq!(search.limit().unwrap().name().as_str(), "search");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// For numbers that differ from key to key there is [`Registry::keyed`].
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
        Gate::new(Arc::clone(&self.shared), Arc::new(Cell::new(targets)))
    }

    /// A gate with numbers computed in code for one of many keys: a customer's plan from a
    /// database. `make` is called when the key has not come up lately; the cache holds 10,000 of
    /// them, and each until it has not been asked for during 5 minutes, unless the
    /// [builder](RegistryBuilder::keyed_capacity) says otherwise. To leave the cache loses nothing:
    /// what was consumed is in the store, under the limit's name and whatever key the gate is
    /// asked about. (The embedded store forgets what equals fresh under all the numbers in use;
    /// for that the latest 10,000 different sets of numbers count as in use.)
    ///
    /// `name` keeps the cached gates of one call site apart from those of others. The limit has
    /// its own name, which is usually the same; switches, lists and what happens when the store
    /// fails go by what the configuration says of that, numbers and overrides don't.
    ///
    /// ```
    /// use sluicegate::{MemoryStore, Registry};
    ///
    /// let registry = Registry::builder(MemoryStore::new()).build();
    /// let plan = |customer: &str| if customer == "acme" { 500 } else { 5 };
    /// let gate = |customer: &str| {
    ///     let make = || sluicegate::limit("api", [format!("token_bucket {}/s", plan(customer))]);
    ///     registry.keyed("api", customer, make)
    /// };
    /// assert_eq!(gate("acme")?.check_now("acme")?.remaining(), Some(499));
    /// assert_eq!(gate("other")?.check_now("other")?.remaining(), Some(4));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of `make`, which is asked again next time.
    pub fn keyed<E>(
        &self,
        name: &str,
        key: impl AsRef<[u8]>,
        make: impl FnOnce() -> Result<Limit, E>,
    ) -> Result<Gate, E> {
        let make = || {
            let configs = parts(LimitConfig::new(make()?)).into_iter();
            let open = |config| self.shared.write().open_limit(config);
            let targets: Vec<Target> = configs
                .map(|config| Target::Keyed(self.shared.keyed.with_numbers(config, open)))
                .collect();
            Ok(Arc::new(Cell::new(targets)))
        };
        let cell = self.shared.keyed.get_or_make(name, key.as_ref(), make)?;
        Ok(Gate::new(Arc::clone(&self.shared), cell))
    }

    /// How many gates [`Registry::keyed`] holds.
    #[must_use]
    pub fn keyed_len(&self) -> usize {
        self.shared.keyed.len()
    }

    /// Puts a configuration in the place of the present one, all of it at once or nothing. What was
    /// consumed stays. Limits given in code stay, where the configuration has none of their name;
    /// what was [switched](Registry::switch) at run time stays switched.
    ///
    /// # Errors
    /// When it changes what can't change while the program runs: the store and how it is set up,
    /// and where the service listens. A registry that was given its store doesn't look at what a
    /// configuration says of stores.
    pub fn replace(&self, config: &Config) -> Result<Changes, ReloadError> {
        let mut writer = self.shared.write();
        let fixed = Fixed::of(config, writer.store_source);
        if let Some(known) = &writer.fixed {
            let fields = known.differences(&fixed);
            if !fields.is_empty() {
                return Err(ReloadError::NeedsRestart { fields });
            }
        }
        let limits = writer.open(config);
        let changes = writer.changes(config, &limits);
        writer.fixed = Some(fixed);
        if !changes.is_empty() {
            writer.adopt(config, limits);
            self.shared.publish(&mut writer);
        }
        Ok(changes)
    }

    /// Switches all limits off, or on again. That holds whatever this or a later configuration
    /// says, until somebody switches again or gives the word [back](Registry::switch_back).
    ///
    /// ```
    /// use sluicegate::{Config, Registry, Switch};
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

    /// Whether limits are in force is again for the configuration to say.
    pub fn switch_back(&self) {
        let mut writer = self.shared.write();
        writer.switched = None;
        self.shared.publish(&mut writer);
    }

    /// Whether limits are in force.
    #[must_use]
    pub fn switched(&self) -> Switch {
        self.shared.current().switch
    }

    /// Switches one limit off, or on again, as [`Registry::switch`] does all; gives how it was,
    /// or `None` if there is no such limit, and then nothing was switched. The switch goes with
    /// the limit: one that a later configuration doesn't have comes back as that says.
    #[must_use = "there may be no such limit"]
    pub fn switch_limit(&self, name: &str, to: Switch) -> Option<Switch> {
        self.set_switch(name, Some(to))
    }

    /// Whether a limit is in force is again for the configuration to say; gives how it was.
    #[must_use = "there may be no such limit"]
    pub fn switch_limit_back(&self, name: &str) -> Option<Switch> {
        self.set_switch(name, None)
    }

    /// Whether a limit is in force, if all are; `None` if there is no such limit.
    #[must_use]
    pub fn limit_switched(&self, name: &str) -> Option<Switch> {
        self.shared.current().entry(name).map(|entry| entry.switch)
    }

    /// The limits that there are: those of the configuration in its order, then those given in
    /// code alone.
    #[must_use]
    pub fn limits(&self) -> Vec<Arc<LimitConfig>> {
        let current = self.shared.current();
        current.limits.iter().map(|entry| Arc::clone(&entry.opened.config)).collect()
    }

    /// The limit of a name.
    #[must_use]
    pub fn limit(&self, name: &str) -> Option<Arc<LimitConfig>> {
        self.shared.current().entry(name).map(|entry| Arc::clone(&entry.opened.config))
    }

    /// How requests over HTTP are looked at and answered.
    #[must_use]
    pub fn http(&self) -> Arc<HttpConfig> {
        Arc::clone(&self.shared.current().http)
    }

    /// The store of its limits.
    #[must_use]
    pub fn store(&self) -> SharedStore {
        self.shared.write().store.clone()
    }

    /// A number that grows whenever something was replaced or switched: what is computed from the
    /// configuration is good as long as it stays the same.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.shared.current().number
    }

    /// Waits until the [generation](Registry::generation) is above `seen`, and gives it.
    pub async fn changed(&self, seen: u64) -> u64 {
        let mut changes = self.shared.changes();
        // The sender lives as long as this.
        changes.wait_for(|number| *number > seen).await.map_or(seen, |number| *number)
    }

    /// Whether this is a clone of `other`, or the other way round.
    #[cfg(feature = "macros")]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    fn gate_on(&self, target: Target) -> Gate {
        Gate::new(Arc::clone(&self.shared), Arc::new(Cell::new([target])))
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

/// The parts of a limit that is several together, each a limit again.
fn parts(config: LimitConfig) -> Vec<LimitConfig> {
    if let [_] = config.limit.parts() {
        return vec![config];
    }
    let part = |(part, name): (usize, &LimitName)| {
        let members = config.limit.members().iter().filter(|member| member.part() == part);
        let policies: Vec<Policy> =
            members.map(|member| member.policy().clone().named(member.name().clone())).collect();
        let limit = Limit::new(name.clone(), policies).ok()?;
        // Overrides are of the whole.
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
