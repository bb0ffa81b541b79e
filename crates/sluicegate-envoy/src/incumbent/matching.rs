//! Finds the rules of a request's descriptors.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use sluicegate_core::for_stores::{KEY_RESERVED, KeyWriter};

use super::counter_key::CounterKey;
use super::domain::Domain;
use super::level::{Found, FoundBy, Level};
use super::metric_key::MetricKey;
use super::request::{Descriptor, Request};
use super::rule::Rule;
use super::rules::Rules;
use super::settings::Settings;
use super::unit::Unit;

/// The limits of a request's descriptors, in their order.
#[derive(Debug)]
pub struct Matches {
    /// Whether the domain has rules.
    pub is_known_domain: bool,
    /// Limit of each descriptor.
    pub descriptors: Vec<Match>,
}

/// The limit of one descriptor.
#[derive(Clone, Debug)]
pub enum Match {
    /// No rule, or one that a rule of another descriptor replaces.
    None,
    /// A rule without a limit.
    Unlimited(Arc<Rule>),
    /// A limit with its counter.
    Limited(Box<Limited>),
    /// A rule with a block of our own, which decides in the incumbent's place.
    Native(Box<Native>),
}

/// A limit with its counter.
#[derive(Clone, Debug)]
pub struct Limited {
    /// Rule; `None` for the limit of a request.
    pub rule: Option<Arc<Rule>>,
    /// Number of requests per unit.
    pub requests_per_unit: u32,
    /// Unit of the limit.
    pub unit: Unit,
    /// Name of the counter, to which the window is added.
    pub counter: CounterKey,
    /// Name of the metrics.
    pub metric: MetricKey,
}

/// A rule whose descriptor or domain has an `x_sluicegate` block.
#[derive(Clone, Debug)]
pub struct Native {
    /// Rule.
    pub rule: Arc<Rule>,
    /// The limited party: the values of the descriptor's open entries, or `all` without any.
    pub key: Vec<u8>,
    /// Name of the metrics.
    pub metric: MetricKey,
}

impl Match {
    /// Returns the limit, if there is one.
    #[must_use]
    pub fn limited(&self) -> Option<&Limited> {
        match self {
            Self::Limited(limited) => Some(limited),
            _ => None,
        }
    }

    /// Returns the limit with its counter, if there is one, to change its numbers.
    #[cfg(feature = "service")]
    pub(crate) fn limited_mut(&mut self) -> Option<&mut Limited> {
        match self {
            Self::Limited(limited) => Some(limited),
            _ => None,
        }
    }

    /// Returns the rule with a block, if there is one.
    #[must_use]
    pub fn native(&self) -> Option<&Native> {
        match self {
            Self::Native(native) => Some(native),
            _ => None,
        }
    }

    fn rule(&self) -> Option<&Arc<Rule>> {
        match self {
            Self::None => None,
            Self::Unlimited(rule) => Some(rule),
            Self::Limited(limited) => limited.rule.as_ref(),
            Self::Native(native) => Some(&native.rule),
        }
    }

    /// Returns the rule, if it limits.
    pub(crate) fn limiting(&self) -> Option<&Arc<Rule>> {
        self.rule().filter(|rule| !rule.is_unlimited())
    }
}

impl Limited {
    /// Returns the rule's name, or an empty one.
    #[must_use]
    pub fn name(&self) -> &str {
        self.rule.as_ref().map_or("", |rule| rule.name())
    }

    /// Returns whether the limit is only reported.
    #[must_use]
    pub fn is_shadow(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| rule.is_shadow())
    }

    /// Returns whether the rule is a quota.
    #[must_use]
    pub fn is_quota(&self) -> bool {
        self.rule.as_ref().is_some_and(|rule| rule.is_quota())
    }
}

impl Rules {
    /// Finds the limits of a request's descriptors.
    ///
    /// A descriptor's own limit comes first. Otherwise, each entry finds a descriptor of the next level: by its key and
    /// value, by a wildcard, or by its key alone. The last entry's rule counts. A descriptor with more entries than
    /// levels has no limit. A limit whose name another descriptor's rule replaces doesn't count.
    #[must_use]
    pub fn matches(&self, request: &Request<'_>, settings: &Settings) -> Matches {
        let Some(domain) = self.domain(request.domain) else {
            let descriptors = request.descriptors.iter().map(|_| Match::None).collect();
            return Matches { is_known_domain: false, descriptors };
        };
        let prefix = &settings.cache_key_prefix;
        let find = |descriptor| find(domain, request.domain, descriptor, prefix);
        let mut descriptors: Vec<Match> = request.descriptors.iter().map(find).collect();
        let rules = descriptors.iter().filter_map(Match::rule);
        let rules: Vec<_> = rules.filter(|rule| !rule.replaces().is_empty()).cloned().collect();
        let replaced: HashSet<&str> =
            rules.iter().flat_map(|rule| rule.replaces()).map(String::as_str).collect();
        for found in &mut descriptors {
            if found.limiting().is_some_and(|rule| replaced.contains(rule.name())) {
                *found = Match::None;
            }
        }
        Matches { is_known_domain: true, descriptors }
    }
}

fn find(known: &Domain, domain: &str, descriptor: &Descriptor<'_>, prefix: &str) -> Match {
    if let Some(limit) = descriptor.limit {
        let mut metric = format!("{domain}.");
        for (index, (key, value)) in descriptor.entries.iter().enumerate() {
            metric.push_str(if index > 0 { "." } else { "" });
            push_joined(&mut metric, key, value);
        }
        return Match::Limited(Box::new(Limited {
            rule: None,
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit,
            counter: CounterKey::new(
                prefix,
                limit.unit,
                domain,
                descriptor.entries.iter().copied(),
            ),
            metric: MetricKey::new(&metric),
        }));
    }
    let Some((rule, steps)) = walk(&known.level, descriptor) else { return Match::None };
    let is_native = rule.block().is_some() || known.block.is_some();
    if is_native && !rule.is_unlimited() {
        let metric = MetricKey::new(&metric_path(domain, &steps, rule.detailed_metric));
        return Match::Native(Box::new(Native { key: key(&steps), metric, rule }));
    }
    let Some(unit) = rule.unit() else { return Match::Unlimited(rule) };
    let counted = steps.iter().map(|step| (step.key, step.shared.unwrap_or(step.value)));
    Match::Limited(Box::new(Limited {
        requests_per_unit: rule.requests_per_unit(),
        unit,
        counter: CounterKey::new(prefix, unit, domain, counted),
        metric: MetricKey::new(&metric_path(domain, &steps, rule.detailed_metric)),
        rule: Some(rule),
    }))
}

/// An entry that found a descriptor.
struct Step<'a> {
    key: &'a str,
    value: &'a str,
    found: Found<'a>,
    /// The wildcard whose values share one limit.
    shared: Option<&'a str>,
}

/// Finds the rule of all entries, and the descriptor of each.
fn walk<'a>(
    mut level: &'a Level,
    descriptor: &Descriptor<'a>,
) -> Option<(Arc<Rule>, Vec<Step<'a>>)> {
    let mut steps = Vec::with_capacity(descriptor.entries.len());
    let mut joined = String::new();
    for &(key, value) in &descriptor.entries {
        joined.clear();
        joined.extend([key, "_", value]);
        let found = level.find(key, &joined)?;
        let is_shared = found.by == FoundBy::Wildcard && found.node.share_threshold;
        let shared = is_shared.then(|| wildcard(key, found));
        steps.push(Step { key, value, found, shared });
        level = &found.node.level;
        if level.is_empty() && steps.len() < descriptor.entries.len() {
            return None;
        }
    }
    let rule = Arc::clone(steps.last()?.found.node.rule.as_ref()?);
    Some((rule, steps))
}

/// Returns the value's part of a wildcard.
fn wildcard<'a>(key: &str, found: Found<'a>) -> &'a str {
    value_part(key, found).unwrap_or(&found.node.key)
}

/// Returns the part of a node's key after an entry's key; `None` if it begins before.
fn value_part<'a>(key: &str, found: Found<'a>) -> Option<&'a str> {
    found.node.key.strip_prefix(key)?.strip_prefix('_')
}

/// Returns the key of a rule with a block. Different values, and different keys that one wildcard matches, never make one
/// key.
fn key(steps: &[Step<'_>]) -> Vec<u8> {
    /// The key of a rule that all requests share.
    const ALL: &str = "all";
    let open = steps.iter().filter(|step| step.found.node.is_open);
    let values: Vec<Cow<'_, str>> = open
        .map(|step| match step.found.by {
            FoundBy::Wildcard if value_part(step.key, step.found).is_none() => {
                format!("{}_{}", step.key, step.value).into()
            }
            _ => step.value.into(),
        })
        .collect();
    match values.as_slice() {
        [] => ALL.into(),
        // No key is empty.
        [only] if only.is_empty() => vec![KEY_RESERVED],
        values => KeyWriter::<64>::joined(values.iter().map(AsRef::as_ref)).into_owned(),
    }
}

/// Returns the name of the metrics: with all values for `detailed_metric`, otherwise with those that found a descriptor.
fn metric_path(domain: &str, steps: &[Step<'_>], is_detailed: bool) -> String {
    let has_shared = steps.iter().any(|step| step.shared.is_some());
    let mut path = domain.to_owned();
    for step in steps {
        let value =
            if is_detailed { step.shared.unwrap_or(step.value) } else { metric_value(step) };
        path.push('.');
        if is_detailed && !has_shared {
            // The incumbent writes the `_` of an empty value here.
            path.extend([step.key, "_", value]);
        } else {
            push_joined(&mut path, step.key, value);
        }
    }
    path
}

fn metric_value<'a>(step: &Step<'a>) -> &'a str {
    let found = step.found;
    match found.by {
        FoundBy::KeyAndValue => step.value,
        FoundBy::Wildcard => match step.shared {
            Some(pattern) => pattern,
            None if found.node.value_to_metric => step.value,
            None => wildcard(step.key, found),
        },
        FoundBy::Key if found.node.value_to_metric => step.value,
        FoundBy::Key => "",
    }
}

fn push_joined(path: &mut String, key: &str, value: &str) {
    path.push_str(key);
    if !value.is_empty() {
        path.extend(["_", value]);
    }
}
