//! The parts of a limit whose subjects are in one slot, as separate limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_core::{Algorithm, DeniedCharge, Enforcement, Limit, Member};

use crate::script_limit::ScriptLimit;

/// Maximum number of sets of parts to remember for one limit. Clients choose the subjects, and can produce a
/// huge number of sets.
const MOST: usize = 256;

/// Parts of a limit that are decided together.
#[derive(Debug)]
pub(crate) struct Group {
    /// A limit of only these parts.
    pub(crate) opened: ScriptLimit,
    /// The indices of its policies in the whole limit.
    pub(crate) members: Box<[usize]>,
}

/// The groups of a limit that were used so far.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<HashMap<u64, Arc<Group>>>);

impl Groups {
    /// Returns the group of some parts of a limit, in the order of the limit.
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

    /// Returns whether a denial by another group is charged here permanently, or counted if this group denies
    /// it too.
    pub(crate) fn charges_the_denied(&self) -> bool {
        let limit = self.opened.limit();
        limit.has_bans() || limit.members().iter().any(keeps_of_denied)
    }
}

/// Returns whether a policy keeps its charge if another one denies the request.
pub(crate) fn keeps_of_denied(member: &Member) -> bool {
    let policy = member.policy();
    policy.enforcement() == Enforcement::Shadow || policy.denied_charge() != DeniedCharge::Free
}

/// Returns the first policy that can make an admitted check wait.
pub(crate) fn shaper(limit: &Limit) -> Option<&Member> {
    let is_shaper =
        |member: &&Member| matches!(member.policy().algorithm(), Algorithm::Shaper { .. });
    limit.members().iter().find(is_shaper)
}
