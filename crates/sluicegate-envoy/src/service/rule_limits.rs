//! A limit for each rule.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::LimitConfig;
use sluicegate::{Gate, Limit, Registry};
use sluicegate_core::{LimitError, LimitName, NameError, Policy, PolicyError, Window};

use crate::incumbent::{Rule, Rules, Unit};

/// The limits of rules, each with the gate that decides by it.
#[derive(Debug, Default)]
pub(super) struct RuleLimits {
    pub(super) limits: Vec<Arc<LimitConfig>>,
    /// By the address of the rule, because two rules can have one path.
    rules: HashMap<usize, Gate>,
    /// The limits of requests that bring their own numbers, by domain.
    overrides: HashMap<String, Gate>,
}

impl RuleLimits {
    /// Makes the limits of all rules that have one, and their gates in a registry.
    pub(super) fn new(rules: &Rules, registry: &Registry) -> Result<Self, LimitError> {
        let (mut made, mut taken) = (Self::default(), HashSet::new());
        for rule in rules.rules() {
            let Some(unit) = rule.unit() else { continue };
            let name = name(rule.domain(), rule.path(), &mut taken)?;
            made.add(&name, policy(rule.requests_per_unit(), unit)?)?;
            made.rules.insert(Arc::as_ptr(rule).addr(), registry.gate(name.as_str()));
        }
        for domain in rules.domains() {
            let name = name(domain, &format!("{domain}.override"), &mut taken)?;
            made.add(&name, policy(0, Unit::Second)?)?;
            made.overrides.insert(domain.to_owned(), registry.gate(name.as_str()));
        }
        Ok(made)
    }

    /// Returns the gate of a rule's limit.
    pub(super) fn of_rule(&self, rule: &Arc<Rule>) -> Option<&Gate> {
        self.rules.get(&Arc::as_ptr(rule).addr())
    }

    /// Returns the gate for requests of a domain that bring their own numbers.
    pub(super) fn of_overrides(&self, domain: &str) -> Option<&Gate> {
        self.overrides.get(domain)
    }

    fn add(&mut self, name: &LimitName, policy: Policy) -> Result<(), LimitError> {
        let limit = Limit::new(name, [policy])?;
        self.limits.push(Arc::new(LimitConfig::new(limit)));
        Ok(())
    }
}

/// Returns the policy for a number of requests per unit. It counts denied ones too.
pub(super) fn policy(requests_per_unit: u32, unit: Unit) -> Result<Policy, PolicyError> {
    let length = Duration::from_secs(unit.seconds());
    Policy::fixed_window(requests_per_unit.into(), Window::Aligned(length))?.count_denied()
}

/// Returns the name of a rule's limit: its domain, a slash and the rest of its path.
///
/// A path that isn't a name, or is too long, ends with a hash of the path. So its name doesn't depend on other rules,
/// unless two have one path.
fn name(domain: &str, path: &str, taken: &mut HashSet<LimitName>) -> Result<LimitName, NameError> {
    let rest = path.strip_prefix(domain).and_then(|rest| rest.strip_prefix('.')).unwrap_or(path);
    let plain = format!("{domain}/{rest}");
    let mut name = plain.parse::<LimitName>();
    let mut tries = 0_u32;
    while name.as_ref().map_or(true, |name| taken.contains(name)) {
        let is_allowed = |it: &char| it.is_ascii_alphanumeric() || "_-.:/@".contains(*it);
        let fits = LimitName::MAX_LEN - "-0123456789abcdef".len();
        let shown: String =
            plain.chars().map(|it| if is_allowed(&it) { it } else { '_' }).take(fits).collect();
        name = format!("{shown}-{:016x}", hash(&format!("{path}\0{tries}"))).parse();
        tries += 1;
    }
    let name = name?;
    taken.insert(name.clone());
    Ok(name)
}

/// Returns the FNV-1a hash of a text: equal in all versions, because names of limits are part of stored keys.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use sluicegate::MemoryStore;

    use super::*;
    use crate::incumbent::LoadOptions;

    #[test]
    fn rules_are_limits_with_unique_names() {
        let file = "\
domain: shop
descriptors:
  - {key: plan, value: gold, rate_limit: {unit: week, requests_per_unit: 3}}
  - {key: plan, value: gold é, rate_limit: {unit: hour, requests_per_unit: 4}}
  - {key: plan, value: gold ö, rate_limit: {unit: hour, requests_per_unit: 5}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: a-very-long-key-that-has-more-than-sixty-four-characters-in-it, rate_limit: {unit: day, requests_per_unit: 0}}
";
        let rules = Rules::load([("f.yaml", file)], LoadOptions::default()).expect("it is valid");
        let registry = Registry::builder(MemoryStore::new()).build();
        let made = RuleLimits::new(&rules, &registry).expect("each rule is a limit");
        let shown: Vec<String> = made
            .limits
            .iter()
            .map(|it| format!("{} {}", it.limit.name(), it.limit.members()[0].policy()))
            .collect();
        assert_eq!(shown.len(), 5);
        assert_eq!(shown[4], "shop/override fixed_window 0/s aligned count_denied");
        assert_eq!(shown[0], "shop/plan_gold fixed_window 3/w aligned count_denied");
        assert!(shown[1].starts_with("shop/plan_gold__-"), "{}", shown[1]);
        assert_ne!(shown[1].split(' ').next(), shown[2].split(' ').next());
        assert!(shown[3].ends_with("fixed_window 0/d aligned count_denied"), "{}", shown[3]);
        let gates: Vec<_> = rules.rules().iter().map(|rule| made.of_rule(rule)).collect();
        assert_eq!(gates.iter().filter(|gate| gate.is_some()).count(), 4);
    }
}
