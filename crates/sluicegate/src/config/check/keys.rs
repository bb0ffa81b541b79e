//! The keys that a limit treats differently: lists and overrides.

use std::collections::HashSet;

use sluicegate_core::Limit;
use sluicegate_http::{ClientAddress, KeyExpression, KeyMatcher, KeyMatcherError};

use super::{Checker, field, path, twice};
use crate::config::tree::{Node, Value};
use crate::config::{Override, OverrideError, Times, TimesError, warnings};

/// What lists and overrides need to know about their limit; `None` for what is invalid.
pub(super) struct KeyContext<'c> {
    pub(super) expression: Option<&'c KeyExpression>,
    pub(super) address: &'c ClientAddress,
    pub(super) limit: Option<&'c Limit>,
    /// Whether the file says what keys are made of. Otherwise they may be text of the HTTP API.
    pub(super) is_written: bool,
}

/// The allow and block lists.
pub(super) struct Lists {
    pub(super) allow: Vec<KeyMatcher>,
    pub(super) block: Vec<KeyMatcher>,
}

/// An optional field, with its path.
type Given<'n> = Option<(&'n Node, String)>;

impl Checker<'_> {
    pub(super) fn lists(
        &mut self,
        allow: Given<'_>,
        block: Given<'_>,
        context: &KeyContext<'_>,
    ) -> Option<Lists> {
        let mut seen = HashSet::new();
        let mut list = |given: Given<'_>, problem: &dyn Fn(&str) -> String| match given {
            Some((node, path)) => self.list(node, &path, context, &mut seen, problem),
            None => Some(Vec::new()),
        };
        let allow = list(allow, &twice);
        let blocked = block.clone();
        let block =
            list(block, &|path| format!("{path}: is listed twice, here or in `allow`: keep one"));
        if let (Some((node, path)), Some(block)) = (blocked, &block) {
            self.addresses_in(node, &path, block, context);
        }
        Some(Lists { allow: allow?, block: block? })
    }

    /// Warns of blocked addresses where a client chooses whether it is asked for its address.
    fn addresses_in(
        &mut self,
        node: &Node,
        path: &str,
        block: &[KeyMatcher],
        context: &KeyContext<'_>,
    ) {
        let (Value::List(nodes), Some(expression)) = (&node.value, context.expression) else {
            return;
        };
        for (index, (node, entry)) in nodes.iter().zip(block).enumerate() {
            if let Some(warning) = warnings::of_blocked(entry, expression) {
                self.warnings.report(node.position, &format!("{path}[{index}]: {warning}"));
            }
        }
    }

    fn list(
        &mut self,
        node: &Node,
        path: &str,
        context: &KeyContext<'_>,
        seen: &mut HashSet<KeyMatcher>,
        twice: &dyn Fn(&str) -> String,
    ) -> Option<Vec<KeyMatcher>> {
        let Value::List(nodes) = &node.value else {
            self.expected(node, path, "a list of keys such as [alice, \"tenant-*\", 10.0.0.0/8]");
            return None;
        };
        let matchers = nodes.iter().enumerate().map(|(index, node)| {
            let path = format!("{path}[{index}]");
            let matcher = self.matcher(node, &path, context)?;
            if !seen.insert(matcher.clone()) {
                self.reporter.report(node.position, &twice(&path));
            }
            Some(matcher)
        });
        matchers.collect::<Vec<_>>().into_iter().collect()
    }

    fn matcher(&mut self, node: &Node, path: &str, context: &KeyContext<'_>) -> Option<KeyMatcher> {
        let text = self.text(node, path, "a key in quotes such as \"alice\"")?;
        match text.parse::<KeyMatcher>() {
            Ok(matcher) => {
                let why_never = |expression: &KeyExpression| {
                    let unlike = || matcher.why_unlike(expression).filter(|_| context.is_written);
                    matcher.why_never(expression, context.address).or_else(unlike)
                };
                if let Some(why) = context.expression.and_then(why_never) {
                    self.warnings.report(node.position, &format!("{path}: {why}"));
                }
                Some(matcher)
            }
            Err(error) => {
                self.report_matcher(node, path, &error);
                None
            }
        }
    }

    fn report_matcher(&mut self, node: &Node, path: &str, error: &KeyMatcherError) {
        let position = node.position_inside(self.text, error.column() - 1);
        self.report(position, path, &error.to_string());
    }

    pub(super) fn overrides(
        &mut self,
        node: &Node,
        path: &str,
        context: &KeyContext<'_>,
        lists: Option<&Lists>,
    ) -> Option<Vec<Override>> {
        let Value::List(nodes) = &node.value else {
            self.expected(node, path, &format!("a list such as {EXAMPLE}"));
            return None;
        };
        let listed = |list: fn(&Lists) -> &Vec<KeyMatcher>| -> HashSet<&KeyMatcher> {
            lists.map(list).into_iter().flatten().collect()
        };
        let listed =
            [("allow", listed(|lists| &lists.allow)), ("block", listed(|lists| &lists.block))];
        let mut seen = HashSet::new();
        let mut entries: Vec<&Node> = Vec::new();
        let overrides = nodes.iter().enumerate().map(|(index, node)| {
            let path = format!("{path}[{index}]");
            let (key_node, found) = self.one_override(node, &path, context)?;
            entries.push(key_node);
            let key = found.key();
            if !seen.insert(key.clone()) {
                self.reporter.report(key_node.position, &twice(&path));
            }
            for (list, _) in listed.iter().filter(|(_, keys)| keys.contains(key)) {
                let message = format!("{path}: has no effect: `{list}` has the same key");
                self.warnings.report(key_node.position, &message);
            }
            Some(found)
        });
        let overrides: Vec<Option<Override>> = overrides.collect();
        let overrides: Vec<Override> = overrides.into_iter().collect::<Option<_>>()?;
        if let (Some(lists), Some(base)) = (lists, context.limit) {
            let wide = |key: &&KeyMatcher| !key.is_exact();
            let has_wide_list = lists.allow.iter().chain(&lists.block).any(|key| wide(&key));
            let wide: HashSet<&KeyMatcher> =
                overrides.iter().map(Override::key).filter(wide).collect();
            for (index, (made, node)) in overrides.iter().zip(entries).enumerate() {
                // Within a wider entry it is an exception.
                let others = wide.len() - usize::from(wide.contains(made.key()));
                let is_alone = others == 0 && !has_wide_list;
                if let Some(warning) = warnings::of_override(made, base, is_alone) {
                    self.warnings.report(node.position, &format!("{path}[{index}]: {warning}"));
                }
            }
        }
        Some(overrides)
    }

    fn one_override<'n>(
        &mut self,
        node: &'n Node,
        parent: &str,
        context: &KeyContext<'_>,
    ) -> Option<(&'n Node, Override)> {
        if matches!(node.value, Value::Null) {
            self.expected(node, parent, &format!("a map such as {EXAMPLE_ENTRY}"));
            return None;
        }
        let fields = self.fields(node, parent, &["key", "policies", "times"])?;
        let key = match field(&fields, "key") {
            Some(key) => self.matcher(key, &path(parent, "key"), context).map(|found| (key, found)),
            None => {
                self.report(node.position, parent, "has no key: add one such as `key: alice`");
                None
            }
        };
        let numbers = (field(&fields, "policies"), field(&fields, "times"));
        let made = match numbers {
            (Some(policies), None) => {
                let path = path(parent, "policies");
                let (nodes, policies_read) = self.policy_list(policies, &path)?;
                self.warn_of_refusals(nodes, &policies_read, &path);
                let (key_node, key) = key?;
                let made = Override::new(key, context.limit?, policies_read);
                made.map_err(|error| {
                    let position = error.policy().and_then(|index| nodes.get(index));
                    self.report_override(position.unwrap_or(policies), &path, &error);
                })
                .map(|made| (key_node, made))
            }
            (None, Some(times)) => {
                let path = path(parent, "times");
                let many = self.times(times, &path)?;
                let (key_node, key) = key?;
                let base = context.limit?;
                let made = Override::times(key, base, many)
                    .map_err(|error| self.report_override(times, &path, &error));
                if let Ok(made) = &made {
                    self.warn_of_times(times, &path, base, made);
                }
                made.map(|made| (key_node, made))
            }
            (Some(_), Some(times)) => {
                self.report(times.position, parent, "has both `policies` and `times`: keep one");
                return None;
            }
            (None, None) => {
                let message = "has no numbers: add `times: 10`, or `policies` like the limit's";
                self.report(node.position, parent, message);
                return None;
            }
        };
        made.ok()
    }

    /// Warns of policies that refuse everything under the numbers of an override, and not under those
    /// of its limit.
    fn warn_of_times(&mut self, node: &Node, path: &str, base: &Limit, made: &Override) {
        for (own, base) in made.limit().members().iter().zip(base.members()) {
            let is_new = warnings::refuses_for_ever(base.policy()).is_none();
            if let Some(how) = warnings::refuses_for_ever(own.policy()).filter(|_| is_new) {
                let name = own.name();
                self.warnings.report(node.position, &format!("{path}: policy `{name}` {how}"));
            }
        }
    }

    fn report_override(&mut self, node: &Node, path: &str, error: &OverrideError) {
        self.report(node.position, path, &error.to_string());
    }

    fn times(&mut self, node: &Node, path: &str) -> Option<Times> {
        let Value::Number = &node.value else {
            self.expected(node, path, "a number such as 10 or 0.5");
            return None;
        };
        let written = node.written(self.text);
        written
            .parse()
            .map_err(|error: TimesError| self.report(node.position, path, &error.to_string()))
            .ok()
    }
}

const EXAMPLE_ENTRY: &str = "`{key: alice, times: 10}`";
const EXAMPLE: &str = "[{key: alice, times: 10}]";
