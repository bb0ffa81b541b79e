//! The limits of a file.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{Limit, LimitError, LimitName, OnExpiry, Policy, Span};
use sluicegate_http::{KeyExpression, OnMissingKey};

use super::keys::{KeyContext, Lists, Sources};
use super::{
    Around, Checked, Checker, EXAMPLE, NO_LIMITS, excerpt, fallback, field, is_misspelt, path,
    twice,
};
use crate::config_file::origins::LimitOrigins;
use crate::config_file::problem::Position;
use crate::config_file::tree::{Key, Node, Value};
use crate::config_file::{Config, LimitConfig, Switch, warnings};
use crate::layers::LeaseOptions;
use crate::on_store_failure::OnStoreFailure;

impl Checker<'_> {
    pub(super) fn limits(
        &mut self,
        key: &Key,
        node: &Node,
        around: Around<'_>,
    ) -> Option<Vec<Arc<LimitConfig>>> {
        let entries = match &node.value {
            Value::Map(entries) if !entries.is_empty() => entries,
            Value::Map(_) | Value::Null => {
                self.report(key.position, "limits", NO_LIMITS);
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
        let mut seen: HashSet<&str> = HashSet::new();
        let mut limits = Vec::new();
        for (key, node) in entries {
            let path = path("limits", &excerpt(&key.name));
            if !seen.insert(&key.name) {
                self.reporter.report(key.position, &twice(&path));
            }
            let name = key
                .name
                .parse()
                .map_err(|error: sluicegate_core::NameError| {
                    self.report(key.position, "limits", &error.to_string());
                })
                .ok();
            let limit = self.limit(key.position, name.as_ref(), node, &path, around);
            limits.push(limit.map(Arc::new));
        }
        limits.into_iter().collect()
    }

    /// Reads a limit. `position` is the position of its name.
    pub(super) fn limit(
        &mut self,
        position: Position,
        name: Option<&LimitName>,
        node: &Node,
        parent: &str,
        around: Around<'_>,
    ) -> Option<LimitConfig> {
        if matches!(node.value, Value::Null) && around.policies.is_none() {
            self.report(position, parent, NO_POLICIES);
            return None;
        }
        let fields = self.fields(node, parent, around.fields)?;
        let mut origins = LimitOrigins::at(self.reporter.spot(position));
        for (key, _) in &fields {
            if let Some(field) = LimitConfig::FIELDS.iter().find(|field| **field == key.name) {
                origins.add_setting(field, self.reporter.spot(key.position));
            }
        }
        let given = |name: &str| field(&fields, name).map(|node| (node, path(parent, name)));
        let enabled = given("enabled").map(|(node, path)| self.switch(node, &path));
        let expression = match given("key") {
            Some((node, path)) => self.key(node, &path),
            None => Some(KeyExpression::default()),
        };
        if let (Some((node, path)), Some(expression)) = (given("missing_key"), &expression)
            && let Some(warning) = warnings::of_missing_key(expression)
        {
            self.warnings.report(node.position, &format!("{path}: {warning}"));
        }
        let missing_key = given("missing_key").map(|(node, path)| {
            let words = [
                ("shared", OnMissingKey::Shared),
                ("refuse", OnMissingKey::Refuse),
                ("skip", OnMissingKey::Skip),
            ];
            self.one_of(node, &path, &words)
        });
        let on_store_failure = given("on_store_failure").map(|(node, path)| {
            let words = [
                ("error", OnStoreFailure::Error),
                ("allow", OnStoreFailure::Allow),
                ("deny", OnStoreFailure::Deny),
                ("local", OnStoreFailure::Local),
            ];
            let then = self.one_of(node, &path, &words);
            if then == Some(OnStoreFailure::Local) && !around.has_fallback {
                self.report(node.position, &path, fallback::MISSING);
            }
            then
        });
        let deadline = given("deadline").map(|(node, path)| self.deadline(node, &path));
        let deny_cache = given("deny_cache").map(|(node, path)| self.switch(node, &path));
        let retry_unknown = given("retry_unknown").map(|(node, path)| self.switch(node, &path));
        let mut leases = given("leases").map(|(node, path)| self.leases(node, &path));
        let replicas = given("replicas").map(|(node, path)| {
            let deadline = deadline.unwrap_or(Some(Config::DEADLINE));
            self.replicas(node, &path, deadline)
        });
        // Whether the policies form a limit doesn't depend on its name.
        let stand_in = name.cloned().or_else(|| "limit".parse().ok())?;
        let limit = match (given("policies"), around.policies) {
            (Some((node, path)), _) => {
                if let Value::List(nodes) = &node.value {
                    let spots = nodes.iter().map(|node| self.reporter.spot(node.position));
                    origins.set_policies(spots);
                }
                let overrides = field(&fields, "overrides");
                let others =
                    given("overrides_file").is_some() || overrides.is_some_and(give_policies);
                self.policies(stand_in, node, &path, others)
            }
            (None, Some(policies)) => {
                // They are next to the settings.
                let spot = self.reporter.spot(position);
                origins.set_policies(policies.iter().map(|_| spot));
                let made = Limit::new(stand_in, policies.iter().cloned());
                made.map_err(|error| self.report(position, parent, &error.to_string())).ok()
            }
            (None, None) => {
                if !is_misspelt(node, "policies", around.fields) {
                    self.report(position, parent, NO_POLICIES);
                }
                None
            }
        };
        let limit = match (given("ban"), limit) {
            (Some((node, path)), limit) => {
                let ban = self.ban(node, &path, limit.as_ref());
                ban.zip(limit).map(|(ban, limit)| limit.banning(ban))
            }
            (None, limit) => limit,
        };
        let limit = match (given("on_expiry"), limit) {
            (Some((node, path)), limit) => {
                let on_expiry = self.one_of(node, &path, &OnExpiry::WORDS)?;
                limit.map(|limit| limit.with_on_expiry(on_expiry))
            }
            (None, limit) => limit,
        };
        if let (Some((node, path)), Some(limit)) = (given("on_store_failure"), &limit)
            && on_store_failure == Some(Some(OnStoreFailure::Local))
            && limit.has_permits()
        {
            self.report(node.position, &path, fallback::PERMITS);
        }
        if let (Some((node, path)), Some(limit), Some(Some(asked))) =
            (given("leases"), &limit, leases)
            && asked.most > 0
            && !self.can_be_leased(node, &path, limit)
        {
            leases = Some(None);
        }
        let context = KeyContext {
            expression: expression.as_ref(),
            address: around.address,
            limit: limit.as_ref(),
            is_written: given("key").is_some(),
        };
        let sources = |list, file| Sources { list: given(list), file: given(file) };
        let lists =
            self.lists(sources("allow", "allow_file"), sources("block", "block_file"), &context);
        let overrides =
            self.overrides(sources("overrides", "overrides_file"), &context, lists.as_ref());
        let Lists { allow, block, allow_spots, block_spots } = lists?;
        origins.set_lists(allow_spots, block_spots);
        let (overrides, override_spots) = overrides?;
        origins.set_overrides(override_spots);
        if let Some(name) = name {
            self.origins.add(name.as_str(), origins);
        }
        let config = LimitConfig {
            limit: limit.filter(|_| name.is_some())?,
            enabled: enabled.unwrap_or_default_if_absent()?,
            key: expression?.with_client_address(Arc::clone(around.address)),
            missing_key: missing_key.unwrap_or_default_if_absent()?,
            allow,
            block,
            overrides,
            on_store_failure: on_store_failure.unwrap_or_default_if_absent()?,
            deadline: Some(deadline.unwrap_or(Some(Config::DEADLINE))?),
            deny_cache: deny_cache.unwrap_or(Some(Switch::Off))?,
            retry_unknown: retry_unknown.unwrap_or(Some(Switch::Off))?,
            leases: leases.unwrap_or(Some(LeaseOptions::NONE))?,
            replicas: replicas.map_or(Some(None), |checked| checked.map(Some))?,
        };
        if let Some((list, warning)) = warnings::of_lists(&config)
            && let Some((node, path)) = given(list).or_else(|| given(&format!("{list}_file")))
        {
            self.warnings.report(node.position, &format!("{path}: {warning}"));
        }
        Some(config)
    }

    fn key(&mut self, node: &Node, path: &str) -> Option<KeyExpression> {
        let text = self.text(node, path, "an expression such as `ip`")?;
        if text.trim().is_empty() {
            self.report(
                node.position,
                path,
                "is empty: write an expression such as `ip`, or remove it",
            );
            return None;
        }
        match text.parse::<KeyExpression>() {
            Ok(expression) => {
                for warning in warnings::of_key(&expression) {
                    self.warnings.report(node.position, &format!("{path}: {warning}"));
                }
                Some(expression)
            }
            Err(error) => {
                let position = node.position_inside(self.text, error.column() - 1);
                let message = format!("{path}: {}", error.message());
                self.reporter.report_with(position, &message, error.snippet());
                None
            }
        }
    }

    fn deadline(&mut self, node: &Node, path: &str) -> Option<Duration> {
        let written = match &node.value {
            Value::Text(text) => text,
            // A number without a unit: the span's own error says what to add.
            Value::Number => node.written(self.text),
            _ => {
                self.expected(node, path, "a length of time such as 50ms");
                return None;
            }
        };
        // The longest span has 18 characters: the excerpt in an error is enough.
        match excerpt(written).parse::<Span>() {
            Err(error) => self.report(node.position, path, &error.to_string()),
            Ok(span) if span < Span::MILLISECOND || span > Span::MINUTE => {
                let message = format!("is {span}, but must be from 1ms to 60s");
                self.report(node.position, path, &message);
            }
            Ok(span) => return Some(span.into()),
        }
        None
    }

    fn policies(
        &mut self,
        name: LimitName,
        node: &Node,
        path: &str,
        has_other_policies: bool,
    ) -> Option<Limit> {
        let (nodes, policies) = self.policy_list(node, path)?;
        let limit = Limit::new(name, policies.iter().cloned()).map_err(|error| {
            let position = match &error {
                LimitError::DuplicateName { index, .. } => nodes.get(*index),
                _ => None,
            };
            self.report(position.unwrap_or(node).position, path, &error.to_string());
        });
        let limit = limit.ok()?;
        if !has_other_policies {
            self.warn_of_refusals(nodes, &policies, path);
        }
        for (index, (node, policy)) in nodes.iter().zip(&policies).enumerate() {
            if let Some(warning) = warnings::of_window(policy) {
                self.warnings.report(node.position, &format!("{path}[{index}]: {warning}"));
            }
        }
        if let Some(warning) = warnings::of_policies(&policies) {
            self.warnings.report(node.position, &format!("{path}: {warning}"));
        }
        for (index, warning) in warnings::redundant_policies(&policies) {
            let at = nodes.get(index).unwrap_or(node);
            self.warnings.report(at.position, &format!("{path}[{index}]: {warning}"));
        }
        Some(limit)
    }

    /// Warns about policies that refuse requests permanently.
    pub(super) fn warn_of_refusals(&mut self, nodes: &[Node], policies: &[Policy], path: &str) {
        for (index, (node, policy)) in nodes.iter().zip(policies).enumerate() {
            if let Some(warning) = warnings::refuses_for_ever(policy) {
                self.warnings.report(node.position, &format!("{path}[{index}]: {warning}"));
            }
        }
    }

    /// Returns the policies of a non-empty list, with their nodes.
    pub(super) fn policy_list<'n>(
        &mut self,
        node: &'n Node,
        path: &str,
    ) -> Option<(&'n [Node], Vec<Policy>)> {
        let nodes = match &node.value {
            Value::List(nodes) if !nodes.is_empty() => nodes,
            Value::List(_) => {
                self.report(
                    node.position,
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
        if policies.is_none() {
            // Default names depend on the policies that are invalid, but two equal given names are always wrong.
            self.report_equal_names(nodes, &parsed, path);
        }
        Some((nodes, policies?))
    }

    fn policy(&mut self, node: &Node, path: &str) -> Option<Policy> {
        let spec = self.text(node, path, &format!("a policy such as \"{EXAMPLE}\""))?;
        match spec.parse::<Policy>() {
            Ok(policy) => {
                for warning in warnings::of_tiers(&policy) {
                    self.warnings.report(node.position, &format!("{path}: {warning}"));
                }
                Some(policy)
            }
            Err(error) => {
                let position = node.position_inside(self.text, error.column() - 1);
                let message = format!("{path}: {}", error.message());
                self.reporter.report_with(position, &message, error.snippet());
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
                self.report(node.position, path, &error.to_string());
            }
        }
    }
}

const NO_POLICIES: &str = "has no policies: add `policies: [\"token_bucket 10/s burst 20\"]`";

/// Returns whether an entry of `overrides` has policies of its own. Then the limit's may be 0, so that only the listed
/// keys pass.
fn give_policies(overrides: &Node) -> bool {
    let Value::List(entries) = &overrides.value else { return false };
    entries.iter().any(|entry| match &entry.value {
        Value::Map(fields) => fields.iter().any(|(key, _)| key.name == "policies"),
        _ => false,
    })
}
