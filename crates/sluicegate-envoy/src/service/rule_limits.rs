//! A limit for each rule.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate::config::{LimitConfig, Origins};
use sluicegate::error::JoinError;
use sluicegate::{Gate, Limit, Registry};
use sluicegate_core::{LimitError, LimitName, Member, Policy};

use super::block_settings::{BlockSettings, Charging, RuleSettings};
use super::limit_names::LimitNames;
use super::load_error::LoadError;
use super::numbers::{admitted, policy};
use crate::incumbent::{Problem, Rule, Rules, Settings, Unit};

/// The limits of rules, each with the gate that decides by it.
#[derive(Debug, Default)]
pub(super) struct RuleLimits {
    pub(super) limits: Vec<Arc<LimitConfig>>,
    /// The places of the limits that blocks make.
    pub(super) origins: Vec<Origins>,
    /// By the address of the rule, because two rules can have one path.
    rules: HashMap<usize, RuleLimit>,
    /// The limits of requests that bring their own numbers, by domain.
    overrides: HashMap<String, Gate>,
    /// The domains that decide the descriptors of a call together.
    all_or_none: HashSet<String>,
    /// The gates of limits that were decided together, by their names.
    together: Mutex<HashMap<Vec<LimitName>, Gate>>,
    /// Warnings about blocks.
    pub(super) warnings: Vec<Problem>,
}

/// The limit of a rule.
#[derive(Debug)]
pub(super) struct RuleLimit {
    pub(super) gate: Gate,
    pub(super) name: LimitName,
    /// The charge of hits that isn't a plain one.
    pub(super) charging: Option<Charging>,
    /// The text that shows a rule with a block.
    line: Option<String>,
}

impl RuleLimits {
    /// Makes the limits of all rules that have one, and their gates in a registry.
    ///
    /// # Errors
    /// Returns the problems of blocks.
    pub(super) fn new(
        rules: &Rules,
        settings: &Settings,
        registry: &Registry,
    ) -> Result<Self, LoadError> {
        let (mut made, mut names) = (Self::default(), LimitNames::default());
        let mut blocks = BlockSettings::new(rules, settings);
        let mut domains: Vec<&str> = rules.domains().collect();
        domains.sort_unstable();
        for domain in &domains {
            if blocks.of_domain(domain).is_some_and(|it| it.is_all_or_none) {
                made.all_or_none.insert((*domain).to_owned());
            }
        }
        for rule in rules.rules().iter().filter(|rule| !rule.is_unlimited()) {
            if rule.block().is_some() || rules.domain_block(rule.domain()).is_some() {
                made.add_native(rule, registry, &mut blocks, &mut names)?;
            } else if let Some(unit) = rule.unit() {
                let name = names.of(rule.domain(), rule.path())?;
                made.add(&name, policy(rule.requests_per_unit(), unit).map_err(LimitError::from)?)?;
                let gate = registry.gate(name.as_str());
                made.insert(rule, RuleLimit { gate, name, charging: None, line: None });
            }
        }
        for domain in domains {
            let name = names.of(domain, &format!("{domain}.override"))?;
            made.add(&name, policy(0, Unit::Second).map_err(LimitError::from)?)?;
            made.overrides.insert(domain.to_owned(), registry.gate(name.as_str()));
        }
        made.warnings = blocks.finish().map_err(LoadError::Blocks)?;
        Ok(made)
    }

    /// Adds the limit of a rule with a block. Problems of the block are in `blocks`.
    fn add_native<'r>(
        &mut self,
        rule: &'r Arc<Rule>,
        registry: &Registry,
        blocks: &mut BlockSettings<'r>,
        names: &mut LimitNames,
    ) -> Result<(), LimitError> {
        let domain = rule.domain();
        let Some(of_domain) = blocks.of_domain(domain) else { return Ok(()) };
        if of_domain.is_all_or_none && blocks.refuse_quota(rule) {
            return Ok(());
        }
        let numbers = if of_domain.is_all_or_none { admitted } else { policy };
        let settings = blocks.of_rule(rule);
        let group = settings.as_ref().and_then(|it| it.group.as_deref());
        let policy = rule.unit().map(|unit| numbers(rule.requests_per_unit(), unit)).transpose()?;
        let name = match group {
            Some(group) => names.of_group(domain, group)?,
            None => names.of(domain, rule.path())?,
        };
        let limit = blocks.limit(rule, &name, policy.as_ref());
        let (Some(RuleSettings { charging, group }), Some((limit, origins))) = (settings, limit)
        else {
            return Ok(());
        };
        if of_domain.is_all_or_none && blocks.refuse_charges_of_denied(rule, &limit) {
            return Ok(());
        }
        let is_first = match &group {
            Some(group) => blocks.join(rule, group, &limit),
            None => Some(true),
        };
        let Some(is_first) = is_first else { return Ok(()) };
        let line = Some(line(rule, &limit.limit, charging, group.as_deref()));
        if is_first {
            self.limits.push(Arc::new(limit));
            self.origins.push(origins);
        }
        let gate = registry.gate(name.as_str());
        self.insert(rule, RuleLimit { gate, name, charging, line });
        Ok(())
    }

    /// Returns the limit of a rule.
    pub(super) fn of_rule(&self, rule: &Arc<Rule>) -> Option<&RuleLimit> {
        self.rules.get(&Arc::as_ptr(rule).addr())
    }

    /// Returns the gate for requests of a domain that bring their own numbers.
    pub(super) fn of_overrides(&self, domain: &str) -> Option<&Gate> {
        self.overrides.get(domain)
    }

    /// Returns whether a domain decides the descriptors of a call together.
    pub(super) fn is_all_or_none(&self, domain: &str) -> bool {
        self.all_or_none.contains(domain)
    }

    /// Returns the gate that decides limits of different names together.
    ///
    /// # Errors
    /// Returns an error if two have one name.
    pub(super) fn together(
        &self,
        first: &RuleLimit,
        others: &[&RuleLimit],
    ) -> Result<Gate, JoinError> {
        /// Maximum number of kept gates. Beyond it, all are made again.
        const MOST: usize = 256;
        let name = |limit: &RuleLimit| limit.name.clone();
        let names = std::iter::once(name(first)).chain(others.iter().map(|it| name(it)));
        let names: Vec<LimitName> = names.collect();
        let mut together = self.together.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = together.get(&names) {
            return Ok(gate.clone());
        }
        let join = |gate: Gate, next: &&RuleLimit| gate.and(next.gate.clone());
        let gate = others.iter().try_fold(first.gate.clone(), join)?;
        if together.len() >= MOST {
            together.clear();
        }
        together.insert(names, gate.clone());
        Ok(gate)
    }

    /// Returns the text that shows a rule, with the settings of its block.
    pub(super) fn line(&self, rule: &Arc<Rule>) -> String {
        let own = self.of_rule(rule).and_then(|limit| limit.line.clone());
        own.unwrap_or_else(|| rule.line())
    }

    fn insert(&mut self, rule: &Arc<Rule>, limit: RuleLimit) {
        self.rules.insert(Arc::as_ptr(rule).addr(), limit);
    }

    fn add(&mut self, name: &LimitName, policy: Policy) -> Result<(), LimitError> {
        let limit = Limit::new(name, [policy])?;
        self.limits.push(Arc::new(LimitConfig::new(limit)));
        Ok(())
    }
}

/// Returns the text that shows a rule with a block. Its policies take the place of the unit and the number.
fn line(rule: &Rule, limit: &Limit, charging: Option<Charging>, group: Option<&str>) -> String {
    let policies: Vec<String> =
        limit.members().iter().map(Member::policy).map(ToString::to_string).collect();
    let mut line = rule.line_of(&format!("policies=[{}]", policies.join(", ")));
    match charging {
        None => {}
        Some(Charging::Forced) => line.push_str(", charge: forced"),
        Some(Charging::Held(lasts)) => line.push_str(&format!(", hold: {lasts}")),
    }
    if let Some(group) = group {
        line.push_str(", group: ");
        line.push_str(group);
    }
    line
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
        let made =
            RuleLimits::new(&rules, &Settings::default(), &registry).expect("each rule is a limit");
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
        let with_limit = rules.rules().iter().filter(|rule| made.of_rule(rule).is_some());
        assert_eq!(with_limit.count(), 4);
    }
}
