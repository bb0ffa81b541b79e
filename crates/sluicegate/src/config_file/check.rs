//! Validates a tree of YAML values into a [`Config`], and reports all problems.

mod ban;
mod clients;
mod decision_log;
mod envoy;
mod fallback;
mod files;
mod http;
mod keys;
mod leases;
mod limit_block;
mod limits;
mod listeners;
#[cfg(feature = "watch")]
mod named;
mod recorder;
mod redis;
mod replicas;
mod resp;
mod service;

#[cfg(feature = "watch")]
pub(super) use named::named;

use std::num::NonZeroUsize;
use std::sync::Arc;

use sluicegate_core::{Policy, Store, did_you_mean, nearest};
use sluicegate_http::ClientAddress;

use super::files::Files;
use super::origins::Origins;
use super::problem::{ConfigErrors, Position, Reporter, excerpt};
use super::switch::{Switch, UnknownLimit};
use super::tree::{self, Key, Node, Value};
use super::{Config, ConfigCaps, LimitConfig, MemoryConfig, Overflow, StoreUrl, warnings};
use crate::capacity::TooSmall;
use crate::on_store_failure::OnStoreFailure;

/// Parses and validates the text of a file, and the files that it names.
pub(super) fn config(
    text: &str,
    mut reporter: Reporter,
    caps: ConfigCaps,
    mut files: Files,
) -> Result<(Config, Files), ConfigErrors> {
    let (root, duplicate) = tree::read(text, caps.max_values)
        .map_err(|malformed| reporter.only(malformed.position, &malformed.message))?;
    let mut warnings = reporter.empty();
    let mut values_left = caps.max_values.saturating_sub(root.count());
    let mut origins = Origins::default();
    let mut checker = Checker {
        text,
        reporter: &mut reporter,
        warnings: &mut warnings,
        files: &mut files,
        values_left: &mut values_left,
        origins: &mut origins,
    };
    let config = checker.config(&root);
    if let Some(config) = &config {
        origins.finish(reporter.files(), config.limits.iter().map(|it| &**it));
    }
    let origins = Arc::new(origins);
    let warnings = warnings.into_problems();
    if let Some((position, key)) = duplicate.filter(|(position, _)| !reporter.knows(*position)) {
        reporter.report(position, &twice(&excerpt(&key)));
    }
    reporter.finish(config.map(|config| (Config { warnings, origins, ..config }, files)))
}

fn twice(path: &str) -> String {
    format!("{path}: is set twice: keep one")
}

#[derive(Debug)]
struct Checker<'a> {
    text: &'a str,
    reporter: &'a mut Reporter,
    warnings: &'a mut Reporter,
    files: &'a mut Files,
    /// The number of values that the files still to be read may have.
    values_left: &'a mut usize,
    /// The places of the settings that were read.
    origins: &'a mut Origins,
}

/// The parts of the rest of the file that a limit needs.
#[derive(Clone, Copy, Debug)]
struct Around<'a> {
    /// The source of the client's address, shared by all limits.
    address: &'a Arc<ClientAddress>,
    has_fallback: bool,
    /// The fields that the limit may have.
    fields: &'a [&'a str],
    /// The policies of a limit that has none itself.
    policies: Option<&'a [Policy]>,
}

/// The known fields of a map, each once.
type Fields<'a> = Vec<(&'a Key, &'a Node)>;

fn field<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a Node> {
    let (_, node) = fields.iter().find(|(key, _)| key.name == name)?;
    // A field without a value counts as absent.
    Some(*node).filter(|node| !matches!(node.value, Value::Null))
}

/// Returns whether a map without the field `name` has one that is reported as a misspelling of it.
fn is_misspelt(node: &Node, name: &str, known: &[&str]) -> bool {
    let Value::Map(entries) = &node.value else { return false };
    entries.iter().any(|(key, _)| {
        key.name != name && nearest(&key.name, known.iter().copied()).contains(&name)
    })
}

/// Returns the path of a field, such as `limits.demo.key`.
fn path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

impl Checker<'_> {
    fn config(&mut self, root: &Node) -> Option<Config> {
        if matches!(root.value, Value::Null) {
            let message = format!(
                "the file is empty: the smallest one is `limits: {{demo: {{policies: [\"{EXAMPLE}\"]}}}}`"
            );
            self.reporter.report(root.position, &message);
            return None;
        }
        let fields = self.fields(root, "", &FIELDS)?;
        for (key, _) in &fields {
            if let Some(field) = FIELDS.iter().find(|field| **field == key.name) {
                self.origins.add_setting(field, self.reporter.spot(key.position));
            }
        }
        let store = field(&fields, "store").map(|node| self.store(node));
        let listeners = field(&fields, "listeners").map(|node| self.listeners(node));
        let enabled = field(&fields, "enabled").map(|node| self.switch(node, "enabled"));
        let unknown = field(&fields, "unknown_limits")
            .map(|node| self.one_of(node, "unknown_limits", &UnknownLimit::WORDS));
        let clock = field(&fields, "max_clock_back").map(|node| self.max_clock_back(node));
        let http = field(&fields, "http").map(|node| self.http(node)).unwrap_or_default_if_absent();
        let memory = field(&fields, "memory").map(|node| self.memory(node));
        let redis = field(&fields, "redis").map(|node| self.redis(node));
        let service = field(&fields, "service").map(|node| self.service(node));
        let metrics = field(&fields, "metrics").map(|node| self.metrics(node));
        let decision_log = field(&fields, "decision_log").map(|node| self.decision_log(node));
        let recorder = field(&fields, "recorder").map(|node| self.recorder(node));
        let fallback = field(&fields, "fallback").map(|node| self.fallback(node));
        let clients = field(&fields, "clients").map(|node| self.clients(node));
        let limits_in_requests = field(&fields, "limits_in_requests")
            .map(|node| self.switch(node, "limits_in_requests"));
        let resp = field(&fields, "resp").map(|node| self.resp(node));
        let limits = match fields.iter().find(|(key, _)| key.name == "limits") {
            // Problems in `http` don't prevent checking the limits.
            Some((key, node)) => {
                let address = Arc::new(http.clone().unwrap_or_default().client_address);
                let has_fallback = fallback.is_some();
                let fields = &LimitConfig::FIELDS;
                let around = Around { address: &address, has_fallback, fields, policies: None };
                self.limits(key, node, around)
            }
            None => {
                if !is_misspelt(root, "limits", &FIELDS) {
                    self.report(root.position, "limits", NO_LIMITS);
                }
                None
            }
        };
        let envoy = field(&fields, "envoy").map(|node| self.envoy(node, limits.as_deref()));
        let store = store.unwrap_or_default_if_absent();
        if let Some(store) = &store {
            self.warn_of_other_stores(store, &fields);
        }
        if let (Some((key, _)), Some(limits)) =
            (fields.iter().find(|(key, _)| key.name == "fallback"), &limits)
            && !limits.iter().any(|limit| limit.on_store_failure == OnStoreFailure::Local)
        {
            let message = "fallback: has no effect while no limit has `on_store_failure: local`";
            self.warnings.report(key.position, message);
        }
        if let (Some(StoreUrl::Memory), Some(limits)) = (&store, field(&fields, "limits")) {
            self.warn_of_replicas(limits);
        }
        #[cfg(feature = "redis")]
        if let (Some(store), Some(Some(redis)), Some(node)) =
            (&store, &redis, field(&fields, "redis"))
        {
            self.match_redis(store, redis, node);
        }
        if let (Some(StoreUrl::Memory), Some(limits)) = (&store, &limits) {
            self.match_memory(memory.clone().unwrap_or_default_if_absent(), limits, &fields);
        }
        Some(Config {
            store: store?,
            listeners: listeners.unwrap_or_default_if_absent()?,
            enabled: enabled.unwrap_or_default_if_absent()?,
            unknown_limits: unknown.unwrap_or_default_if_absent()?,
            max_clock_back: clock.unwrap_or(Some(Config::MAX_CLOCK_BACK))?,
            http: http?,
            limits: limits?,
            memory: memory.unwrap_or_default_if_absent()?,
            redis: redis.unwrap_or_default_if_absent()?,
            fallback: fallback.map_or(Some(None), |checked| checked.map(Some))?,
            service: service.unwrap_or_default_if_absent()?,
            metrics: metrics.unwrap_or_default_if_absent()?,
            decision_log: decision_log.unwrap_or_default_if_absent()?,
            recorder: recorder.unwrap_or_default_if_absent()?,
            envoy: envoy.unwrap_or_default_if_absent()?,
            clients: clients.unwrap_or_default_if_absent()?,
            limits_in_requests: limits_in_requests.unwrap_or(Some(Switch::Off))?,
            resp: resp.unwrap_or_default_if_absent()?,
            warnings: Vec::new(),
            origins: Arc::default(),
            files: Vec::new(),
            digest: 0,
        })
    }

    fn store(&mut self, node: &Node) -> Option<StoreUrl> {
        let url =
            self.text(node, "store", "a URL such as `memory:` or `redis://127.0.0.1:6379`")?;
        url.parse()
            .map_err(|error: super::StoreUrlError| {
                self.report(node.position, "store", &error.to_string());
            })
            .ok()
    }

    fn switch(&mut self, node: &Node, path: &str) -> Option<Switch> {
        match node.value {
            Value::Bool(true) => Some(Switch::On),
            Value::Bool(false) => Some(Switch::Off),
            _ => {
                self.expected(node, path, "true or false");
                None
            }
        }
    }

    fn memory(&mut self, node: &Node) -> Option<MemoryConfig> {
        let fields = self.fields(node, "memory", &["max_keys", "max_bytes", "overflow"])?;
        let max_keys =
            field(&fields, "max_keys").map(|node| self.size(node, "memory.max_keys", "1000000"));
        let max_bytes = field(&fields, "max_bytes")
            .map(|node| self.size(node, "memory.max_bytes", "256000000"));
        let overflow = field(&fields, "overflow").map(|node| {
            let words = [("evict", Overflow::Evict), ("deny", Overflow::Deny)];
            self.one_of(node, "memory.overflow", &words)
        });
        Some(MemoryConfig {
            max_keys: max_keys.map_or(Some(None), |checked| checked.map(Some))?,
            max_bytes: max_bytes.map_or(Some(None), |checked| checked.map(Some))?,
            overflow: overflow.unwrap_or_default_if_absent()?,
        })
    }

    /// Checks that the embedded store can hold one key of each limit.
    fn match_memory(
        &mut self,
        memory: Option<MemoryConfig>,
        limits: &[Arc<LimitConfig>],
        fields: &Fields<'_>,
    ) {
        let Some(memory) = memory else { return };
        let stats = Store::stats(&memory.builder().build());
        let too_small = TooSmall::of(&stats, limits);
        for cap in &too_small {
            // A default has no place of its own.
            let written = field(fields, "memory").and_then(|node| node.get(cap.field));
            if let Some(node) = written.or_else(|| field(fields, "limits")) {
                self.reporter.report(node.position, &cap.message());
            }
        }
        let warning = memory.max_bytes.and_then(|most| warnings::of_max_bytes(most, limits));
        if let (true, Some(warning), Some(node)) =
            (too_small.is_empty(), warning, field(fields, "memory"))
        {
            self.warnings.report(node.position, &format!("memory.max_bytes: {warning}"));
        }
    }

    fn size(&mut self, node: &Node, path: &str, example: &str) -> Option<NonZeroUsize> {
        let number = self.number(node);
        if number.is_none() {
            let message = format!(
                "must be a whole number from 1 to {}, such as {example}, but is {}",
                usize::MAX,
                self.described(node)
            );
            self.report(node.position, path, &message);
        }
        number
    }

    fn warn_of_other_stores(&mut self, store: &StoreUrl, fields: &Fields<'_>) {
        let idle: &[&str] = match store {
            // It never fails.
            StoreUrl::Memory => &["redis", "fallback"],
            StoreUrl::Redis(_) => &["memory"],
        };
        for (key, _) in fields.iter().filter(|(key, _)| idle.contains(&key.name.as_str())) {
            let idle = &key.name;
            let message = format!("{idle}: has no effect while `store` is {store}");
            self.warnings.report(key.position, &message);
        }
    }

    /// Returns the fields of a map. Reports unknown and duplicate ones.
    fn fields<'n>(&mut self, node: &'n Node, parent: &str, known: &[&str]) -> Option<Fields<'n>> {
        let entries = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => return Some(Vec::new()),
            _ => {
                let at = if parent.is_empty() { "the file" } else { parent };
                self.expected(node, at, &format!("a map with the fields {}", known.join(", ")));
                return None;
            }
        };
        let mut fields: Fields<'n> = Vec::new();
        for (key, node) in entries {
            let path = || path(parent, &excerpt(&key.name));
            if fields.iter().any(|(earlier, _)| earlier.name == key.name) {
                self.reporter.report(key.position, &twice(&path()));
            } else if known.contains(&key.name.as_str()) {
                fields.push((key, node));
            } else {
                let hint = match (parent, key.name.as_str()) {
                    ("", "listen") => Some("write `listeners: {http: ADDRESS}`".to_owned()),
                    (_, name) => did_you_mean(name, known.iter().copied()),
                };
                let hint =
                    hint.unwrap_or_else(|| format!("the fields here are {}", known.join(", ")));
                self.report(key.position, &path(), &format!("is not a field: {hint}"));
            }
        }
        Some(fields)
    }

    /// Returns a whole number, digits only.
    fn number<T: std::str::FromStr>(&self, node: &Node) -> Option<T> {
        let written = node.written(self.text);
        let digits = written.bytes().all(|byte| byte.is_ascii_digit());
        match &node.value {
            Value::Number if digits => written.parse().ok(),
            _ => None,
        }
    }

    fn text<'n>(&mut self, node: &'n Node, path: &str, wanted: &str) -> Option<&'n str> {
        if let Value::Text(text) = &node.value {
            return Some(text);
        }
        self.expected(node, path, wanted);
        None
    }

    fn one_of<T: Copy>(&mut self, node: &Node, path: &str, words: &[(&str, T)]) -> Option<T> {
        let found = match &node.value {
            Value::Text(text) => words.iter().find(|(word, _)| word == text),
            _ => None,
        };
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let hint = match &node.value {
                Value::Text(text) => did_you_mean(text, words.iter().copied()),
                _ => None,
            };
            let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
            let described = self.described(node);
            let message = format!("must be one of {}, but is {described}{hint}", words.join(", "));
            self.report(node.position, path, &message);
        }
        found.map(|(_, value)| *value)
    }

    fn expected(&mut self, node: &Node, path: &str, wanted: &str) {
        let message = format!("must be {wanted}, but is {}", self.described(node));
        self.report(node.position, path, &message);
    }

    fn described(&self, node: &Node) -> String {
        match &node.value {
            Value::Null => "nothing".to_owned(),
            // As written, because quotes make a number a string.
            Value::Bool(_) | Value::Number | Value::Text(_) => {
                format!("`{}`", excerpt(node.written(self.text)))
            }
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    fn report(&mut self, position: Position, path: &str, message: &str) {
        self.reporter.report(position, &format!("{path}: {message}"));
    }
}

const FIELDS: [&str; 18] = [
    "store",
    "listeners",
    "enabled",
    "unknown_limits",
    "max_clock_back",
    "limits",
    "http",
    "memory",
    "redis",
    "fallback",
    "service",
    "metrics",
    "decision_log",
    "recorder",
    "envoy",
    "clients",
    "limits_in_requests",
    "resp",
];
const EXAMPLE: &str = "token_bucket 10/s burst 20";
const NO_LIMITS: &str =
    "there is no limit: write one such as `demo: {policies: [\"token_bucket 10/s burst 20\"]}`";
/// An optional field, with the information whether its value is valid.
trait Checked<T> {
    /// Returns the default for an absent field, `None` for an invalid one.
    fn unwrap_or_default_if_absent(self) -> Option<T>;
}

impl<T: Default> Checked<T> for Option<Option<T>> {
    fn unwrap_or_default_if_absent(self) -> Option<T> {
        self.unwrap_or_else(|| Some(T::default()))
    }
}
