//! The settings of a limit that apply to a key, as reasons for a decision.

use sluicegate::admin::{OverrideEntry, Standing, Treatment};
use sluicegate::config::FilePlace;
use sluicegate::decision::Source;
use sluicegate::{Config, Decision, OnStoreFailure, Outcome, Policy, Registry};
use sluicegate_client::json::{Because, NumberOrigin, Rfc3339};

use super::Wish;
use super::arithmetic::{sentence, span};
use super::origin::Origin;

/// A limit whose treatment of a key is explained.
pub(super) struct Explained<'e> {
    registry: &'e Registry,
    standing: &'e Standing,
    wish: Wish<'e>,
    of_key: Option<OverrideEntry>,
    of_limit: Option<OverrideEntry>,
}

impl<'e> Explained<'e> {
    pub(super) fn new(registry: &'e Registry, standing: &'e Standing, wish: Wish<'e>) -> Self {
        let overrides = registry.overrides();
        let of_key = overrides.known_of(&standing.limit, Some(&standing.key));
        let of_limit = overrides.known_of(&standing.limit, None);
        Self { registry, standing, wish, of_key, of_limit }
    }

    /// Adds the reasons other than policies. Reasons that decide alone come first.
    pub(super) fn settings(&self, decision: &Decision, reasons: &mut Vec<Because>) {
        reasons.extend(self.switch());
        reasons.extend(self.overrides());
        reasons.extend(self.list());
        reasons.extend(self.ban(decision));
        reasons.extend(self.pause(decision));
        reasons.extend(self.store(decision));
        reasons.extend(self.lease(decision));
        reasons.extend(self.key());
        reasons.extend(self.cost());
    }

    /// Returns the state of a policy. `index` is its index in this limit.
    pub(super) fn policy(
        &self,
        index: usize,
        outcome: &Outcome<'_>,
        decision: &Decision,
    ) -> Because {
        let cost = self.wish.cost.of(outcome.member());
        let mut text = sentence(outcome, cost);
        let is_binding = decision.binding().is_some_and(|binding| binding == *outcome);
        if is_binding && decision.is_denied() {
            text.push_str(" It decides.");
        }
        let (origin, more) = self.numbers_of(index);
        text.push_str(&more);
        let mut reason = origin.reason("policy", &self.standing.limit, text);
        reason.policy = Some(outcome.name().as_str().to_owned());
        reason.numbers = numbers(outcome.member().policy(), &origin);
        let cost_origin = match outcome.member().policy().cost().get() {
            _ if self.has_cost() => Origin::Request,
            1 => Origin::Default,
            _ => origin,
        };
        reason.numbers.push(cost_origin.number("cost", &cost));
        reason
    }

    /// Returns the origin of a policy's numbers, and a sentence about it.
    fn numbers_of(&self, index: usize) -> (Origin, String) {
        let origins = self.standing.origins.as_ref();
        if self.wish.gives_policies {
            return (Origin::Request, String::new());
        }
        match self.standing.treatment {
            Treatment::KeyOverride => {
                (Origin::Override, " An override at run time of the key gives the numbers.".into())
            }
            Treatment::LimitOverride => (
                Origin::Override,
                " An override at run time of the limit gives the numbers.".into(),
            ),
            Treatment::Override(entry) => {
                let place = origins.and_then(|origins| origins.override_numbers(entry, index));
                (Origin::of(place), " An override of the configuration gives the numbers.".into())
            }
            _ => (Origin::of(origins.and_then(|origins| origins.policy(index))), String::new()),
        }
    }

    fn switch(&self) -> Option<Because> {
        let origins = self.registry.origins();
        let how = |at_run_time: bool| match at_run_time {
            true => "the program has switched it off",
            false => "`enabled` is false",
        };
        let (text, place) = match self.standing.treatment {
            Treatment::AllOff { at_run_time } => (
                format!("All limits are off, because {}: every request passes.", how(at_run_time)),
                origins.setting("enabled").filter(|_| !at_run_time),
            ),
            Treatment::Off { at_run_time } => (
                format!(
                    "The limit is off, because {}: its requests pass and are not counted.",
                    how(at_run_time)
                ),
                self.setting("enabled").filter(|_| !at_run_time),
            ),
            Treatment::Unknown => (
                "No configuration has this limit, so `unknown_limits` decides.".to_owned(),
                origins.setting("unknown_limits"),
            ),
            _ => return None,
        };
        Some(Origin::of(place).reason("switch", &self.standing.limit, text))
    }

    /// Returns the overrides that apply, and those that don't because of a problem.
    fn overrides(&self) -> Vec<Because> {
        let limit = &self.standing.limit;
        let at_run_time = [(&self.of_key, "the key"), (&self.of_limit, "the whole limit")];
        let mut reasons: Vec<Because> = at_run_time
            .into_iter()
            .filter_map(|(entry, of)| Some((entry.as_ref()?, of)))
            .map(|(entry, of)| {
                let wins = match self.standing.treatment {
                    Treatment::KeyOverride => of == "the key",
                    Treatment::LimitOverride => of == "the whole limit",
                    _ => false,
                };
                Origin::Override.reason("override", limit, override_text(entry, of, wins))
            })
            .collect();
        if let (Treatment::Override(index), Some(config)) =
            (self.standing.treatment, &self.standing.config)
            && let Some(entry) = config.overrides.get(index)
        {
            let place = self.standing.origins.as_ref().and_then(|it| it.override_key(index));
            let text = format!(
                "The entry `{}` of `overrides` matches the key, so it has other numbers than the limit.",
                entry.key()
            );
            reasons.push(Origin::of(place).reason("override", limit, text));
        }
        reasons
    }

    fn list(&self) -> Option<Because> {
        let (config, origins) = (self.standing.config.as_ref()?, self.standing.origins.as_ref());
        let (entry, list, then, place) = match self.standing.treatment {
            Treatment::Allowed(index) => (
                config.allow.get(index)?,
                "allow",
                "the request passes and is not counted",
                origins.and_then(|origins| origins.allow(index)),
            ),
            Treatment::Blocked(index) => (
                config.block.get(index)?,
                "block",
                "the request is denied without looking at a policy",
                origins.and_then(|origins| origins.block(index)),
            ),
            _ => return None,
        };
        let text = format!("The entry `{entry}` of `{list}` matches the key, so {then}.");
        Some(Origin::of(place).reason("list", &self.standing.limit, text))
    }

    fn ban(&self, decision: &Decision) -> Option<Because> {
        let limit = &self.standing.limit;
        let banned = decision
            .ban()
            .filter(|_| decision.banned_by().is_some_and(|name| name.as_str() == limit.as_str()))?;
        let setting = self.standing.config.as_ref().and_then(|config| config.limit.ban(0));
        let (why, origin) = match setting {
            Some(setting) => (
                format!(
                    "`ban: {setting}` bans a key that is denied too often, and an operator can ban one"
                ),
                Origin::of(self.setting("ban")),
            ),
            None => ("An operator set it".to_owned(), Origin::Override),
        };
        let ends = span(banned.ends_in);
        let text = format!("The key is banned for another {ends}, so it is denied. {why}.");
        Some(origin.reason("ban", limit, text))
    }

    fn pause(&self, decision: &Decision) -> Option<Because> {
        let limit = &self.standing.limit;
        let paused = decision
            .pause()
            .filter(|_| decision.paused_by().is_some_and(|name| name.as_str() == limit.as_str()))?;
        let policy = decision.paused_policy();
        let what = match policy {
            Some(policy) => format!("The policy `{policy}` is paused for the key"),
            None => "The key is paused".to_owned(),
        };
        let text = format!(
            "{what} for another {}, so it is denied. A program or an operator set the pause.",
            span(paused.ends_in)
        );
        let mut reason = Origin::Override.reason("pause", limit, text);
        reason.policy = policy.map(|policy| policy.as_str().to_owned());
        Some(reason)
    }

    /// Returns why the decision isn't the store's.
    fn store(&self, decision: &Decision) -> Option<Because> {
        let config = self.standing.config.as_ref()?;
        let limit = &self.standing.limit;
        if decision.is_store_full() {
            let text =
                "The embedded store is full and `overflow` is `deny`, so new keys are denied.";
            return Some(Origin::Default.reason("store", limit, text.to_owned()));
        }
        match decision.source() {
            Source::DenyCache => {
                let text =
                    "`deny_cache` is on, and the store denied an equal request less than 1 s ago.";
                Some(Origin::of(self.setting("deny_cache")).reason("store", limit, text.to_owned()))
            }
            Source::Fallback => {
                let then = match config.on_store_failure {
                    OnStoreFailure::Allow => "`on_store_failure: allow` lets requests pass",
                    OnStoreFailure::Deny => "`on_store_failure: deny` denies requests",
                    OnStoreFailure::Local => {
                        "`on_store_failure: local` counts in this process, with its share of the limit"
                    }
                    _ => "the fallback decides",
                };
                let deadline = config.deadline.unwrap_or(Config::DEADLINE);
                let text = format!(
                    "The store failed or didn't answer within `deadline`, {}. Then {then}.",
                    span(deadline)
                );
                let origin = Origin::of(self.setting("on_store_failure"));
                let mut reason = origin.reason("store", limit, text);
                let deadline_origin = Origin::of(self.setting("deadline"));
                reason.numbers.push(deadline_origin.number("deadline", &span(deadline)));
                Some(reason)
            }
            _ => None,
        }
    }

    fn lease(&self, decision: &Decision) -> Option<Because> {
        let leases = self.standing.config.as_ref()?.leases;
        if leases.most == 0 || decision.source() == Source::Bypass {
            return None;
        }
        let origin = Origin::of(self.setting("leases"));
        let by = match decision.source() {
            Source::Lease => "A lease that this process holds decided",
            _ => "Processes may hold leases of the key, whose units count as used",
        };
        let (most, lasts) = (leases.most, span(leases.lasts));
        let text = format!("{by}. A lease has at most {most} requests and lasts at most {lasts}.");
        let mut reason = origin.reason("lease", &self.standing.limit, text);
        reason.numbers = vec![origin.number("most", &most), origin.number("for", &lasts)];
        Some(reason)
    }

    fn key(&self) -> Option<Because> {
        let (place, config) = (self.setting("key"), self.standing.config.as_ref()?);
        let is_changed = *self.standing.key != *self.wish.key;
        if place.is_none() && !is_changed {
            return None;
        }
        let (given, key) = (shown(self.wish.key), shown(&self.standing.key));
        let mut text = format!("The limit makes keys with `key: {}`.", config.key);
        if is_changed {
            text.push_str(&format!(" It counts the key `{given}` as `{key}`."));
        }
        Some(Origin::of(place).reason("key", &self.standing.limit, text))
    }

    fn cost(&self) -> Option<Because> {
        let cost = self.wish.cost;
        if !self.has_cost() {
            return None;
        }
        let each = cost
            .each
            .iter()
            .map(|(policy, units)| format!("{units} under `{}`", shown(policy.as_bytes())));
        let rest = cost.rest.map(|units| match cost.each.is_empty() {
            true => format!("{units} under every policy"),
            false => format!("{units} under every other policy"),
        });
        let costs: Vec<String> = each.chain(rest).collect();
        let text = format!("The request says its cost: {}.", costs.join(", "));
        Some(Origin::Request.reason("cost", &self.standing.limit, text))
    }

    fn has_cost(&self) -> bool {
        self.wish.cost.rest.is_some() || !self.wish.cost.each.is_empty()
    }

    fn setting(&self, field: &str) -> Option<FilePlace> {
        self.standing.origins.as_ref()?.setting(field)
    }
}

/// Describes an override at run time: its effect, its author, and when it ends.
fn override_text(entry: &OverrideEntry, of: &str, wins: bool) -> String {
    let mut text = format!("An override at run time of {of} says `{}`", entry.to);
    text.push_str(&format!(", since {}", Rfc3339(entry.since)));
    if let Some(by) = &entry.by {
        text.push_str(&format!(", by `{}`", shown(by.as_bytes())));
    }
    match entry.ends_in {
        Some(ends_in) => text.push_str(&format!(", for another {}", span(ends_in))),
        None => text.push_str(", until it is cleared"),
    }
    text.push('.');
    if let Some(note) = &entry.note {
        text.push_str(&format!(" Its note: `{}`.", shown(note.as_bytes())));
    }
    match (&entry.problem, wins) {
        (Some(problem), _) => text.push_str(&format!(" It isn't in force: {problem}.")),
        (None, true) => text.push_str(" It decides."),
        (None, false) => text.push_str(" Another setting wins over it."),
    }
    text
}

/// Returns the numbers of a policy. A number that its text leaves out is a default.
fn numbers(policy: &Policy, origin: &Origin) -> Vec<NumberOrigin> {
    let (text, mut algorithm) = (policy.to_string(), policy.algorithm().clone());
    let (rate, numbers) = algorithm.numbers_mut();
    let rate = rate.map(|rate| origin.number("rate", &rate));
    let others = numbers.into_iter().map(|(name, value)| {
        let is_option = matches!(name, "burst" | "capacity" | "queue");
        let is_said = !is_option || text.split(' ').any(|word| word == name);
        let origin = if is_said { origin } else { &Origin::Default };
        origin.number(name, &value)
    });
    rate.into_iter().chain(others).collect()
}

/// Returns bytes as text for people. They may be any bytes that a client chose.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}
