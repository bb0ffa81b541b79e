//! The parts of a limit whose subjects are in one slot, as limits of their own.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_core::{Algorithm, DeniedCharge, Enforcement, Limit, Member};

use crate::script_limit::ScriptLimit;

/// The most sets of parts that are remembered for one limit: subjects that clients choose could make
/// any of very many.
const MOST: usize = 256;

/// Some parts of a limit, which are decided together.
#[derive(Debug)]
pub(crate) struct Group {
    /// The limit of these parts alone.
    pub(crate) opened: ScriptLimit,
    /// The indices of its policies in the whole limit.
    pub(crate) members: Box<[usize]>,
}

/// The groups of a limit that have been asked so far.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<u64, Arc<Group>>>);

impl Groups {
    /// The group of some parts of a limit, in the order of the limit.
    pub(crate) fn of(&self, whole: &ScriptLimit, parts: &[usize]) -> Arc<Group> {
        let set = parts.iter().fold(0, |set, part| set | 1 << part);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(group) = known.get(&set) {
            return Arc::clone(group);
        }
        let group = Arc::new(Group::new(whole, parts));
        if known.len() < MOST {
            known.insert(set, Arc::clone(&group));
        }
        group
    }
}

impl Group {
    fn new(whole: &ScriptLimit, parts: &[usize]) -> Self {
        let members = parts.iter().flat_map(|part| {
            let members = whole.limit().members().iter().enumerate();
            members.filter(move |(_, member)| member.part() == *part).map(|(index, _)| index)
        });
        Self { members: members.collect(), opened: whole.only(parts) }
    }

    /// Whether a denial by another group is charged here, something that is never given back then; or counted,
    /// where this one denies it too.
    pub(crate) fn charges_the_denied(&self) -> bool {
        let limit = self.opened.limit();
        limit.has_bans() || limit.members().iter().any(keeps_of_denied)
    }
}

/// Whether a policy keeps what it was charged although the request is denied by another.
pub(crate) fn keeps_of_denied(member: &Member) -> bool {
    let policy = member.policy();
    policy.enforcement() == Enforcement::Shadow || policy.denied_charge() == DeniedCharge::Charged
}

/// The first policy that can make an admitted check wait.
pub(crate) fn shaper(limit: &Limit) -> Option<&Member> {
    let is_shaper =
        |member: &&Member| matches!(member.policy().algorithm(), Algorithm::Shaper { .. });
    limit.members().iter().find(is_shaper)
}
