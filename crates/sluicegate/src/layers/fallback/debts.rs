//! Pending charges: units that a local limiter has admitted and the store has not been charged for.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use sluicegate_core::StoreError;
use sluicegate_core::for_stores::Identity;
use smallvec::SmallVec;
use tokio::sync::watch;

use crate::layers::fingerprint::{Fingerprint, Fingerprints};
use crate::layers::parts::Parts;

/// The number of parts, each with its own lock.
const PARTS: usize = 64;

/// Units by the policies that they were admitted under.
pub(super) type Units = SmallVec<[(Identity, u64); 2]>;

/// The pending charges of all subjects, a bounded number of them.
pub(super) struct Debts {
    fingerprints: Fingerprints,
    parts: Parts<Part>,
    count: AtomicUsize,
    most: usize,
    /// The part that is searched next when there is no capacity.
    next: AtomicUsize,
}

#[derive(Default)]
struct Part {
    debts: HashMap<Fingerprint, Debt>,
    /// The number of lookups since expired charges were removed.
    looks: usize,
}

#[derive(Default)]
struct Debt {
    /// Units that were admitted and are neither charged nor being charged.
    units: Units,
    /// When none of them counts any more, by the local limiter's clock.
    until: u64,
    being_charged: Option<watch::Receiver<Charged>>,
}

/// The outcome of charging the store; `None` until it is known.
pub(super) type Charged = Option<Result<(), StoreError>>;

/// The work to do before the store is called about a subject.
pub(super) enum Claim {
    /// Nothing.
    Nothing,
    /// Another caller is charging the store already.
    Wait(watch::Receiver<Charged>),
    /// The caller that made the claim has to charge the store with these units.
    Charge(Settlement),
}

/// A pending charge that is being sent. If it is dropped after it was begun, it counts as charged.
pub(super) struct Settlement {
    debts: Arc<Debts>,
    subject: Fingerprint,
    /// The units to charge.
    pub(super) owed: Units,
    /// The units that were admitted: more, if some have flowed back.
    admitted: Units,
    /// Whether the store may have been charged.
    is_begun: bool,
    told: watch::Sender<Charged>,
}

impl Debts {
    /// Makes an empty value for at most `most` subjects, or slightly more while several callers add at the same time.
    pub(super) fn new(most: usize) -> Self {
        Self {
            fingerprints: Fingerprints::default(),
            parts: Parts::new(PARTS, Part::default),
            count: AtomicUsize::new(0),
            most,
            next: AtomicUsize::new(0),
        }
    }

    /// Returns the fingerprint of a subject.
    pub(super) fn subject(&self, limit: &str, subject: &[u8]) -> Fingerprint {
        self.fingerprints.of(limit, subject)
    }

    /// Returns the number of subjects.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns whether a subject has a pending charge, or may have one.
    pub(super) fn has(&self, subject: Fingerprint, now: u64) -> bool {
        self.count() > 0 && self.part(subject, now).debts.contains_key(&subject)
    }

    /// Returns whether there is capacity for a subject's charge. If there is none, expired charges are removed from the
    /// next of all parts.
    pub(super) fn has_room(&self, subject: Fingerprint, now: u64) -> bool {
        if self.count() < self.most || self.part(subject, now).debts.contains_key(&subject) {
            return true;
        }
        let next = self.next.fetch_add(1, Ordering::Relaxed) % PARTS;
        self.sweep(&mut self.parts.at(next), now);
        self.count() < self.most
    }

    /// Adds units that were admitted, all of which count until `until`.
    pub(super) fn add(&self, subject: Fingerprint, units: Units, until: u64, now: u64) {
        if units.is_empty() {
            return;
        }
        let mut part = self.part(subject, now);
        let debt = part.debts.entry(subject).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            Debt::default()
        });
        merge(&mut debt.units, units);
        debt.until = debt.until.max(until);
    }

    /// Claims the pending charge of a subject. `owed` returns how many of the admitted units still count.
    pub(super) fn claim(
        self: &Arc<Self>,
        subject: Fingerprint,
        now: u64,
        owed: impl FnOnce(&Units) -> Units,
    ) -> Claim {
        let mut part = self.part(subject, now);
        let Some(debt) = part.debts.get_mut(&subject) else { return Claim::Nothing };
        if let Some(told) = &debt.being_charged {
            return Claim::Wait(told.clone());
        }
        let owed = if now < debt.until { owed(&debt.units) } else { Units::new() };
        if owed.is_empty() {
            part.debts.remove(&subject);
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Claim::Nothing;
        }
        let (told, hears) = watch::channel(None);
        debt.being_charged = Some(hears);
        let admitted = std::mem::take(&mut debt.units);
        let debts = Arc::clone(self);
        Claim::Charge(Settlement { debts, subject, owed, admitted, is_begun: false, told })
    }

    /// Forgets the pending charge of a subject, except for units that are being charged.
    pub(super) fn forget(&self, subject: Fingerprint, now: u64) {
        let mut part = self.part(subject, now);
        let Some(debt) = part.debts.get_mut(&subject) else { return };
        debt.units.clear();
        if debt.being_charged.is_none() {
            part.debts.remove(&subject);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn end(&self, subject: Fingerprint, back: Units) {
        let mut part = self.parts.of(subject);
        let Some(debt) = part.debts.get_mut(&subject) else { return };
        debt.being_charged = None;
        merge(&mut debt.units, back);
        if debt.units.is_empty() {
            part.debts.remove(&subject);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the part of a subject. It removes expired charges once there were as many lookups as the part has
    /// charges.
    fn part(&self, subject: Fingerprint, now: u64) -> MutexGuard<'_, Part> {
        let mut part = self.parts.of(subject);
        part.looks += 1;
        if part.looks > part.debts.len() {
            self.sweep(&mut part, now);
        }
        part
    }

    fn sweep(&self, part: &mut Part, now: u64) {
        part.looks = 0;
        let before = part.debts.len();
        part.debts.retain(|_, debt| debt.being_charged.is_some() || now < debt.until);
        self.count.fetch_sub(before - part.debts.len(), Ordering::Relaxed);
    }
}

impl Settlement {
    /// Returns a receiver of the outcome.
    pub(super) fn hears(&self) -> watch::Receiver<Charged> {
        self.told.subscribe()
    }

    /// Notes that the store may have been charged from now on.
    pub(super) const fn begin(&mut self) {
        self.is_begun = true;
    }

    /// Ends it because the store was not charged: all units are pending again.
    pub(super) fn fail(mut self, error: StoreError) {
        let admitted = std::mem::take(&mut self.admitted);
        self.end(admitted, Err(error));
    }

    /// Ends it because the outcome is unknown: it counts as charged, and is never charged again.
    pub(super) fn give_up(mut self, error: StoreError) {
        self.end(Units::new(), Err(error));
    }

    fn end(&mut self, back: Units, outcome: Result<(), StoreError>) {
        self.debts.end(self.subject, back);
        self.told.send_replace(Some(outcome));
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        let is_over = self.told.borrow().is_some();
        if !is_over {
            let admitted = std::mem::take(&mut self.admitted);
            let back = if self.is_begun { Units::new() } else { admitted };
            self.end(back, Ok(()));
        }
    }
}

fn merge(into: &mut Units, units: Units) {
    for (policy, units) in units {
        match into.iter_mut().find(|(known, _)| *known == policy) {
            Some((_, known)) => *known = known.saturating_add(units),
            None => into.push((policy, units)),
        }
    }
}

impl fmt::Debug for Debts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debts").field("count", &self.count()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::StoreErrorKind;

    use super::*;

    const A: Identity = Identity::from_bytes(*b"aaaa");
    const B: Identity = Identity::from_bytes(*b"bbbb");

    fn units(of: &[(Identity, u64)]) -> Units {
        of.iter().copied().collect()
    }

    fn all(units: &Units) -> Units {
        units.clone()
    }

    fn claimed(claim: Claim) -> Settlement {
        match claim {
            Claim::Charge(settlement) => settlement,
            Claim::Wait(_) => panic!("somebody is charging it"),
            Claim::Nothing => panic!("nothing is owed"),
        }
    }

    fn debts() -> Arc<Debts> {
        Arc::new(Debts::new(1_000))
    }

    #[test]
    fn a_debt_is_charged_once_and_what_comes_meanwhile_is_another_one() {
        let debts = debts();
        debts.add(1, units(&[(A, 2)]), 100, 0);
        debts.add(1, units(&[(A, 1), (B, 5)]), 100, 0);
        let mut first = claimed(debts.claim(1, 50, all));
        assert_eq!(first.owed, units(&[(A, 3), (B, 5)]));
        let Claim::Wait(told) = debts.claim(1, 50, all) else { panic!("it is being charged") };
        assert!(told.borrow().is_none());
        debts.add(1, units(&[(A, 7)]), 100, 50);
        first.begin();
        drop(first);
        assert!(matches!(&*told.borrow(), Some(Ok(()))));
        let mut second = claimed(debts.claim(1, 50, all));
        assert_eq!(second.owed, units(&[(A, 7)]));
        second.begin();
        drop(second);
        assert!(matches!(debts.claim(1, 50, all), Claim::Nothing));
        assert_eq!(debts.count(), 0);
    }

    #[test]
    fn what_could_not_be_charged_is_owed_as_before() {
        let debts = debts();
        debts.add(1, units(&[(A, 2)]), 100, 0);
        let mut refused = claimed(debts.claim(1, 0, |_| units(&[(A, 1)])));
        let Claim::Wait(told) = debts.claim(1, 0, all) else { panic!("it is being charged") };
        refused.begin();
        debts.add(1, units(&[(A, 3)]), 100, 0);
        refused.fail(StoreError::new(StoreErrorKind::Unavailable, "away"));
        assert!(matches!(&*told.borrow(), Some(Err(_))));
        // Dropped before it was begun.
        drop(claimed(debts.claim(1, 0, all)));
        assert_eq!(claimed(debts.claim(1, 0, all)).owed, units(&[(A, 5)]));
        assert_eq!(debts.count(), 1);
    }

    #[test]
    fn what_counts_no_more_is_not_owed_and_takes_no_room() {
        let debts = Arc::new(Debts::new(2));
        debts.add(1, units(&[(A, 2)]), 100, 0);
        assert!(matches!(debts.claim(1, 99, |_| Units::new()), Claim::Nothing));
        assert_eq!(debts.count(), 0);
        debts.add(1, units(&[(A, 2)]), 100, 0);
        debts.add(65, units(&[(A, 2)]), 200, 0);
        assert!(debts.has_room(1, 0));
        assert!((0..PARTS).all(|_| !debts.has_room(130, 99)));
        assert!((0..PARTS).any(|_| debts.has_room(130, 100)), "the first one counts no more");
        assert!(!debts.has(1, 100) && debts.has(65, 100));
        assert_eq!(debts.count(), 1);
        debts.add(65, Units::new(), 300, 100);
        assert!(matches!(debts.claim(65, 200, all), Claim::Nothing), "nothing was added");
    }

    #[test]
    fn debts_that_nobody_asks_about_are_removed_as_others_are_looked_at() {
        let debts = Arc::new(Debts::new(100_000));
        for subject in 0..64_000 {
            debts.add(subject, units(&[(A, 1)]), 100, 0);
        }
        assert_eq!(debts.count(), 64_000);
        for subject in 64_000..64_000 + 2 * 64_000 {
            assert!(!debts.has(subject, 100));
        }
        assert_eq!(debts.count(), 0);
    }

    #[test]
    fn a_reset_forgets_what_is_not_being_charged() {
        let debts = debts();
        debts.add(1, units(&[(A, 2)]), 100, 0);
        let settlement = claimed(debts.claim(1, 0, all));
        debts.add(1, units(&[(A, 9)]), 100, 0);
        debts.forget(1, 0);
        settlement.fail(StoreError::new(StoreErrorKind::Unavailable, "away"));
        assert_eq!(claimed(debts.claim(1, 0, all)).owed, units(&[(A, 2)]));
        debts.forget(1, 0);
        assert_eq!(debts.count(), 0);
    }
}
