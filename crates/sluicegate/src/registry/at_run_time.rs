//! The effects of overrides at run time on the keys of a limit.

use std::collections::{BTreeMap, HashMap};

use sluicegate_core::{Limit, Member};

use crate::config_file::{LimitConfig, OverrideError};
use crate::overrides::{Effect, Kept, OfLimit};

/// The effect of an override on a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Said {
    Allowed,
    Blocked,
    /// The key is counted, with this set of numbers.
    Counted(u32),
}

/// The effects of the overrides of a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct AtRunTime {
    /// The effect of the whole limit's override, unless that sets numbers.
    whole: Option<Said>,
    keys: HashMap<Box<[u8]>, Said>,
    problems: OverrideProblems,
}

/// Why overrides of a limit aren't in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverrideProblems {
    /// A reason for all of them.
    all: Option<String>,
    whole: Option<String>,
    keys: BTreeMap<Box<[u8]>, String>,
}

/// The numbers of a limit with its overrides.
pub(super) struct Numbers {
    /// The whole limit with other numbers, if an override sets them.
    pub(super) own: Option<Limit>,
    pub(super) at_run_time: AtRunTime,
}

impl AtRunTime {
    /// Returns the effects. `set_of` returns the number of a set of numbers.
    pub(super) fn of(
        base: &LimitConfig,
        overrides: &OfLimit,
        mut set_of: impl FnMut(&Limit) -> u32,
    ) -> Numbers {
        let (mut own, mut made) = (None, Self::default());
        match overrides.whole.as_ref().map(|kept| effect(base, kept)) {
            None => {}
            Some(Err(problem)) => made.problems.whole = Some(problem.to_string()),
            Some(Ok(Effect::Counted(limit))) => own = Some(limit),
            Some(Ok(Effect::Allowed)) => made.whole = Some(Said::Allowed),
            Some(Ok(Effect::Blocked)) => made.whole = Some(Said::Blocked),
        }
        for (key, kept) in &overrides.keys {
            // The configuration may count other keys than when the override was set.
            let counted = base.key.given(key);
            let counted = counted.map_err(|unfit| unfit.to_string()).and_then(|counted| {
                // Another form may be of other keys too.
                let message = || {
                    format!(
                        "the limit counts this key as `{}` now: set it again",
                        counted.escape_ascii()
                    )
                };
                if *counted == **key { Ok(counted) } else { Err(message()) }
            });
            let effect = effect(base, kept).map_err(|problem| problem.to_string());
            match counted.and_then(|counted| Ok((counted, effect?))) {
                Err(problem) => drop(made.problems.keys.insert(key.clone(), problem)),
                Ok((counted, effect)) => {
                    let said = match effect {
                        Effect::Counted(limit) => Said::Counted(set_of(&limit)),
                        Effect::Allowed => Said::Allowed,
                        Effect::Blocked => Said::Blocked,
                    };
                    made.keys.insert(counted.into_owned().into(), said);
                }
            }
        }
        Numbers { own, at_run_time: made }
    }

    /// Returns the parts that don't depend on the limit's numbers, for a caller that gives other numbers.
    pub(super) fn without_numbers(&self) -> Self {
        // A key with numbers of its own is counted, with those of the caller.
        let without = |said: &Said| match said {
            Said::Counted(_) => Said::Counted(0),
            other => *other,
        };
        Self {
            whole: self.whole,
            keys: self.keys.iter().map(|(key, said)| (key.clone(), without(said))).collect(),
            problems: OverrideProblems::default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.keys.is_empty()
    }

    /// Returns the effect on a key.
    pub(super) fn of_key(&self, key: &[u8]) -> Option<Said> {
        self.keys.get(key).copied()
    }

    /// Returns the effect on all keys without a list entry or an own override.
    pub(super) const fn of_all(&self) -> Option<Said> {
        self.whole
    }

    pub(super) const fn problems(&self) -> &OverrideProblems {
        &self.problems
    }
}

impl OverrideProblems {
    /// Returns the problem of overrides for a limit that doesn't exist.
    pub(super) fn of_no_limit() -> Self {
        let all = "the configuration has no such limit: clear the override, or add the limit again";
        Self { all: Some(all.to_owned()), ..Self::default() }
    }

    /// Returns the problem of an override; `None` if it is in force.
    pub(crate) fn of(&self, key: Option<&[u8]>) -> Option<String> {
        let one = match key {
            None => self.whole.as_ref(),
            Some(key) => self.keys.get(key),
        };
        one.or(self.all.as_ref()).cloned()
    }

    /// Returns each problem, with the key that it is about.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Option<&[u8]>, &str)> {
        let keys = self.keys.iter().map(|(key, problem)| (Some(&**key), problem.as_str()));
        self.whole.iter().map(|problem| (None, problem.as_str())).chain(keys)
    }
}

/// Returns the effect of an override on a limit.
fn effect(base: &LimitConfig, kept: &Kept) -> Result<Effect, OverrideError> {
    let effect = kept.to.effect_on(&base.limit)?;
    Ok(match effect {
        Effect::Counted(limit) => Effect::Counted(limit.otherwise_as(&base.limit, 0)),
        other => other,
    })
}

/// Returns text that equal sets of numbers have.
pub(super) fn text_of(limit: &Limit) -> String {
    let policy = |member: &Member| member.policy().to_string();
    limit.members().iter().map(policy).collect::<Vec<_>>().join("\n")
}
