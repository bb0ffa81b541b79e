//! The limits of Envoy's descriptors.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluicegate_core::{LimitName, did_you_mean};

use super::{Checker, excerpt, field, path};
use crate::config_file::envoy::{DescriptorLimit, EnvoyConfig, EnvoyDomain, KeyTemplate};
use crate::config_file::tree::{Node, Value};
use crate::config_file::{LimitConfig, Switch};

const LINES: &str = "a list of lines such as `{match: {user: \"*\"}, limit: api}`";

impl Checker<'_> {
    pub(super) fn envoy(
        &mut self,
        node: &Node,
        limits: Option<&[Arc<LimitConfig>]>,
    ) -> Option<EnvoyConfig> {
        let fields = self.fields(node, "envoy", &["domains"])?;
        let Some(node) = field(&fields, "domains") else {
            return Some(EnvoyConfig::default());
        };
        const PATH: &str = "envoy.domains";
        let Value::Map(entries) = &node.value else {
            self.expected(node, PATH, &format!("a map from names of domains to {LINES}"));
            return None;
        };
        let mut domains = BTreeMap::new();
        let mut is_valid = true;
        for (name, node) in entries {
            let path = path(PATH, &excerpt(&name.name));
            if name.name.is_empty() {
                self.report(name.position, PATH, "has a domain without a name: Envoy sends none");
                is_valid = false;
            } else if domains.contains_key(&name.name) {
                self.reporter.report(name.position, &super::twice(&path));
                is_valid = false;
            } else {
                match self.envoy_domain(node, &path, limits) {
                    Some(domain) => {
                        domains.insert(name.name.clone(), domain);
                    }
                    None => is_valid = false,
                }
            }
        }
        is_valid.then_some(EnvoyConfig { domains })
    }

    /// Reads a domain: its lines, or a map with more settings.
    fn envoy_domain(
        &mut self,
        node: &Node,
        at: &str,
        limits: Option<&[Arc<LimitConfig>]>,
    ) -> Option<EnvoyDomain> {
        if matches!(node.value, Value::List(_)) {
            let descriptors = self.descriptors(node, at, limits)?;
            return Some(EnvoyDomain { refunds: Switch::Off, descriptors });
        }
        if !matches!(node.value, Value::Map(_)) {
            let wanted = format!("{LINES}, or a map with the fields refunds and descriptors");
            self.expected(node, at, &wanted);
            return None;
        }
        let fields = self.fields(node, at, &["refunds", "descriptors"])?;
        let refunds = field(&fields, "refunds")
            .map_or(Some(Switch::Off), |node| self.switch(node, &path(at, "refunds")));
        let descriptors = match field(&fields, "descriptors") {
            Some(node) => self.descriptors(node, &path(at, "descriptors"), limits),
            None => {
                let message = format!("has no `descriptors`: add {LINES}");
                self.report(node.position, at, &message);
                None
            }
        };
        Some(EnvoyDomain { refunds: refunds?, descriptors: descriptors? })
    }

    fn descriptors(
        &mut self,
        node: &Node,
        at: &str,
        limits: Option<&[Arc<LimitConfig>]>,
    ) -> Option<Vec<DescriptorLimit>> {
        let Value::List(nodes) = &node.value else {
            self.expected(node, at, LINES);
            return None;
        };
        let mut found: Vec<DescriptorLimit> = Vec::with_capacity(nodes.len());
        let mut is_valid = true;
        for (index, node) in nodes.iter().enumerate() {
            let at = format!("{at}[{index}]");
            let Some(line) = self.descriptor(node, &at, limits) else {
                is_valid = false;
                continue;
            };
            if let Some(earlier) = found.iter().position(|earlier| earlier.covers(&line)) {
                let message = format!(
                    "{at}: never counts, because line [{earlier}] matches all of its descriptors: put it before that one"
                );
                self.warnings.report(node.position, &message);
            }
            found.push(line);
        }
        is_valid.then_some(found)
    }

    fn descriptor(
        &mut self,
        node: &Node,
        at: &str,
        limits: Option<&[Arc<LimitConfig>]>,
    ) -> Option<DescriptorLimit> {
        if !matches!(node.value, Value::Map(_)) {
            self.expected(node, at, "a line such as `{match: {user: \"*\"}, limit: api}`");
            return None;
        }
        let fields = self.fields(node, at, &["match", "limit", "key"])?;
        let entries = match field(&fields, "match") {
            Some(node) => self.entries(node, &path(at, "match")),
            None => {
                self.report(
                    node.position,
                    at,
                    "has no `match`: add one such as `match: {user: \"*\"}`",
                );
                None
            }
        };
        let limit = match field(&fields, "limit") {
            Some(node) => self.limit_of_descriptor(node, &path(at, "limit"), limits),
            None => {
                self.report(node.position, at, "has no `limit`: add the name of a limit");
                None
            }
        };
        let entries = entries?;
        let key = match field(&fields, "key") {
            Some(node) => {
                let at = path(at, "key");
                let text = self.text(node, &at, "a text such as `{user}` or `everybody`")?;
                let is_entry = |name: &str| entries.iter().any(|(key, _)| key == name);
                let parsed = KeyTemplate::parse(text, is_entry);
                Some(parsed.map_err(|error| self.report(node.position, &at, &error)).ok()?)
            }
            None if entries.iter().all(|(_, value)| value.is_some()) => {
                let message =
                    "has no key: a `match` without `*` needs one such as `key: everybody`";
                self.report(node.position, at, message);
                return None;
            }
            None => None,
        };
        Some(DescriptorLimit::new(entries, limit?, key))
    }

    fn entries(&mut self, node: &Node, at: &str) -> Option<Vec<(String, Option<String>)>> {
        const WANTED: &str =
            "a map of the descriptor's entries such as `{plan: gold, user: \"*\"}`";
        let Value::Map(entries) = &node.value else {
            self.expected(node, at, WANTED);
            return None;
        };
        if entries.is_empty() {
            self.expected(node, at, WANTED);
            return None;
        }
        let mut read: Vec<(String, Option<String>)> = Vec::with_capacity(entries.len());
        for (key, node) in entries {
            let at = path(at, &excerpt(&key.name));
            if read.iter().any(|(name, _)| *name == key.name) {
                self.reporter.report(key.position, &super::twice(&at));
                return None;
            }
            let value = match &node.value {
                Value::Text(text) if text == "*" => None,
                Value::Text(text) => Some(text.clone()),
                // Envoy sends text: a number or a switch is compared as written.
                Value::Number | Value::Bool(_) => Some(node.written(self.text).to_owned()),
                _ => {
                    self.expected(node, &at, "a value, or `\"*\"` for any value");
                    return None;
                }
            };
            read.push((key.name.clone(), value));
        }
        Some(read)
    }

    fn limit_of_descriptor(
        &mut self,
        node: &Node,
        at: &str,
        limits: Option<&[Arc<LimitConfig>]>,
    ) -> Option<LimitName> {
        let name = self.text(node, at, "the name of a limit")?;
        // The other problems of the limits are reported already.
        let limits = limits?;
        let Some(found) = limits.iter().find(|it| it.limit.name().as_str() == name) else {
            let hint = did_you_mean(name, limits.iter().map(|it| it.limit.name().as_str()));
            let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
            let message = format!("there is no limit `{}`{hint}", excerpt(name));
            self.report(node.position, at, &message);
            return None;
        };
        if found.limit.has_permits() {
            let message = format!(
                "`{name}` counts requests in flight, and Envoy doesn't say when a request ends: name another limit"
            );
            self.report(node.position, at, &message);
            return None;
        }
        Some(found.limit.name().clone())
    }
}
