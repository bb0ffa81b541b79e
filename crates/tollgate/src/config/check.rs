//! From a tree of YAML values to a checked [`Config`], reporting all that is wrong on the way.

use std::num::NonZeroUsize;

use tollgate_core::{KeyPrefix, Limit, LimitError, LimitName, Policy, Span};

use super::problem::{ConfigErrors, Place, Reporter, excerpt};
use super::tree::{self, Key, Node, Value};
use super::{
    Config, LimitConfig, MemoryConfig, OnStoreFailure, Overflow, RedisConfig, StoreUrl, warnings,
};

/// Reads and checks the text of a file.
pub(super) fn config(text: &str, mut reporter: Reporter) -> Result<Config, ConfigErrors> {
    let root =
        tree::read(text).map_err(|malformed| reporter.only(malformed.place, &malformed.message))?;
    let warnings = reporter.empty();
    let mut checker = Checker { text, warnings, reporter: &mut reporter };
    let config = checker.config(&root);
    let warnings = checker.warnings.into_problems();
    if let Some((place, key)) =
        tree::first_duplicate(text).filter(|(place, _)| !reporter.knows(*place))
    {
        reporter.report(place, &twice(&excerpt(&key)));
    }
    reporter.finish(config.map(|config| Config { warnings, ..config }))
}

fn twice(path: &str) -> String {
    format!("{path}: is there twice: keep one of them")
}

#[derive(Debug)]
struct Checker<'a> {
    text: &'a str,
    reporter: &'a mut Reporter,
    warnings: Reporter,
}

/// The fields of a map that are known, each once.
type Fields<'a> = Vec<(&'a Key, &'a Node)>;

fn field<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a Node> {
    let (_, node) = fields.iter().find(|(key, _)| key.name == name)?;
    // A field without a value says no more than one that isn't there.
    Some(*node).filter(|node| !matches!(node.value, Value::Null))
}

/// The path of a field, such as `limits.demo.key`.
fn path(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

impl Checker<'_> {
    fn config(&mut self, root: &Node) -> Option<Config> {
        if matches!(root.value, Value::Null) {
            let message = format!(
                "the file is empty: the smallest one is `limits: {{demo: {{policies: [\"{EXAMPLE}\"]}}}}`"
            );
            self.reporter.report(root.place, &message);
            return None;
        }
        let fields = self.fields(root, "", &["store", "listen", "limits", "memory", "redis"])?;
        let store = field(&fields, "store").map(|node| self.store(node));
        let listen = field(&fields, "listen").map(|node| self.listen(node));
        let memory = field(&fields, "memory").map(|node| self.memory(node));
        let redis = field(&fields, "redis").map(|node| self.redis(node));
        let limits = match fields.iter().find(|(key, _)| key.name == "limits") {
            Some((key, node)) => self.limits(key, node),
            None => {
                self.report(root.place, "limits", NO_LIMITS);
                None
            }
        };
        let store = store.unwrap_or_default_if_absent();
        if let Some(store) = &store {
            self.warn_of_other_stores(store, &fields);
        }
        Some(Config {
            store: store?,
            listen: listen.unwrap_or(Some(Config::LISTEN))?,
            limits: limits?,
            memory: memory.unwrap_or_default_if_absent()?,
            redis: redis.unwrap_or_default_if_absent()?,
            warnings: Vec::new(),
        })
    }

    fn store(&mut self, node: &Node) -> Option<StoreUrl> {
        let url =
            self.text(node, "store", "a URL such as `memory:` or `redis://127.0.0.1:6379`")?;
        url.parse()
            .map_err(|error: super::StoreUrlError| {
                self.report(node.place, "store", &error.to_string());
            })
            .ok()
    }

    fn listen(&mut self, node: &Node) -> Option<std::net::SocketAddr> {
        const WANTED: &str = "an IP address and a port such as 127.0.0.1:8080 or [::1]:8080";
        let text = self.text(node, "listen", WANTED)?;
        let address = text.parse().ok();
        if address.is_none() {
            self.report(node.place, "listen", &format!("`{}` is not {WANTED}", excerpt(text)));
        }
        address
    }

    fn memory(&mut self, node: &Node) -> Option<MemoryConfig> {
        let fields = self.fields(node, "memory", &["max_keys", "overflow"])?;
        let max_keys = field(&fields, "max_keys").map(|node| self.max_keys(node));
        let overflow = field(&fields, "overflow").map(|node| {
            let words = [("evict", Overflow::Evict), ("deny", Overflow::Deny)];
            self.one_of(node, "memory.overflow", &words)
        });
        Some(MemoryConfig {
            max_keys: max_keys.map_or(Some(None), |checked| checked.map(Some))?,
            overflow: overflow.unwrap_or_default_if_absent()?,
        })
    }

    fn max_keys(&mut self, node: &Node) -> Option<NonZeroUsize> {
        let written = node.written(self.text);
        let digits = written.bytes().all(|byte| byte.is_ascii_digit());
        let number = match &node.value {
            Value::Number if digits => written.parse().ok(),
            _ => None,
        };
        if number.is_none() {
            let message = format!(
                "must be a whole number from 1 to {}, such as 1000000, but is {}",
                usize::MAX,
                self.described(node)
            );
            self.report(node.place, "memory.max_keys", &message);
        }
        number
    }

    fn redis(&mut self, node: &Node) -> Option<RedisConfig> {
        let fields = self.fields(node, "redis", &["prefix"])?;
        let prefix = field(&fields, "prefix").map(|node| self.prefix(node));
        Some(RedisConfig { prefix: prefix.unwrap_or_default_if_absent()? })
    }

    fn prefix(&mut self, node: &Node) -> Option<KeyPrefix> {
        let text = self.text(node, "redis.prefix", "text such as `tg`")?;
        text.parse()
            .map_err(|error: tollgate_core::KeyPrefixError| {
                self.report(node.place, "redis.prefix", &error.to_string());
            })
            .ok()
    }

    fn limits(&mut self, key: &Key, node: &Node) -> Option<Vec<LimitConfig>> {
        let entries = match &node.value {
            Value::Map(entries) if !entries.is_empty() => entries,
            Value::Map(_) | Value::Null => {
                self.report(key.place, "limits", NO_LIMITS);
                return None;
            }
            _ => {
                self.expected(
                    node,
                    "limits",
                    &format!(
                        "a map of names to limits such as `demo: {{policies: [\"{EXAMPLE}\"]}}`"
                    ),
                );
                return None;
            }
        };
        let mut seen: Vec<&str> = Vec::new();
        let mut limits = Vec::new();
        for (key, node) in entries {
            let path = path("limits", &excerpt(&key.name));
            if seen.contains(&key.name.as_str()) {
                self.reporter.report(key.place, &twice(&path));
            }
            seen.push(&key.name);
            let name = key
                .name
                .parse()
                .map_err(|error: tollgate_core::NameError| {
                    self.report(key.place, "limits", &error.to_string());
                })
                .ok();
            limits.push(self.limit(key, name, node, &path));
        }
        limits.into_iter().collect()
    }

    fn limit(
        &mut self,
        key: &Key,
        name: Option<LimitName>,
        node: &Node,
        parent: &str,
    ) -> Option<LimitConfig> {
        const FIELDS: [&str; 4] = ["key", "policies", "on_store_failure", "deadline"];
        if matches!(node.value, Value::Null) {
            self.report(key.place, parent, NO_POLICIES);
            return None;
        }
        let fields = self.fields(node, parent, &FIELDS)?;
        let expression = field(&fields, "key").map(|node| self.key(node, &path(parent, "key")));
        let on_store_failure = field(&fields, "on_store_failure").map(|node| {
            let words = [
                ("error", OnStoreFailure::Error),
                ("allow", OnStoreFailure::Allow),
                ("deny", OnStoreFailure::Deny),
            ];
            self.one_of(node, &path(parent, "on_store_failure"), &words)
        });
        let deadline =
            field(&fields, "deadline").map(|node| self.deadline(node, &path(parent, "deadline")));
        let limit = match field(&fields, "policies") {
            Some(node) => self.policies(name, node, &path(parent, "policies")),
            None => {
                self.report(key.place, parent, NO_POLICIES);
                None
            }
        };
        Some(LimitConfig {
            limit: limit?,
            key: expression.unwrap_or_else(|| Some("ip".to_owned()))?,
            on_store_failure: on_store_failure.unwrap_or_default_if_absent()?,
            deadline: deadline.unwrap_or(Some(Config::DEADLINE))?,
        })
    }

    fn key(&mut self, node: &Node, path: &str) -> Option<String> {
        let text = self.text(node, path, "an expression such as `ip`")?;
        if text.trim().is_empty() {
            self.report(
                node.place,
                path,
                "is empty: write an expression such as `ip`, or remove it",
            );
            return None;
        }
        Some(text.to_owned())
    }

    fn deadline(&mut self, node: &Node, path: &str) -> Option<Span> {
        let written = match &node.value {
            Value::Text(text) => text,
            // Without a unit it is a number: the span's own error says what to add.
            Value::Number => node.written(self.text),
            _ => {
                self.expected(node, path, "a length of time such as 50ms");
                return None;
            }
        };
        // The longest span has 18 characters: what an error repeats of this one is enough.
        match excerpt(written).parse::<Span>() {
            Err(error) => self.report(node.place, path, &error.to_string()),
            Ok(span) if span < Span::MILLISECOND || span > Span::MINUTE => {
                let message = format!("is {span}, but must be from 1ms to 60s");
                self.report(node.place, path, &message);
            }
            Ok(span) => return Some(span),
        }
        None
    }

    fn policies(&mut self, name: Option<LimitName>, node: &Node, path: &str) -> Option<Limit> {
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            Value::List(_) => {
                self.report(
                    node.place,
                    path,
                    &format!("is empty: write at least one policy such as [\"{EXAMPLE}\"]"),
                );
                return None;
            }
            _ => {
                self.expected(node, path, &format!("a list of policies such as [\"{EXAMPLE}\"]"));
                return None;
            }
        };
        let parsed: Vec<Option<Policy>> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| self.policy(node, &format!("{path}[{index}]")))
            .collect();
        let policies: Option<Vec<Policy>> = parsed.iter().cloned().collect();
        let Some(policies) = policies else {
            // Which name the others have by default depends on those that can't be read; two
            // that were given one name are too many in any case.
            self.report_equal_names(nodes, &parsed, path);
            return None;
        };
        if let Some(warning) = warnings::of_policies(&policies) {
            self.warnings.report(node.place, &format!("{path}: {warning}"));
        }
        // The name doesn't matter to whether the policies go together.
        let stand_in = || "limit".parse::<LimitName>().ok();
        let limit = Limit::new(name.clone().or_else(stand_in)?, policies);
        match limit {
            Ok(limit) => name.map(|_| limit),
            Err(error) => {
                let place = match &error {
                    LimitError::DuplicateName { index, .. } => nodes.get(*index),
                    _ => None,
                };
                self.report(place.unwrap_or(node).place, path, &error.to_string());
                None
            }
        }
    }

    fn policy(&mut self, node: &Node, path: &str) -> Option<Policy> {
        let spec = self.text(node, path, &format!("a policy such as \"{EXAMPLE}\""))?;
        match spec.parse::<Policy>() {
            Ok(policy) => {
                for warning in warnings::of_policy(&policy) {
                    self.warnings.report(node.place, &format!("{path}: {warning}"));
                }
                Some(policy)
            }
            Err(error) => {
                let place = node.place_inside(self.text, error.column() - 1);
                let message = format!("{path}: {}", error.message());
                self.reporter.report_with(place, &message, error.snippet());
                None
            }
        }
    }

    fn report_equal_names(&mut self, nodes: &[Node], parsed: &[Option<Policy>], path: &str) {
        let named: Vec<_> = nodes
            .iter()
            .zip(parsed)
            .enumerate()
            .filter_map(|(index, (node, policy))| Some((index, node, policy.as_ref()?.name()?)))
            .collect();
        for (position, (index, node, name)) in named.iter().enumerate() {
            if named.iter().take(position).any(|(_, _, earlier)| earlier == name) {
                let error = LimitError::DuplicateName { name: (*name).clone(), index: *index };
                self.report(node.place, path, &error.to_string());
            }
        }
    }

    fn warn_of_other_stores(&mut self, store: &StoreUrl, fields: &Fields<'_>) {
        let idle = match store {
            StoreUrl::Memory => "redis",
            StoreUrl::Redis(_) => "memory",
        };
        for (key, _) in fields.iter().filter(|(key, _)| key.name == idle) {
            let message = format!("{idle}: has no effect while `store` is {store}");
            self.warnings.report(key.place, &message);
        }
    }

    /// The fields of a map, after reporting those that aren't among `known` or are there twice.
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
            let path = path(parent, &excerpt(&key.name));
            if fields.iter().any(|(earlier, _)| earlier.name == key.name) {
                self.reporter.report(key.place, &twice(&path));
            } else if known.contains(&key.name.as_str()) {
                fields.push((key, node));
            } else {
                let message = format!("is not a field: the fields here are {}", known.join(", "));
                self.report(key.place, &path, &message);
            }
        }
        Some(fields)
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
            self.expected(node, path, &format!("one of {}", words.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    fn expected(&mut self, node: &Node, path: &str, wanted: &str) {
        let message = format!("must be {wanted}, but is {}", self.described(node));
        self.report(node.place, path, &message);
    }

    fn described(&self, node: &Node) -> String {
        match &node.value {
            Value::Null => "nothing".to_owned(),
            // As written: quotes are what makes a number text.
            Value::Bool | Value::Number | Value::Text(_) => {
                format!("`{}`", excerpt(node.written(self.text)))
            }
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    fn report(&mut self, place: Place, path: &str, message: &str) {
        self.reporter.report(place, &format!("{path}: {message}"));
    }
}

const EXAMPLE: &str = "token_bucket 10/s burst 20";
const NO_LIMITS: &str =
    "there is no limit: write one such as `demo: {policies: [\"token_bucket 10/s burst 20\"]}`";
const NO_POLICIES: &str = "has no policies: add `policies: [\"token_bucket 10/s burst 20\"]`";

/// A field that may be absent, of which it is known whether it could be read.
trait Checked<T> {
    /// The default for a field that is absent, `None` for one that couldn't be read.
    fn unwrap_or_default_if_absent(self) -> Option<T>;
}

impl<T: Default> Checked<T> for Option<Option<T>> {
    fn unwrap_or_default_if_absent(self) -> Option<T> {
        self.unwrap_or_else(|| Some(T::default()))
    }
}
