//! The names that a program uses of its configuration.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;

use sluicegate_core::{Limit, did_you_mean};

use crate::config::UnknownLimit;

/// A limit that a program uses by name, with the policies that it names in costs. A configuration must have them. See
/// [`Registry::open_for`](crate::Registry::open_for).
///
/// A name alone converts to it.
///
/// ```
/// use sluicegate::config::Uses;
///
/// let uses = [Uses::limit("login"), Uses::limit("llm").policies(["requests", "tokens"])];
/// assert_eq!(uses[0], "login".into());
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
#[must_use]
pub struct Uses {
    limit: Box<str>,
    policies: Vec<Box<str>>,
}

impl Uses {
    /// Makes a use of the limit with this name.
    pub fn limit(name: impl Into<Box<str>>) -> Self {
        Self { limit: name.into(), policies: Vec::new() }
    }

    /// Adds uses of policies with these names.
    pub fn policies<P: Into<Box<str>>>(mut self, names: impl IntoIterator<Item = P>) -> Self {
        self.policies.extend(names.into_iter().map(Into::into));
        self
    }
}

impl From<&str> for Uses {
    fn from(name: &str) -> Self {
        Self::limit(name)
    }
}

/// Names that a program uses and its configuration doesn't have. Prints all of them, with suggestions.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct MissingNames(Vec<Missing>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Missing {
    limit: Box<str>,
    /// `None` if the limit itself is missing.
    policy: Option<Box<str>>,
    hint: Option<String>,
}

impl MissingNames {
    /// Returns the names of missing limits.
    pub fn limits(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|missing| missing.policy.is_none()).map(|missing| &*missing.limit)
    }

    /// Returns the names of missing policies, each with the name of its limit.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|missing| Some((&*missing.limit, missing.policy.as_deref()?)))
    }

    /// Returns the uses that `known` lacks, each name once.
    pub(crate) fn of(uses: &[Uses], known: &Known<'_>) -> Self {
        let mut missing = Self::default();
        for Uses { limit, policies } in uses {
            let Some(found) = known.get(&**limit) else {
                let hint = did_you_mean(limit, sorted(known.keys().copied()));
                missing.add(Missing { limit: limit.clone(), policy: None, hint });
                continue;
            };
            let names = || found.members().iter().map(|member| member.name().as_str());
            for policy in policies.iter().filter(|policy| !has(found, policy)) {
                let list = || format!("it has {}", names().collect::<Vec<_>>().join(", "));
                let hint = did_you_mean(policy, names()).unwrap_or_else(list);
                let policy = Some(policy.clone());
                missing.add(Missing { limit: limit.clone(), policy, hint: Some(hint) });
            }
        }
        missing
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, missing: Missing) {
        if !self.0.contains(&missing) {
            self.0.push(missing);
        }
    }
}

impl Missing {
    /// Returns whether it was among these limits.
    fn was_in(&self, known: &Known<'_>) -> bool {
        let has_policy =
            |limit: &&Limit| self.policy.as_deref().is_none_or(|policy| has(limit, policy));
        known.get(&*self.limit).is_some_and(has_policy)
    }
}

impl fmt::Display for MissingNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for Missing { limit, policy, hint } in &self.0 {
            f.write_str(between)?;
            if let Some(policy) = policy {
                write!(f, "policy `{}` of ", policy.escape_debug())?;
            }
            write!(f, "limit `{}`", limit.escape_debug())?;
            if let Some(hint) = hint {
                write!(f, " ({hint})")?;
            }
            between = ", ";
        }
        f.write_str(
            ": the program uses what the configuration doesn't have; add it, or change the program",
        )
    }
}

impl Error for MissingNames {}

/// The uses of a program, and their origins.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    /// Required by the program at its start. All of these existed then.
    required: Vec<Uses>,
    /// Noticed from call sites and middleware when they are made. The configuration may lack them.
    noticed: Vec<Uses>,
}

/// The existing limits, by name.
pub(crate) type Known<'l> = HashMap<&'l str, &'l Limit>;

impl UsedNames {
    pub(crate) fn require(&mut self, uses: Vec<Uses>) {
        self.required.extend(uses);
    }

    /// Notes a call site's use, once. Clients may choose names, so only some are noted.
    pub(crate) fn notice(&mut self, uses: Uses) {
        const MOST: usize = 1_024;
        if self.noticed.len() < MOST && !self.noticed.contains(&uses) {
            self.noticed.push(uses);
        }
    }

    /// Returns the uses that the program would lose if `next` replaced `now`. `unknown` is the treatment of unknown
    /// names. A call site can lose only a use that existed.
    pub(crate) fn lost(
        &self,
        now: &Known<'_>,
        next: &Known<'_>,
        unknown: UnknownLimit,
    ) -> MissingNames {
        let mut lost = MissingNames::of(&self.required, next);
        for missing in MissingNames::of(&self.noticed, next).0 {
            // A configuration may allow requests for a limit that is gone.
            let counts = missing.policy.is_some() || unknown == UnknownLimit::Error;
            if counts && missing.was_in(now) {
                lost.add(missing);
            }
        }
        lost
    }
}

fn has(limit: &Limit, policy: &str) -> bool {
    limit.members().iter().any(|member| member.name().as_str() == policy)
}

fn sorted<'n>(names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names
}
