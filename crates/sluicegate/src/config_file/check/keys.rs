//! The keys that a limit treats differently: lists and overrides.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use sluicegate_core::Limit;
use sluicegate_http::{ClientAddress, KeyExpression, KeyMatcher, KeyMatcherError};

use super::{Checker, field, path, twice};
use crate::config_file::origins::OverrideSpots;
use crate::config_file::problem::{Place, Position, Spot};
use crate::config_file::tree::{Node, Value};
use crate::config_file::{Override, OverrideError, Times, TimesError, warnings};

/// The properties of a limit that its lists and overrides need; `None` for invalid ones.
pub(super) struct KeyContext<'c> {
    pub(super) expression: Option<&'c KeyExpression>,
    pub(super) address: &'c ClientAddress,
    pub(super) limit: Option<&'c Limit>,
    /// Whether the file sets the source of keys. Otherwise they may be text of the HTTP API.
    pub(super) is_written: bool,
}

/// The allow and block lists.
pub(super) struct Lists {
    pub(super) allow: Vec<KeyMatcher>,
    pub(super) block: Vec<KeyMatcher>,
    /// The places of the entries.
    pub(super) allow_spots: Vec<Spot>,
    pub(super) block_spots: Vec<Spot>,
}

/// An optional field, with its path.
pub(super) type Given<'n> = Option<(&'n Node, String)>;

/// A list in the file, and the file that has the rest of it.
#[derive(Default)]
pub(super) struct Sources<'n> {
    pub(super) list: Given<'n>,
    pub(super) file: Given<'n>,
}

/// Which of the lists an entry is on.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Listed {
    Allow,
    Block,
}

impl Checker<'_> {
    pub(super) fn lists(
        &mut self,
        allow: Sources<'_>,
        block: Sources<'_>,
        context: &KeyContext<'_>,
    ) -> Option<Lists> {
        let mut seen = HashSet::new();
        let allow = self.list(allow, Listed::Allow, context, &mut seen);
        let block = self.list(block, Listed::Block, context, &mut seen);
        let ((allow, allow_spots), (block, block_spots)) = (allow?, block?);
        Some(Lists { allow, block, allow_spots, block_spots })
    }

    fn list(
        &mut self,
        sources: Sources<'_>,
        listed: Listed,
        context: &KeyContext<'_>,
        seen: &mut HashSet<KeyMatcher>,
    ) -> Option<(Vec<KeyMatcher>, Vec<Spot>)> {
        let (mut entries, mut spots) = (Vec::new(), Vec::new());
        let mut is_valid = true;
        if let Some((node, path)) = sources.list {
            let Value::List(nodes) = &node.value else {
                let wanted = "a list of keys such as [alice, \"tenant-*\", 10.0.0.0/8]";
                self.expected(node, &path, wanted);
                return None;
            };
            for (index, node) in nodes.iter().enumerate() {
                let entry = self.listed(node, &format!("{path}[{index}]"), listed, context, seen);
                is_valid &= entry.is_some();
                entries.extend(entry);
                spots.push(self.reporter.spot(node.position));
            }
        }
        if let Some((node, path)) = sources.file {
            self.each_line(node, &path, |checker, line| {
                let node = line.verbatim();
                let entry = checker.listed(&node, &path, listed, context, seen);
                is_valid &= entry.is_some();
                entries.extend(entry);
                spots.push(checker.reporter.spot(node.position));
            })?;
        }
        is_valid.then_some((entries, spots))
    }

    /// Returns one entry of a list.
    fn listed(
        &mut self,
        node: &Node,
        path: &str,
        listed: Listed,
        context: &KeyContext<'_>,
        seen: &mut HashSet<KeyMatcher>,
    ) -> Option<KeyMatcher> {
        let matcher = self.matcher(node, path, context)?;
        if !seen.insert(matcher.clone()) {
            let problem = match listed {
                Listed::Allow => twice(path),
                Listed::Block => {
                    format!("{path}: is listed twice, here or in `allow`: keep one")
                }
            };
            self.reporter.report(node.position, &problem);
        }
        // A client may choose a key without its address, which this entry doesn't match.
        if listed == Listed::Block
            && let Some(expression) = context.expression
            && let Some(warning) = warnings::of_blocked(&matcher, expression)
        {
            self.warnings.report(node.position, &format!("{path}: {warning}"));
        }
        Some(matcher)
    }

    fn matcher(&mut self, node: &Node, path: &str, context: &KeyContext<'_>) -> Option<KeyMatcher> {
        let text = self.text(node, path, "a key in quotes such as \"alice\"")?;
        match text.parse::<KeyMatcher>() {
            Ok(matcher) => {
                let matcher = match context.expression {
                    Some(expression) => matcher.for_keys(expression, context.address),
                    None => matcher,
                };
                if let Some(warning) = warnings::of_wide_client(text, &matcher) {
                    self.warnings.report(node.position, &format!("{path}: {warning}"));
                }
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
        sources: Sources<'_>,
        context: &KeyContext<'_>,
        lists: Option<&Lists>,
    ) -> Option<(Vec<Override>, Vec<OverrideSpots>)> {
        let listed = |list: fn(&Lists) -> &Vec<KeyMatcher>| -> HashSet<&KeyMatcher> {
            lists.map(list).into_iter().flatten().collect()
        };
        let mut found = Overrides {
            listed: [("allow", listed(|it| &it.allow)), ("block", listed(|it| &it.block))],
            seen: HashSet::new(),
            entries: Vec::new(),
            places: Vec::new(),
            spots: Vec::new(),
            multiples: HashMap::new(),
            is_valid: true,
        };
        if let Some((node, path)) = sources.list {
            let Value::List(nodes) = &node.value else {
                self.expected(node, &path, &format!("a list such as {EXAMPLE}"));
                return None;
            };
            for (index, node) in nodes.iter().enumerate() {
                self.override_of(Some(node), &format!("{path}[{index}]"), context, &mut found);
            }
        }
        if let Some((node, path)) = sources.file {
            self.each_line(node, &path, |checker, line| {
                let node = line.value(checker, &path);
                checker.override_of(node.as_ref(), &path, context, &mut found);
            })?;
        }
        let Overrides { entries, places, spots, is_valid, .. } = found;
        if let (true, Some(lists), Some(base)) = (is_valid, lists, context.limit) {
            let wide = |key: &&KeyMatcher| !key.is_exact();
            let has_wide_list = lists.allow.iter().chain(&lists.block).any(|key| wide(&key));
            let wide: HashSet<&KeyMatcher> =
                entries.iter().map(Override::key).filter(wide).collect();
            for (made, (place, position, path)) in entries.iter().zip(&places) {
                // Within a wider entry it is an exception.
                let others = wide.len() - usize::from(wide.contains(made.key()));
                let is_alone = others == 0 && !has_wide_list;
                if let Some(warning) = warnings::of_override(made, base, is_alone) {
                    let back = self.warnings.go_to(*place);
                    self.warnings.report(*position, &format!("{path}: {warning}"));
                    self.warnings.go_to(back);
                }
            }
        }
        is_valid.then_some((entries, spots))
    }

    /// Reads one entry of `overrides`. Returns `None` if it can't be read, which is reported.
    fn override_of(
        &mut self,
        node: Option<&Node>,
        path: &str,
        context: &KeyContext<'_>,
        found: &mut Overrides<'_>,
    ) {
        let made =
            node.and_then(|node| self.one_override(node, path, context, &mut found.multiples));
        let Some((key_node, numbers, made)) = made else {
            found.is_valid = false;
            return;
        };
        let key = made.key();
        if !found.seen.insert(key.clone()) {
            self.reporter.report(key_node.position, &twice(path));
        }
        for (list, _) in found.listed.iter().filter(|(_, keys)| keys.contains(key)) {
            let message = format!("{path}: has no effect: `{list}` has the same key");
            self.warnings.report(key_node.position, &message);
        }
        found.places.push((self.warnings.place(), key_node.position, path.into()));
        let mut numbers = numbers.iter().map(|node| self.reporter.spot(node.position));
        found.spots.push(OverrideSpots {
            key: self.reporter.spot(key_node.position),
            numbers: numbers.next().unwrap_or_default(),
            others: numbers.collect(),
        });
        found.entries.push(made);
    }

    /// Returns the key, the values that have the numbers, and the override.
    fn one_override<'n>(
        &mut self,
        node: &'n Node,
        parent: &str,
        context: &KeyContext<'_>,
        multiples: &mut HashMap<Times, Multiple>,
    ) -> Option<(&'n Node, &'n [Node], Override)> {
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
                .map(|made| (key_node, nodes, made))
            }
            (None, Some(times)) => {
                let path = path(parent, "times");
                let many = self.times(times, &path)?;
                let (key_node, key) = key?;
                let base = context.limit?;
                // Many keys have the same multiple.
                let Multiple { limit, warnings } = match multiples.entry(many) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let made = Override::times(key.clone(), base, many)
                            .map_err(|error| self.report_override(times, &path, &error))
                            .ok()?;
                        new.insert(Multiple::of(&made, base))
                    }
                };
                for warning in warnings {
                    self.warnings.report(times.position, &format!("{path}: {warning}"));
                }
                let times = std::slice::from_ref(times);
                Ok((key_node, times, Override::with_limit(key, limit.clone())))
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

/// The overrides of a limit, as they are read.
struct Overrides<'l> {
    /// The keys on each list.
    listed: [(&'static str, HashSet<&'l KeyMatcher>); 2],
    seen: HashSet<KeyMatcher>,
    entries: Vec<Override>,
    /// The place and position of each entry's key, and the path of the entry.
    places: Vec<(Place, Position, Box<str>)>,
    spots: Vec<OverrideSpots>,
    multiples: HashMap<Times, Multiple>,
    is_valid: bool,
}

/// A multiple of a limit.
struct Multiple {
    limit: Limit,
    /// Reports policies that refuse everything under these numbers, and not under those of the limit.
    warnings: Vec<String>,
}

impl Multiple {
    fn of(made: &Override, base: &Limit) -> Self {
        let limit = made.limit().clone();
        let pairs = limit.members().iter().zip(base.members());
        let warnings = pairs.filter_map(|(own, base)| {
            let how = warnings::refuses_for_ever(own.policy())?;
            let is_new = warnings::refuses_for_ever(base.policy()).is_none();
            is_new.then(|| format!("policy `{}` {how}", own.name()))
        });
        Self { warnings: warnings.collect(), limit }
    }
}

const EXAMPLE_ENTRY: &str = "`{key: alice, times: 10}`";
const EXAMPLE: &str = "[{key: alice, times: 10}]";
