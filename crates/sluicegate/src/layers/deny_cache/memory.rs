//! Recent denials, a bounded number of them.

use std::num::NonZeroUsize;

use lru::LruCache;
use sluicegate_core::for_stores::DecisionForStores as _;
use sluicegate_core::{Decision, Limit, Span};

use crate::layers::fingerprint::{Fingerprint, Fingerprints};
use crate::layers::parts::{Parts, latest};

/// The number of parts, each with its own lock.
const PARTS: usize = 16;

/// Denials by their subject. The least recently used are removed first.
pub(super) struct Memory {
    fingerprints: Fingerprints,
    parts: Parts<Part>,
}

struct Part {
    denials: LruCache<Fingerprint, Denial>,
    /// The number of times that a denial was the answer.
    answers: u64,
    /// The number of times that units were given back: answers to requests from before say nothing about the state
    /// after it.
    era: u64,
}

/// No remembered denial is in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unknown {
    /// The era in which the store is called.
    pub(super) era: u64,
    /// Whether there is a denial for other costs, or an expired one.
    pub(super) is_known_otherwise: bool,
}

/// A denial.
pub(super) struct Denial {
    /// The limit, with the numbers and windows that denied.
    pub(super) limit: Limit,
    /// The cost of the request under each policy.
    pub(super) costs: Box<[u64]>,
    pub(super) decision: Decision,
    /// When it came, and until when it holds, in µs.
    pub(super) came: u64,
    pub(super) until: u64,
}

impl Denial {
    /// Returns whether other costs are denied by the same policies, with at least the wait of this denial.
    ///
    /// That needs two conditions. Each of these policies is asked for no less than before and for no more than it ever
    /// admits. Each other policy is asked for no more than its remaining units.
    fn denies(&self, cost_of: impl Fn(usize) -> u64) -> bool {
        self.costs.iter().enumerate().all(|(policy, &cost)| {
            let asked = cost_of(policy);
            asked == cost
                || self.decision.policy(policy).is_some_and(|outcome| {
                    if outcome.is_admitted() {
                        outcome.remaining().is_none_or(|remaining| asked <= remaining)
                    } else {
                        asked > cost && outcome.limit().is_none_or(|limit| asked <= limit)
                    }
                })
        })
    }
}

impl Memory {
    pub(super) fn new(most: NonZeroUsize) -> Self {
        let part = || Part { denials: latest(most, PARTS), answers: 0, era: 0 };
        Self { fingerprints: Fingerprints::default(), parts: Parts::new(PARTS, part) }
    }

    /// Returns the fingerprint of a subject.
    pub(super) fn subject(&self, limit: &str, subject: &[u8]) -> Fingerprint {
        self.fingerprints.of(limit, subject)
    }

    /// Returns the denial that holds now. A denial by other numbers or windows says nothing about
    /// `limit`.
    pub(super) fn find(
        &self,
        subject: Fingerprint,
        limit: &Limit,
        cost_of: impl Fn(usize) -> u64,
        now: u64,
    ) -> Result<Decision, Unknown> {
        let mut part = self.parts.of(subject);
        let era = part.era;
        let Some(denial) = part.denials.get(&subject) else {
            return Err(Unknown { era, is_known_otherwise: false });
        };
        // If the clock goes back, a denial must not last longer.
        let lasts = denial.came <= now && now < denial.until;
        if !lasts || denial.limit != *limit || !denial.denies(cost_of) {
            return Err(Unknown { era, is_known_otherwise: true });
        }
        let after = Span::from_micros(now - denial.came).unwrap_or(Span::MAX);
        let repeated = denial.decision.repeated(after);
        part.answers += 1;
        Ok(repeated)
    }

    /// Returns the number of times that a denial was the answer.
    pub(super) fn answers(&self) -> u64 {
        self.parts.iter().map(|part| part.answers).sum()
    }

    /// Remembers the denial of a request from an era.
    pub(super) fn remember(&self, subject: Fingerprint, era: u64, denial: Denial) {
        let mut part = self.parts.of(subject);
        if part.era == era {
            part.denials.put(subject, denial);
        }
    }

    /// Forgets the denial of a subject.
    pub(super) fn drop(&self, subject: Fingerprint) {
        self.parts.of(subject).denials.pop(&subject);
    }

    /// Forgets the denial of a subject, and those of requests that are under way.
    pub(super) fn forget(&self, subject: Fingerprint) {
        let mut part = self.parts.of(subject);
        part.era += 1;
        part.denials.pop(&subject);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial() -> Denial {
        let decision = Decision::bypass(false);
        Denial { limit: limit(5), costs: Box::new([1]), decision, came: 100, until: 200 }
    }

    fn limit(burst: u64) -> Limit {
        Limit::new("login", [format!("gcra 1/s burst {burst}")]).unwrap()
    }

    #[test]
    fn what_was_asked_before_units_came_back_is_not_remembered_after_it() {
        let memory = Memory::new(NonZeroUsize::MIN);
        let alice = memory.subject("login", b"alice");
        let era = memory.find(alice, &limit(5), |_| 1, 100).unwrap_err().era;
        memory.forget(alice);
        memory.remember(alice, era, denial());
        let era = memory.find(alice, &limit(5), |_| 1, 150).unwrap_err().era;
        memory.remember(alice, era, denial());
        assert!(memory.find(alice, &limit(5), |_| 1, 150).is_ok());
        memory.forget(alice);
        assert!(memory.find(alice, &limit(5), |_| 1, 150).is_err());
    }

    #[test]
    fn a_denial_holds_for_its_time_and_for_its_costs() {
        let memory = Memory::new(NonZeroUsize::MIN);
        let alice = memory.subject("login", b"alice");
        let era = memory.find(alice, &limit(5), |_| 1, 100).unwrap_err().era;
        memory.remember(alice, era, denial());
        for (costs, now, holds) in
            [(1, 100, true), (1, 199, true), (1, 200, false), (2, 150, false), (1, 99, false)]
        {
            assert_eq!(
                memory.find(alice, &limit(5), |_| costs, now).is_ok(),
                holds,
                "{costs} at {now}"
            );
        }
        assert!(memory.find(memory.subject("login", b"bob"), &limit(5), |_| 1, 150).is_err());
        assert!(memory.find(memory.subject("logout", b"alice"), &limit(5), |_| 1, 150).is_err());
    }

    #[test]
    fn a_denial_by_other_numbers_does_not_hold() {
        let memory = Memory::new(NonZeroUsize::MIN);
        let alice = memory.subject("login", b"alice");
        let era = memory.find(alice, &limit(5), |_| 1, 100).unwrap_err().era;
        memory.remember(alice, era, denial());
        let unknown = memory.find(alice, &limit(6), |_| 1, 100).unwrap_err();
        assert!(unknown.is_known_otherwise);
        assert!(memory.find(alice, &limit(5), |_| 1, 100).is_ok());
    }

    #[test]
    fn no_more_are_remembered_than_there_may_be() {
        let memory = Memory::new(NonZeroUsize::new(160).unwrap());
        for subject in 0..10_000_u32 {
            let subject = memory.subject("login", &subject.to_be_bytes());
            let era = memory.find(subject, &limit(5), |_| 1, 100).unwrap_err().era;
            memory.remember(subject, era, denial());
        }
        let kept: usize = memory.parts.iter().map(|part| part.denials.len()).sum();
        assert_eq!(kept, 160);
    }
}
