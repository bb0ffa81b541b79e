//! The state shared by the clones of a registry and its gates.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use sluicegate_core::{Error, RequestError, RequestErrorKind, SharedStore, did_you_mean};
use tokio::sync::watch;

use super::changes::Changes;
use super::differences;
use super::gate_cache::GateCache;
use super::generation::{Entry, Generation, Origin};
use super::joined::Joined;
use super::opened::Opened;
use super::overridden::Overridden;
use super::resolved::Resolved;
use super::target::Target;
use crate::config_file::{
    ClientConfig, Config, DecisionLogConfig, EnvoyConfig, FallbackConfig, HttpConfig, LimitConfig,
    MemoryConfig, MetricsConfig, Origins, RecorderConfig, RedisConfig, ServiceConfig, StoreUrl,
};
use crate::config_file::{ListenersConfig, RespConfig, Switch, UnknownLimit};
use crate::observe::{Configured, Observers};
use crate::overrides::OverridesState;
use crate::uses::{Known, MissingNames, UsedNames};

/// The state shared by the clones of a registry and its gates.
pub(super) struct Shared {
    current: ArcSwap<Generation>,
    /// The number of `current`, which a gate reads in every call.
    number: AtomicU64,
    changed: watch::Sender<u64>,
    pub(super) joined: Joined,
    writer: Mutex<Writer>,
    warned: Mutex<HashSet<Box<str>>>,
    pub(super) overrides: OverridesState,
}

/// The sources of the generations.
pub(super) struct Writer {
    pub(super) store: SharedStore,
    pub(super) store_source: StoreSource,
    pub(super) observers: Observers,
    pub(super) fixed: Option<Fixed>,
    pub(super) enabled: Switch,
    pub(super) unknown: UnknownLimit,
    pub(super) http: Arc<HttpConfig>,
    pub(super) metrics: MetricsConfig,
    pub(super) envoy: Arc<EnvoyConfig>,
    pub(super) clients: Arc<[ClientConfig]>,
    pub(super) limits_in_requests: Switch,
    pub(super) resp: RespConfig,
    /// The limits of the configuration.
    pub(super) limits: Vec<Arc<Opened>>,
    /// The places of the configuration's settings.
    pub(super) origins: Arc<Origins>,
    /// Digest of the bytes from which the configuration was read.
    pub(super) digest: Option<u64>,
    /// The limits given in code.
    pub(super) code: Vec<Arc<Opened>>,
    pub(super) overridden: Overridden,
    pub(super) switched: Option<Switch>,
    pub(super) switched_limits: BTreeMap<Box<str>, Switch>,
    pub(super) used: UsedNames,
}

/// The origin of a registry's store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum StoreSource {
    /// The configuration names it.
    Configured,
    /// The program gave it, so the configuration's store is ignored.
    Given,
}

/// The parts of a configuration that can't change while the program runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fixed {
    /// `None` if the program gave the store, so that the configuration's is ignored.
    pub(super) store: Option<FixedStore>,
    pub(super) listeners: ListenersConfig,
    pub(super) service: ServiceConfig,
    pub(super) decision_log: DecisionLogConfig,
    pub(super) recorder: RecorderConfig,
}

/// The store that a configuration names.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FixedStore {
    url: StoreUrl,
    max_clock_back: Duration,
    memory: MemoryConfig,
    redis: RedisConfig,
    fallback: Option<FallbackConfig>,
}

impl Shared {
    /// The maximum number of unknown names to warn about.
    const MOST_WARNINGS: usize = 1_000;

    pub(super) fn new(writer: Writer) -> Self {
        let generation = writer.generation(1, None);
        writer.tell_configured(None, &generation);
        Self {
            current: ArcSwap::from_pointee(generation),
            number: AtomicU64::new(1),
            changed: watch::Sender::new(1),
            joined: Joined::default(),
            writer: Mutex::new(writer),
            warned: Mutex::default(),
            overrides: OverridesState::default(),
        }
    }

    /// Returns the limits of a gate in the current configuration.
    #[inline]
    pub(super) fn resolved(&self, cell: &GateCache) -> Guard<Arc<Resolved>> {
        let resolved = cell.resolved.load();
        if resolved.number >= self.number.load(Ordering::Acquire) {
            resolved
        } else {
            self.resolve(cell)
        }
    }

    #[cold]
    fn resolve(&self, cell: &GateCache) -> Guard<Arc<Resolved>> {
        cell.resolve(&self.current.load());
        cell.resolved.load()
    }

    pub(super) fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Notifies of every new configuration.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn write(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the writer's state in force, for all gates together.
    pub(super) fn publish(&self, writer: &mut Writer) {
        writer.override_limits();
        let known = self.current.load_full();
        let generation = Arc::new(writer.generation(known.number + 1, Some(&known)));
        let number = generation.number;
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.retain(|name| !generation.by_name.contains_key(name));
        drop(warned);
        writer.tell_configured(Some(&known), &generation);
        self.current.store(generation);
        // Last, so that a reader of the number finds the generation.
        self.number.store(number, Ordering::Release);
        self.changed.send_replace(number);
        drop(known);
    }

    /// Returns the error of a request for an unknown name, which is logged once per name.
    #[cold]
    pub(super) fn unknown(&self, name: &str) -> Error {
        let (name_shown, hint) = (name.escape_debug(), self.names_like(name));
        let message = format!(
            "there is no limit called `{name_shown}`: {hint} Add it to the configuration, or set `unknown_limits` to pass, warn or deny"
        );
        self.tell_once(name, || tracing::error!(limit = name, "{message}; requests fail"));
        RequestError::new(RequestErrorKind::UnknownLimit, message).into()
    }

    /// Returns the error of an operator who names an unknown limit.
    #[cold]
    pub(super) fn no_limit(&self, name: &str) -> RequestError {
        let (name_shown, hint) = (name.escape_debug(), self.names_like(name));
        let message = format!("there is no limit called `{name_shown}`: {hint}");
        RequestError::new(RequestErrorKind::UnknownLimit, message)
    }

    /// Returns a sentence with the names of limits that a caller may have meant.
    fn names_like(&self, name: &str) -> String {
        let current = self.current.load();
        let names = some_names(&current);
        did_you_mean(name, names.iter().copied())
            .unwrap_or_else(|| listed(&names, current.by_name.len()))
    }

    /// Returns the error of a token whose limit is unknown. It is not logged, because clients may choose tokens.
    #[cold]
    pub(super) fn gone(&self, name: &str) -> Error {
        let current = self.current.load();
        let message = format!(
            "the token names the unknown limit `{}`: {} Its units stay charged; settle holds before you remove a limit, or add it again",
            name.escape_debug(),
            listed(&some_names(&current), current.by_name.len())
        );
        RequestError::new(RequestErrorKind::UnknownLimit, message).into()
    }

    /// Warns once per unknown name that requests pass.
    #[cold]
    pub(super) fn warn_of_unknown(&self, name: &str) {
        let shown = name.escape_debug();
        self.tell_once(name, || {
            tracing::warn!(
                limit = name,
                "there is no limit called `{shown}`: requests pass; add it to the configuration, or set `unknown_limits`",
            );
        });
    }

    /// Logs an unknown name, unless it was logged.
    fn tell_once(&self, name: &str, log: impl FnOnce()) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= Self::MOST_WARNINGS || !warned.insert(name.into()) {
            return;
        }
        let is_last = warned.len() == Self::MOST_WARNINGS;
        // Logged after the lock is free, because a subscriber may ask a gate.
        drop(warned);
        log();
        if is_last {
            tracing::warn!("further names without a limit are not reported");
        }
    }
}

/// Returns the first thousand names of the limits, in order. The number is bounded because any request may have an
/// unknown name.
fn some_names(generation: &Generation) -> Vec<&str> {
    const MOST: usize = 1_000;
    let mut names: Vec<&str> =
        generation.limits.iter().take(MOST).map(|entry| entry.opened.name()).collect();
    names.sort_unstable();
    names
}

/// Lists the limits in a sentence; `count` is the number of all.
fn listed(names: &[&str], count: usize) -> String {
    const MOST: usize = 8;
    let shown = names.get(..MOST).unwrap_or(names).join(", ");
    match count {
        0 => "there are none.".to_owned(),
        1..=MOST => format!("the limits are {shown}."),
        more => format!("the limits are {shown} and {} more.", more - MOST),
    }
}

impl Writer {
    /// Opens a configuration's limits; unchanged ones stay as they are.
    pub(super) fn open(&self, config: &Config) -> Vec<Arc<Opened>> {
        let known: HashMap<&str, Arc<Opened>> =
            self.limits.iter().map(|opened| (opened.name(), Arc::clone(opened))).collect();
        let open = |limit: &Arc<LimitConfig>| {
            let same = known.get(limit.limit.name().as_str());
            match same.filter(|known| known.config == *limit) {
                Some(known) => Arc::clone(known),
                None => self.open_limit(Arc::clone(limit)),
            }
        };
        config.limits.iter().map(open).collect()
    }

    /// Applies the overrides at run time to the limits as they are now.
    fn override_limits(&mut self) {
        // Limits of the configuration take precedence.
        self.overridden.apply(self.code.iter().chain(&self.limits));
    }

    /// Opens a limit in the store of the registry.
    pub(super) fn open_limit(&self, limit: impl Into<Arc<LimitConfig>>) -> Arc<Opened> {
        Arc::new(Opened::new(limit.into(), &self.store, &self.observers))
    }

    /// Returns the limits by name, as if the configuration had `limits`.
    pub(super) fn known<'l>(&'l self, limits: &'l [Arc<Opened>]) -> Known<'l> {
        // Limits of the configuration take precedence.
        let all = self.code.iter().chain(limits);
        all.map(|opened| (opened.name(), &opened.config.limit)).collect()
    }

    /// Returns the uses of the program that a configuration with these limits would lack.
    pub(super) fn lost(&self, config: &Config, limits: &[Arc<Opened>]) -> MissingNames {
        let (now, next) = (self.known(&self.limits), self.known(limits));
        self.used.lost(&now, &next, config.unknown_limits)
    }

    /// Returns the changes that a configuration with these limits would make.
    pub(super) fn changes(&self, config: &Config, limits: &[Arc<Opened>]) -> Changes {
        let name = |opened: &Arc<Opened>| opened.config.limit.name().clone();
        let known: HashMap<&str, &Arc<Opened>> =
            self.limits.iter().map(|opened| (opened.name(), opened)).collect();
        let next: HashSet<&str> = limits.iter().map(|opened| opened.name()).collect();
        let mut changes = Changes::default();
        for opened in limits {
            match known.get(opened.name()) {
                None => changes.added.push(name(opened)),
                Some(known) if !Arc::ptr_eq(known, opened) => changes.changed.push(name(opened)),
                Some(_) => {}
            }
        }
        let gone = self.limits.iter().filter(|opened| !next.contains(opened.name()));
        changes.removed = gone.map(name).collect();
        let settings = [
            ("enabled", self.enabled != config.enabled),
            ("unknown_limits", self.unknown != config.unknown_limits),
            ("http", *self.http != config.http),
            ("metrics", self.metrics != config.metrics),
            ("envoy", *self.envoy != config.envoy),
            ("clients", *self.clients != *config.clients),
            ("limits_in_requests", self.limits_in_requests != config.limits_in_requests),
            ("resp", self.resp != config.resp),
        ];
        let differing = settings.iter().filter(|(_, differs)| *differs);
        changes.settings = differing.map(|(field, _)| *field).collect();
        /// Maximum number of sentences.
        const MOST: usize = 100;
        let added = changes.added.iter().map(|limit| vec![format!("Limit `{limit}` was added.")]);
        let removed =
            changes.removed.iter().map(|limit| vec![format!("Limit `{limit}` was removed.")]);
        let changed = limits.iter().filter_map(|opened| {
            let known = known.get(opened.name()).filter(|known| !Arc::ptr_eq(known, opened))?;
            Some(differences::sentences(&known.config, &opened.config))
        });
        let settings = changes.settings.iter().map(|field| vec![format!("`{field}` changed.")]);
        let details = added.chain(removed).chain(changed).chain(settings).flatten();
        changes.details = details.take(MOST).collect();
        changes
    }

    /// Adopts a configuration whose limits are opened.
    pub(super) fn adopt(&mut self, config: &Config, limits: Vec<Arc<Opened>>) {
        self.enabled = config.enabled;
        self.unknown = config.unknown_limits;
        self.http = Arc::new(config.http.clone());
        self.metrics = config.metrics;
        self.envoy = Arc::new(config.envoy.clone());
        if *self.clients != *config.clients {
            self.clients = config.clients.as_slice().into();
        }
        self.limits_in_requests = config.limits_in_requests;
        self.resp = config.resp;
        self.digest = Some(config.digest());
        self.origins = config.origins();
        self.limits = limits;
        let known: HashSet<&str> =
            self.limits.iter().chain(&self.code).map(|opened| opened.name()).collect();
        self.switched_limits.retain(|name, _| known.contains(&**name));
    }

    /// Notifies observers of a generation's limits, unless these and the metrics settings are unchanged.
    fn tell_configured(&self, before: Option<&Generation>, next: &Generation) {
        if self.observers.is_empty() {
            return;
        }
        let limits = next.configs();
        let limits_before = before.map_or_else(Vec::new, Generation::configs);
        let is_same = limits.len() == limits_before.len()
            && limits.iter().zip(&limits_before).all(|(one, other)| Arc::ptr_eq(one, other));
        if is_same && before.is_some_and(|before| before.metrics == next.metrics) {
            return;
        }
        self.observers.tell_configured(&Configured {
            before: &limits_before,
            limits: &limits,
            metrics: &next.metrics,
        });
    }

    fn generation(&self, number: u64, before: Option<&Generation>) -> Generation {
        let of_config = self.limits.iter().map(|opened| (opened, Origin::Config));
        let of_code = self.code.iter().map(|opened| (opened, Origin::Code));
        let mut limits: Vec<Entry> = Vec::new();
        let mut by_name: HashMap<Box<str>, usize> = HashMap::new();
        for (opened, origin) in of_config.chain(of_code) {
            let name = opened.name();
            if by_name.contains_key(name) {
                continue;
            }
            by_name.insert(name.into(), limits.len());
            let switched = self.switched_limits.get(name);
            let cell = before.and_then(|before| before.entry(name)).map_or_else(
                || Arc::new(GateCache::new([Target::Named(name.into())])),
                |entry| Arc::clone(&entry.cell),
            );
            limits.push(Entry {
                switch: switched.copied().unwrap_or(opened.config.enabled),
                opened: Arc::clone(self.overridden.in_force(opened)),
                origin,
                cell,
            });
        }
        Generation {
            number,
            switch: self.switched.unwrap_or(self.enabled),
            unknown: self.unknown,
            http: Arc::clone(&self.http),
            metrics: self.metrics,
            envoy: Arc::clone(&self.envoy),
            clients: Arc::clone(&self.clients),
            limits_in_requests: self.limits_in_requests,
            resp: self.resp,
            limits,
            by_name,
        }
    }
}

impl Fixed {
    pub(super) fn of(config: &Config, source: StoreSource) -> Self {
        let store = (source == StoreSource::Configured).then(|| FixedStore {
            url: config.store.clone(),
            max_clock_back: config.max_clock_back,
            memory: config.memory.clone(),
            redis: config.redis.clone(),
            fallback: config.fallback,
        });
        Self {
            store,
            listeners: config.listeners.clone(),
            service: config.service.clone(),
            decision_log: config.decision_log.clone(),
            recorder: config.recorder,
        }
    }

    /// Returns the fields in which `next` differs, as a file spells them.
    pub(super) fn differences(&self, next: &Self) -> Vec<&'static str> {
        let mut fields = Vec::new();
        let mut note = |field, differs| {
            if differs {
                fields.push(field);
            }
        };
        if let (Some(store), Some(next)) = (&self.store, &next.store) {
            note("store", store.url != next.url);
            note("max_clock_back", store.max_clock_back != next.max_clock_back);
            note("memory", store.memory != next.memory);
            note("redis", store.redis != next.redis);
            note("fallback", store.fallback != next.fallback);
        }
        note("listeners", self.listeners != next.listeners);
        note("service", self.service != next.service);
        note("decision_log", self.decision_log != next.decision_log);
        note("recorder", self.recorder != next.recorder);
        fields
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("current", &self.current).finish_non_exhaustive()
    }
}
