//! Checks domains, and makes rules of them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::config::{DescriptorConfig, DomainConfig, LimitConfig};
use super::domain::Domain;
use super::level::{Level, Node};
use super::path::Path;
use super::position::Span;
use super::problem::{Report, beginning};
use super::rule::Rule;
use super::source::Source;
use super::unit::Unit;

/// The rules so far, and the problems with others.
#[derive(Debug, Default)]
pub(crate) struct Loader {
    pub(crate) domains: HashMap<String, Domain>,
    pub(crate) rules: Vec<Arc<Rule>>,
    pub(crate) warnings: Report,
    pub(crate) report: Report,
    /// The number of descriptors.
    count: usize,
    /// The keys of the current descriptor and those above it that count values separately.
    open_entries: Vec<String>,
}

/// Maximum number of descriptors of all domains.
const MAX_DESCRIPTORS: usize = 1_000_000;
/// Maximum number of levels of descriptors. A request finds each level by one of its entries.
const MAX_LEVELS: usize = 100;

impl Loader {
    /// Adds a domain, or reports its problems.
    pub(crate) fn add(&mut self, config: DomainConfig, merge_domains: bool) {
        let DomainConfig { origin, domain, descriptors, block, span, source } = config;
        let origin = Origin { name: &origin, source: source.as_deref() };
        if domain.is_empty() {
            let message = "has no domain: write `domain` with the name that requests have";
            return origin.report(&mut self.report, span, message);
        }
        let mut known = match self.domains.entry(domain.clone()) {
            Entry::Occupied(entry) if merge_domains => {
                if block.is_some() || entry.get().block.is_some() {
                    let message = "the domain is in several files, so none may have `x_sluicegate` next to `domain`: \
                                   write it in the descriptors";
                    return origin.report(&mut self.report, span, message);
                }
                entry.remove()
            }
            Entry::Occupied(_) => {
                let message = format!(
                    "another file has the domain `{}`: use another name, or set MERGE_DOMAIN_CONFIG",
                    beginning(&domain)
                );
                return origin.report(&mut self.report, span, &message);
            }
            Entry::Vacant(_) => Domain { level: Level::default(), block },
        };
        let place = Place { origin, domain: &domain, depth: 0 };
        self.level(
            &mut known.level,
            descriptors,
            &domain,
            place,
            &Path::Field(&Path::Root, "descriptors"),
        );
        self.domains.insert(domain, known);
    }

    fn level(
        &mut self,
        level: &mut Level,
        descriptors: Vec<DescriptorConfig>,
        parent: &str,
        place: Place<'_>,
        path: &Path<'_>,
    ) {
        let is_too_deep = place.depth == MAX_LEVELS;
        for (index, descriptor) in descriptors.into_iter().enumerate() {
            let span = descriptor.span;
            let path = Path::Item(path, index);
            self.count += 1;
            let excess = if is_too_deep {
                Some(format!("has more than {MAX_LEVELS} levels of descriptors, the maximum"))
            } else if self.count > MAX_DESCRIPTORS {
                Some(format!("is one of more than {MAX_DESCRIPTORS} descriptors, the maximum"))
            } else {
                None
            };
            if let Some(message) = excess {
                place.origin.report(&mut self.report, span, &path.says(&message));
                return;
            }
            if let Some(node) = self.node(level, descriptor, parent, place, &path) {
                level.push(node);
            }
        }
    }

    fn node(
        &mut self,
        level: &Level,
        config: DescriptorConfig,
        parent: &str,
        place: Place<'_>,
        path: &Path<'_>,
    ) -> Option<Node> {
        let DescriptorConfig { key, value, rate_limit, span, .. } = &config;
        let mut report =
            |message: &str| place.origin.report(&mut self.report, *span, &path.says(message));
        if key.is_empty() {
            report("has no key: write the key of the request's entry, such as `key: user`");
            return None;
        }
        let key = if value.is_empty() { key.clone() } else { format!("{key}_{value}") };
        let own_path = format!("{parent}.{key}");
        if level.has(&key) {
            report(&format!(
                "another descriptor of this level has the key and value `{}`: remove one",
                beginning(&key)
            ));
            return None;
        }
        if config.share_threshold && !key.contains('*') {
            let message = format!(
                "has share_threshold, but `{}` has no `*`: write a wildcard, or remove share_threshold",
                beginning(&key)
            );
            report(&message);
        }
        let is_wildcard = key.contains('*');
        let is_open = !(is_wildcard && config.share_threshold) && (value.is_empty() || is_wildcard);
        if is_open {
            self.open_entries.push(config.key.clone());
        }
        let rule = match (rate_limit, &config.block) {
            (None, None) => None,
            (Some(limit), _) => self.rule(limit, &config, &own_path, place, path),
            (None, Some(_)) => Some(self.add_rule(
                &LimitConfig::default(),
                None,
                Vec::new(),
                &config,
                &own_path,
                place,
            )),
        };
        let mut below = Level::default();
        let place = Place { depth: place.depth + 1, ..place };
        let (value_to_metric, share_threshold) = (config.value_to_metric, config.share_threshold);
        self.level(
            &mut below,
            config.descriptors,
            &own_path,
            place,
            &Path::Field(path, "descriptors"),
        );
        if is_open {
            self.open_entries.pop();
        }
        Some(Node { key, rule, value_to_metric, share_threshold, is_open, level: below })
    }

    fn rule(
        &mut self,
        limit: &LimitConfig,
        descriptor: &DescriptorConfig,
        own_path: &str,
        place: Place<'_>,
        path: &Path<'_>,
    ) -> Option<Arc<Rule>> {
        let path = Path::Field(path, "rate_limit");
        let unit = self.unit(limit, place, &path);
        let replaces = self.replaces(limit, place, &path);
        let (unit, replaces) = (unit?, replaces?);
        if limit.requests_per_unit.is_none() && !limit.unlimited {
            let message =
                path.says("has no requests_per_unit, so it denies all requests: write a number");
            place.origin.report(&mut self.warnings, limit.span, &message);
        }
        if let (true, Some(_)) = (limit.unlimited, &descriptor.block) {
            let message = path
                .says("is unlimited, but the descriptor has `x_sluicegate`: remove one of them");
            place.origin.report(&mut self.report, limit.span, &message);
        }
        Some(self.add_rule(limit, unit, replaces, descriptor, own_path, place))
    }

    fn add_rule(
        &mut self,
        limit: &LimitConfig,
        unit: Option<Unit>,
        replaces: Vec<String>,
        descriptor: &DescriptorConfig,
        own_path: &str,
        place: Place<'_>,
    ) -> Arc<Rule> {
        let rule = Arc::new(Rule {
            domain: place.domain.to_owned(),
            path: own_path.to_owned(),
            requests_per_unit: limit.requests_per_unit.unwrap_or_default(),
            unit,
            unlimited: limit.unlimited,
            name: limit.name.clone(),
            replaces,
            shadow_mode: descriptor.shadow_mode,
            quota_mode: descriptor.quota_mode,
            detailed_metric: descriptor.detailed_metric,
            metadata: descriptor.metadata.clone(),
            block: descriptor.block.clone(),
            open_entries: descriptor.block.iter().flat_map(|_| self.open_entries.clone()).collect(),
        });
        self.rules.push(Arc::clone(&rule));
        rule
    }

    /// Returns the unit, or `Some(None)` for an unlimited rule.
    fn unit(
        &mut self,
        limit: &LimitConfig,
        place: Place<'_>,
        path: &Path<'_>,
    ) -> Option<Option<Unit>> {
        let unit = Unit::from_name(&limit.unit);
        let written = beginning(&limit.unit);
        let (problem, span) = match (unit, limit.unlimited) {
            (None, true) => return Some(None),
            (Some(unit), false) => return Some(Some(unit)),
            (Some(_), true) => (
                format!("is unlimited, but has the unit `{written}`: remove one of them"),
                limit.unit_span,
            ),
            (None, false) if limit.unit.is_empty() => (
                "has no unit: write second, minute, hour, day, week, month or year".to_owned(),
                limit.span,
            ),
            (None, false) => {
                let message = format!(
                    "the unit must be second, minute, hour, day, week, month or year, but is `{written}`"
                );
                (message, limit.unit_span)
            }
        };
        place.origin.report(&mut self.report, span.or(limit.span), &path.says(&problem));
        None
    }

    fn replaces(
        &mut self,
        limit: &LimitConfig,
        place: Place<'_>,
        path: &Path<'_>,
    ) -> Option<Vec<String>> {
        let mut names = Vec::with_capacity(limit.replaces.len());
        for (index, replaced) in limit.replaces.iter().enumerate() {
            let problem = if replaced.name.is_empty() {
                "has no name: write the name of another limit, or remove the entry".to_owned()
            } else if replaced.name == limit.name {
                format!("`{}` is the limit's own name: write another's", beginning(&replaced.name))
            } else {
                names.push(replaced.name.clone());
                continue;
            };
            let list = Path::Field(path, "replaces");
            let message = Path::Item(&list, index).says(&problem);
            place.origin.report(&mut self.report, replaced.span, &message);
        }
        (names.len() == limit.replaces.len()).then_some(names)
    }
}

/// The origin of rules, for messages.
#[derive(Clone, Copy, Debug)]
struct Origin<'a> {
    name: &'a str,
    source: Option<&'a Source>,
}

impl Origin<'_> {
    fn report(self, report: &mut Report, span: Option<Span>, message: &str) {
        match self.source {
            Some(source) => report.add(source, span, message),
            None => report.add_unplaced(self.name, message),
        }
    }
}

/// The place of a level: its domain, and the number of levels above.
#[derive(Clone, Copy, Debug)]
struct Place<'a> {
    origin: Origin<'a>,
    domain: &'a str,
    depth: usize,
}
