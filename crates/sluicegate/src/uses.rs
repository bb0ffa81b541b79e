//! The names that a program uses of its configuration.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;

use sluicegate_core::{Limit, did_you_mean};

use crate::config::UnknownLimit;

/// A limit that a program uses by name, and the policies of it that it names in costs: what a
/// configuration has to have. See [`Registry::open_for`](crate::Registry::open_for).
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
    /// The limit with this name.
    pub fn limit(name: impl Into<Box<str>>) -> Self {
        Self { limit: name.into(), policies: Vec::new() }
    }

    /// The same limit, and policies of these names in it.
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

/// Names that a program uses and its configuration doesn't have. Prints all of them, with what may have
/// been meant.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct MissingNames(Vec<Missing>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Missing {
    limit: Box<str>,
    /// `None` if it is the limit that is missing.
    policy: Option<Box<str>>,
    hint: Option<String>,
}

impl MissingNames {
    /// The names of missing limits.
    pub fn limits(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|missing| missing.policy.is_none()).map(|missing| &*missing.limit)
    }

    /// The names of limits and of the policies that they lack.
    pub fn policies(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().filter_map(|missing| Some((&*missing.limit, missing.policy.as_deref()?)))
    }

    /// What is used and not there; each name once.
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
    /// Whether it was among these limits.
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

/// What a program uses, and who says so.
#[derive(Debug, Default)]
pub(crate) struct UsedNames {
    /// The program, at its start. All of it was there.
    required: Vec<Uses>,
    /// Call sites and middleware, when they are made. They may be ahead of a configuration.
    noticed: Vec<Uses>,
}

/// The limits that there are, by name.
pub(crate) type Known<'l> = HashMap<&'l str, &'l Limit>;

impl UsedNames {
    pub(crate) fn require(&mut self, uses: Vec<Uses>) {
        self.required.extend(uses);
    }

    /// Notes what a call site uses, once.
    pub(crate) fn notice(&mut self, uses: Uses) {
        if !self.noticed.contains(&uses) {
            self.noticed.push(uses);
        }
    }

    /// What the program would lose if `next`, where `unknown` says what happens to other names,
    /// replaced `now`. A call site can only lose what was there.
    pub(crate) fn lost(
        &self,
        now: &Known<'_>,
        next: &Known<'_>,
        unknown: UnknownLimit,
    ) -> MissingNames {
        let mut lost = MissingNames::of(&self.required, next);
        for missing in MissingNames::of(&self.noticed, next).0 {
            // A configuration may say that requests for a limit that is gone pass.
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
