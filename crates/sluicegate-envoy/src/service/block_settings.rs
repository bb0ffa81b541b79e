//! Settings of `x_sluicegate` blocks.

use std::collections::HashMap;

use sluicegate::OnStoreFailure;
use sluicegate::config::{
    LimitBlock, LimitConfig, Origins, Tree as Setting, TreeKey, TreeValue as Value,
};
use sluicegate_core::{DeniedCharge, LimitName, Member, Policy, Span};

use crate::incumbent::{
    Block, LoadErrors, Position, Problem, Report, Rule, Rules, Settings, Tree, TreeValue, beginning,
};

/// The fields of a block at a descriptor that a limit doesn't have.
const OF_RULE: [&str; 3] = ["charge", "group", "hold"];
/// The fields of a limit that are about one rule, so that a block at a domain doesn't have them.
const OF_ONE_RULE: [&str; 4] = ["policies", "allow", "block", "overrides"];
const ALL_OR_NONE: &str = "all_or_none";

/// Reads the blocks of a set of rules, and collects their problems.
pub(super) struct BlockSettings<'r> {
    rules: &'r Rules,
    settings: &'r Settings,
    domains: HashMap<&'r str, Option<DomainSettings>>,
    groups: HashMap<(&'r str, String), Group<'r>>,
    report: Report,
    warnings: Report,
}

/// The settings of a rule's block that its limit doesn't have.
#[derive(Default)]
pub(super) struct RuleSettings {
    /// The charge of hits that isn't a plain one.
    pub(super) charging: Option<Charging>,
    /// The rules that share a counter.
    pub(super) group: Option<String>,
}

/// A charge of hits that isn't a plain one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Charging {
    /// Hits are charged unconditionally.
    Forced,
    /// The charge is held for a time, to be settled.
    Held(Span),
}

/// The settings of a domain's block that its rules' limits don't have.
#[derive(Clone, Copy, Default)]
pub(super) struct DomainSettings {
    /// Whether the descriptors of a call are one decision.
    pub(super) is_all_or_none: bool,
}

/// The first rule of a group.
struct Group<'r> {
    rule: &'r Rule,
    limit: LimitConfig,
}

impl<'r> BlockSettings<'r> {
    pub(super) fn new(rules: &'r Rules, settings: &'r Settings) -> Self {
        let (domains, groups) = (HashMap::new(), HashMap::new());
        let (report, warnings) = (Report::default(), Report::default());
        Self { rules, settings, domains, groups, report, warnings }
    }

    /// Returns the warnings, if there are no problems.
    ///
    /// # Errors
    /// Returns the problems of all blocks.
    pub(super) fn finish(self) -> Result<Vec<Problem>, LoadErrors> {
        self.report.finish(self.warnings.into_problems())
    }

    /// Returns the settings of a domain; `None` if they have problems.
    pub(super) fn of_domain(&mut self, domain: &'r str) -> Option<DomainSettings> {
        if let Some(known) = self.domains.get(domain) {
            return *known;
        }
        let read = match self.rules.domain_block(domain) {
            Some(block) => self.read_domain(block),
            None => Some(DomainSettings::default()),
        };
        self.domains.insert(domain, read);
        read
    }

    fn read_domain(&mut self, block: &Block) -> Option<DomainSettings> {
        let settings = setting(block.settings(), block.text());
        // Problems that the policies of a rule cause are reported with the rule.
        let policy: Policy = "token_bucket 1/s".parse().ok()?;
        let name: LimitName = "domain".parse().ok()?;
        let read = self.read(block, &settings, &fields_of_domain(), Some(&[policy]), &name);
        let read = read.filter(|(limit, _)| self.fits(block, limit));
        let is_all_or_none = match block.settings().get(ALL_OR_NONE) {
            None => Some(false),
            Some(Tree { value: TreeValue::Bool(value), .. }) => Some(*value),
            Some(other) => self.wrong(block, ALL_OR_NONE, other, "must be true or false"),
        };
        read.and(is_all_or_none).map(|is_all_or_none| DomainSettings { is_all_or_none })
    }

    /// Returns the settings of a rule's block beyond those of its limit; `None` if they have problems.
    pub(super) fn of_rule(&mut self, rule: &Rule) -> Option<RuleSettings> {
        let Some(block) = rule.block() else { return Some(RuleSettings::default()) };
        let forced = match block.settings().get("charge") {
            None => Some(None),
            Some(charge) if charge.text() == Some("forced") => Some(Some(Charging::Forced)),
            Some(other) => self.wrong(block, "charge", other, "must be `forced`"),
        };
        let held = match block.settings().get("hold") {
            None => Some(None),
            Some(hold) => self.hold(rule, block, hold).map(|it| Some(Charging::Held(it))),
        };
        let group = match block.settings().get("group") {
            None => Some(None),
            Some(group) => match group.text().filter(|name| name.parse::<LimitName>().is_ok()) {
                Some(name) => Some(Some(name.to_owned())),
                None => {
                    let must =
                        "must be a name of 1 to 64 ASCII letters, digits or any of `_ - . : / @`";
                    self.wrong(block, "group", group, must)
                }
            },
        };
        Some(RuleSettings { charging: forced?.or(held?), group: group? })
    }

    /// Returns the time for which charges are held.
    fn hold(&mut self, rule: &Rule, block: &Block, hold: &Tree) -> Option<Span> {
        let lasts = hold.text().and_then(|text| beginning(text).parse::<Span>().ok());
        let Some(lasts) = lasts.filter(|lasts| (Span::MILLISECOND..=Span::DAY).contains(lasts))
        else {
            return self.wrong(block, "hold", hold, "must be a time from 1ms to 1d, such as 30s");
        };
        let of_domain = self.domains.get(rule.domain()).copied().flatten().unwrap_or_default();
        let problem = if block.settings().get("charge").is_some() {
            "a forced charge is final: remove `charge` or `hold`"
        } else if of_domain.is_all_or_none {
            "a domain with `all_or_none` holds nothing: remove one of them"
        } else {
            return Some(lasts);
        };
        self.problem(block, "hold", problem);
        None
    }

    /// Returns the limit of a rule with a block of its own or of its domain; `None` if it has problems. `policy` is that of
    /// the rule's `rate_limit`. Settings have places if all are in the rule's own file.
    pub(super) fn limit(
        &mut self,
        rule: &Rule,
        name: &LimitName,
        policy: Option<&Policy>,
    ) -> Option<(LimitConfig, Origins)> {
        let of_domain = self.rules.domain_block(rule.domain());
        let block = rule.block().or(of_domain)?;
        let own = rule.block().map(Block::settings);
        let settings = match own {
            Some(own) if !matches!(own.value, TreeValue::Map(_) | TreeValue::Null) => {
                setting(own, block.text())
            }
            _ => {
                let has = |name: &Tree| {
                    own.is_some_and(|own| {
                        own.entries().iter().any(|(it, _)| it.value == name.value)
                    })
                };
                let own = own.map_or(&[][..], Tree::entries).iter();
                let inherited = of_domain.map_or(&[][..], |it| it.settings().entries()).iter();
                let inherited =
                    inherited.filter(|(name, _)| name.text() != Some(ALL_OR_NONE) && !has(name));
                let entries = own.chain(inherited).map(|entry| named(entry, block.text()));
                placed(Value::Map(entries.collect()), block.settings())
            }
        };
        if own.is_some_and(|it| it.get("policies").is_some()) && policy.is_some() {
            let message = "the descriptor has a `rate_limit` too: remove one of them";
            self.problem(block, "policies", message);
            return None;
        }
        let policies = policy.map(std::slice::from_ref);
        let (limit, origins) = self.read(block, &settings, &fields_of_rule(), policies, name)?;
        let is_one_file = own.is_some() && of_domain.is_none_or(|it| it.file() == block.file());
        let origins = if is_one_file { origins } else { Origins::default() };
        self.fits(block, &limit).then_some((limit, origins))
    }

    /// Notes a rule of a group. Returns whether it is the first one; `None` if its settings or entries differ from those of
    /// the first one.
    pub(super) fn join(
        &mut self,
        rule: &'r Rule,
        group: &str,
        limit: &LimitConfig,
    ) -> Option<bool> {
        let place = (rule.domain(), group.to_owned());
        let Some(first) = self.groups.get(&place) else {
            self.groups.insert(place, Group { rule, limit: limit.clone() });
            return Some(true);
        };
        let first_path = beginning(first.rule.path());
        let problem = if first.limit != *limit {
            format!(
                "`{}` has other settings in `{first_path}`: write the same ones",
                beginning(group)
            )
        } else if first.rule.open_entries() != rule.open_entries() {
            format!(
                "`{}` counts by other entries in `{first_path}`: its rules need the same keys without a value",
                beginning(group)
            )
        } else {
            return Some(false);
        };
        self.problem(rule.block()?, "group", &problem);
        None
    }

    /// Returns whether a rule of a domain with `all_or_none` is a quota, whose denials let requests pass; reports it.
    pub(super) fn refuse_quota(&mut self, rule: &Rule) -> bool {
        let why = match (rule.is_quota(), self.settings.quota_mode) {
            (true, _) => format!("`{}` has `quota_mode`", beginning(rule.path())),
            (false, true) => "QUOTA_MODE is set".to_owned(),
            (false, false) => return false,
        };
        let Some(block) = self.rules.domain_block(rule.domain()) else { return false };
        let message = format!("{why}, so a request that is denied could pass: remove one of them");
        self.problem(block, ALL_OR_NONE, &message);
        true
    }

    /// Returns whether a limit of a domain with `all_or_none` charges denied requests, which then charge nothing; reports it.
    pub(super) fn refuse_charges_of_denied(&mut self, rule: &Rule, limit: &LimitConfig) -> bool {
        let mut policies = limit.limit.members().iter().map(Member::policy);
        if policies.all(|policy| policy.denied_charge() == DeniedCharge::Free) {
            return false;
        }
        let Some(block) = rule.block() else { return false };
        let message = "denied requests are charged, but with `all_or_none` they charge nothing: leave `count_denied` and \
                       `charge_denied` out";
        self.problem(block, "policies", message);
        true
    }

    /// Returns whether Envoy's requests can use a limit; reports why not.
    fn fits(&mut self, block: &Block, limit: &LimitConfig) -> bool {
        let (field, problem) = if limit.limit.has_permits() {
            let problem = "`concurrency` counts requests in flight, and Envoy doesn't say when a request ends: use \
                           another policy";
            ("policies", problem)
        } else if limit.on_store_failure == OnStoreFailure::Local {
            let problem =
                "`local` isn't supported in these files: write `error`, `allow` or `deny`";
            ("on_store_failure", problem)
        } else {
            return true;
        };
        self.problem(block, field, problem);
        false
    }

    /// Reads a limit as a configuration has it.
    fn read(
        &mut self,
        block: &Block,
        settings: &Setting,
        fields: &[&str],
        policies: Option<&[Policy]>,
        name: &LimitName,
    ) -> Option<(LimitConfig, Origins)> {
        let (file, text, path) = (block.file(), block.text(), block.path());
        let read = LimitBlock { file, text, path, settings, fields, policies }.read(name);
        let (problems, report) = match &read {
            Ok((_, _, warnings)) => (warnings.as_slice(), &mut self.warnings),
            Err(errors) => (errors.problems(), &mut self.report),
        };
        for problem in problems {
            let (line, column) = (problem.line().unwrap_or(1), problem.column().unwrap_or(1));
            block.report(report, Position { line, column }, problem.message());
        }
        read.ok().map(|(limit, origins, _)| (limit, origins))
    }

    fn wrong<T>(&mut self, block: &Block, field: &str, value: &Tree, must: &str) -> Option<T> {
        let is = match &value.value {
            TreeValue::List(_) => "a list".to_owned(),
            TreeValue::Map(_) => "a map".to_owned(),
            _ => format!("`{}`", beginning(written(value, block.text()))),
        };
        self.problem(block, field, &format!("{must}, but is {is}"));
        None
    }

    /// Reports a problem of a field, or of the block if it lacks the field.
    fn problem(&mut self, block: &Block, field: &str, message: &str) {
        let settings = block.settings();
        let position = settings.get(field).unwrap_or(settings).position;
        let message = format!("{}.{field}: {message}", block.path());
        block.report(&mut self.report, position, &message);
    }
}

/// Returns the fields of a block at a descriptor, as messages list them.
fn fields_of_rule() -> Vec<&'static str> {
    let (policies, others) = LimitBlock::FIELDS.split_at(1);
    [policies, &OF_RULE, others].concat()
}

/// Returns the fields of a block at a domain, as messages list them.
fn fields_of_domain() -> Vec<&'static str> {
    let defaults = LimitBlock::FIELDS.into_iter().filter(|field| !OF_ONE_RULE.contains(field));
    std::iter::once(ALL_OR_NONE).chain(defaults).collect()
}

/// Returns a value as the reader of a limit takes it.
fn setting(tree: &Tree, text: &str) -> Setting {
    let value = match &tree.value {
        TreeValue::Bool(value) => Value::Bool(*value),
        TreeValue::Number => Value::Number,
        TreeValue::Text(text) => Value::Text(text.clone()),
        TreeValue::List(items) => Value::List(items.iter().map(|it| setting(it, text)).collect()),
        TreeValue::Map(entries) => Value::Map(entries.iter().map(|it| named(it, text)).collect()),
        _ => Value::Null,
    };
    placed(value, tree)
}

fn named((name, value): &(Tree, Tree), text: &str) -> (TreeKey, Setting) {
    let Position { line, column } = name.position;
    let shown = name.text().unwrap_or_else(|| written(name, text));
    (TreeKey::new(shown.to_owned(), line, column), setting(value, text))
}

fn placed(value: Value, tree: &Tree) -> Setting {
    let Position { line, column } = tree.position;
    Setting::new(value, line, column, tree.bytes.clone())
}

fn written<'t>(tree: &Tree, text: &'t str) -> &'t str {
    text.get(tree.bytes.clone()).unwrap_or_default()
}
