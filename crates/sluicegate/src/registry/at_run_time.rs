//! The effects of overrides at run time on the keys of a limit.

use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use sluicegate_core::Limit;

use crate::config_file::{LimitConfig, OverrideError};
use crate::overrides::{Effect, Kept};

/// The effect of an override on a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Said {
    Allowed,
    Blocked,
    /// The key is counted, with this set of numbers.
    Counted(u32),
}

/// The effects of the overrides of a limit. A copy costs as much for many as for few.
#[derive(Clone, Debug, Default)]
pub(super) struct AtRunTime {
    /// The effect of the whole limit's override, unless that sets numbers.
    whole: Option<Said>,
    keys: HashTrieMapSync<Box<[u8]>, Said>,
    /// Whether a caller gives the numbers of all keys.
    has_given_numbers: bool,
    problems: OverrideProblems,
}

/// Why overrides of a limit aren't in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct OverrideProblems {
    /// A reason for all of them.
    all: Option<String>,
    whole: Option<String>,
    keys: RedBlackTreeMapSync<Box<[u8]>, String>,
}

impl AtRunTime {
    /// Returns the effect of the whole limit's override without those of keys, and its numbers, if it sets them.
    pub(super) fn of_whole(base: &LimitConfig, whole: Option<&Kept>) -> (Self, Option<Limit>) {
        let (mut own, mut made) = (None, Self::default());
        match whole.map(|kept| effect(base, kept)) {
            None => {}
            Some(Err(problem)) => made.problems.whole = Some(problem.to_string()),
            Some(Ok(Effect::Counted(limit))) => own = Some(limit),
            Some(Ok(Effect::Allowed)) => made.whole = Some(Said::Allowed),
            Some(Ok(Effect::Blocked)) => made.whole = Some(Said::Blocked),
        }
        (made, own)
    }

    /// Sets or removes the override of a key. `set_of` returns the number of a set of numbers.
    pub(super) fn set(
        &mut self,
        base: &LimitConfig,
        key: &[u8],
        kept: Option<&Kept>,
        set_of: impl FnOnce(&Limit) -> u32,
    ) {
        self.keys.remove_mut(key);
        self.problems.keys.remove_mut(key);
        let Some(kept) = kept else { return };
        match unfit(base, key).map_or_else(|| effect(base, kept).map_err(|it| it.to_string()), Err)
        {
            Err(problem) => self.problems.keys.insert_mut(key.into(), problem),
            Ok(effect) => {
                let said = match effect {
                    Effect::Counted(limit) => Said::Counted(set_of(&limit)),
                    Effect::Allowed => Said::Allowed,
                    Effect::Blocked => Said::Blocked,
                };
                self.keys.insert_mut(key.into(), said);
            }
        }
    }

    /// Returns the parts that don't depend on the limit's numbers, for a caller that gives other numbers.
    pub(super) fn without_numbers(&self) -> Self {
        Self {
            has_given_numbers: true,
            problems: OverrideProblems::default(),
            keys: self.keys.clone(),
            whole: self.whole,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.whole.is_none() && self.keys.is_empty()
    }

    /// Returns the effect on a key.
    pub(super) fn of_key(&self, key: &[u8]) -> Option<Said> {
        match self.keys.get(key).copied() {
            // It is counted, with the numbers of the caller.
            Some(Said::Counted(_)) if self.has_given_numbers => Some(Said::Counted(0)),
            said => said,
        }
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

/// Returns why an override can't be for a key as it was stored. The configuration may count other keys than when the
/// override was set.
fn unfit(base: &LimitConfig, key: &[u8]) -> Option<String> {
    match base.key.given(key) {
        Err(unfit) => Some(unfit.to_string()),
        Ok(counted) if *counted == *key => None,
        // Another form may be of other keys too.
        Ok(counted) => Some(format!(
            "the limit counts this key as `{}` now: set it again",
            counted.escape_ascii()
        )),
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
