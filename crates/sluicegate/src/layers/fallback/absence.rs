//! The time for which a store, or a node of one, has been down. Times are µs of a clock that doesn't go back.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sluicegate_core::{NodeId, Span};

/// A store has recovered when it has answered and nothing has failed for this time. One that fails repeatedly counts as
/// down all the time.
const CALM: u64 = Span::SECOND.as_micros();

/// The nodes that are down; `None` is the whole store.
#[derive(Debug, Default)]
pub(super) struct Absences {
    /// Whether any is down, to be read without the lock.
    is_any: AtomicBool,
    nodes: Mutex<HashMap<Option<NodeId>, Absence>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Absence {
    since: u64,
    last_failure: u64,
    has_answered: bool,
}

impl Absences {
    /// Notes that a call failed. Returns whether the node counts as down from now on.
    pub(super) fn fail(&self, node: Option<NodeId>, now: u64) -> bool {
        let mut nodes = self.nodes();
        self.is_any.store(true, Ordering::Relaxed);
        let is_new = !nodes.contains_key(&node);
        let absence = nodes.entry(node).or_insert(Absence {
            since: now,
            last_failure: now,
            has_answered: false,
        });
        absence.last_failure = absence.last_failure.max(now);
        absence.has_answered = false;
        is_new
    }

    /// Returns whether any node is down.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Relaxed)
    }

    /// Notes that a call was answered. Returns for how many µs the node was down, if it has recovered.
    pub(super) fn answer(&self, node: Option<NodeId>, now: u64) -> Option<u64> {
        let mut nodes = self.nodes();
        let absence = nodes.get_mut(&node)?;
        absence.has_answered = true;
        if now.saturating_sub(absence.last_failure) < CALM {
            return None;
        }
        let since = absence.since;
        nodes.remove(&node);
        self.is_any.store(!nodes.is_empty(), Ordering::Relaxed);
        Some(now.saturating_sub(since))
    }

    /// Returns whether the last call to a node failed.
    pub(super) fn is_failing(&self, node: Option<NodeId>) -> bool {
        self.is_any() && self.nodes().get(&node).is_some_and(|absence| !absence.has_answered)
    }

    /// Returns the number of nodes that are down.
    pub(super) fn count(&self) -> usize {
        self.nodes().len()
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Option<NodeId>, Absence>> {
        // Nothing that is done under this lock panics half way.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Option<NodeId> = Some(NodeId(7));

    #[test]
    fn a_node_is_away_from_its_first_failure_until_a_second_without_any() {
        let absences = Absences::default();
        let back = |now| absences.answer(NODE, now);
        assert_eq!(back(5), None, "it was never away");
        assert!(absences.fail(NODE, 10));
        assert!(!absences.fail(NODE, 20));
        assert_eq!(back(20 + CALM - 1), None);
        assert!(!absences.fail(NODE, 500_000), "a late failure is no new one");
        assert_eq!(back(500_000 + CALM - 1), None);
        assert_eq!(back(500_000 + CALM), Some(499_990 + CALM));
        assert_eq!(back(9 * CALM), None, "it is told once");
        assert!(absences.fail(NODE, 9 * CALM));
    }

    #[test]
    fn a_node_fails_until_it_answers_and_others_are_nothing_to_it() {
        let absences = Absences::default();
        assert!(!absences.is_failing(NODE));
        assert!(absences.fail(NODE, 10) && absences.fail(None, 10));
        assert!(absences.is_failing(NODE) && absences.is_failing(None));
        assert_eq!(absences.answer(NODE, 11), None);
        assert!(!absences.is_failing(NODE) && absences.is_failing(None));
        assert_eq!(absences.count(), 2);
        assert_eq!(absences.answer(NODE, 10 + CALM), Some(CALM));
        assert_eq!(absences.count(), 1);
        assert!(absences.is_failing(None));
    }
}
