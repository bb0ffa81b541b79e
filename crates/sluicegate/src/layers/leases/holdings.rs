//! The held units of all keys of a process, a bounded number of them.
//!
//! Most keys are used too rarely to be leased. Only a count is stored for those, so they cost a decision one cache
//! line.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use lru::LruCache;
use sluicegate_core::Decision;
use sluicegate_core::for_stores::LeaseReport;

use super::holding::{Gone, Granted, Holding, LEAST, Local, Owner};
use super::uses::Uses;
use super::{LeaseStats, Serves, Units};
use crate::layers::fingerprint::{Fingerprint, Fingerprints};
use crate::layers::parts::{Parts, latest};

/// The number of parts, each with its own lock.
const PARTS: usize = 16;

/// For this many keys that may be held, one is counted at a time. A relevant count is used again soon, and a small
/// table stays in the processor's cache.
const COUNTED_OF: usize = 4;

/// Holdings by their subject. The least recently used are removed first.
pub(super) struct Holdings {
    fingerprints: Fingerprints,
    parts: Parts<Part>,
    counts: Counts,
}

struct Part {
    uses: Uses,
    /// Whether all units were given back, so that no more are requested.
    has_ended: bool,
    /// Keys with units that are held or requested.
    held: LruCache<Fingerprint, Holding>,
}

#[derive(Default)]
struct Counts {
    decided: AtomicU64,
    asked: AtomicU64,
    granted: AtomicU64,
    spent: AtomicU64,
    returned: AtomicU64,
    expired: AtomicU64,
}

impl Holdings {
    pub(super) fn new(most: NonZeroUsize) -> Self {
        Self {
            fingerprints: Fingerprints::default(),
            parts: Parts::new(PARTS, || Part {
                uses: Uses::new(most.get().div_ceil(COUNTED_OF * PARTS)),
                has_ended: false,
                held: latest(most, PARTS),
            }),
            counts: Counts::default(),
        }
    }

    /// Returns the fingerprint of a key of an opened limit, by its number.
    pub(super) fn fingerprint(&self, opened: u64, key: &[u8]) -> Fingerprint {
        self.fingerprints.of(opened, key)
    }

    /// Evaluates a check.
    pub(super) fn check(
        &self,
        subject: Fingerprint,
        costs: &Units,
        serves: Serves,
        now: u64,
    ) -> Local {
        let mut gone = Gone::default();
        let mut part = self.parts.of(subject);
        let lately = part.uses.count(subject, serves.width.as_micros(), now);
        let has_ended = part.has_ended;
        let local = match part.held.get_mut(&subject) {
            Some(holding) => {
                let local = holding.check(costs, lately, serves.most, now, &mut gone);
                if holding.is_empty() {
                    part.held.pop(&subject);
                }
                local
            }
            None if lately < LEAST || has_ended => Local::NOTHING,
            None => {
                let mut holding = Holding::default();
                let local = holding.check(costs, lately, serves.most, now, &mut gone);
                if !holding.is_empty()
                    && let Some((_, evicted)) = part.held.push(subject, holding)
                {
                    gone.expired += evicted.units();
                }
                local
            }
        };
        drop(part);
        let decides = matches!(local, Local::Spent(_));
        let counts = &self.counts;
        (if decides { &counts.decided } else { &counts.asked }).fetch_add(1, Relaxed);
        self.count(gone);
        local
    }

    /// Spends a request's costs, if they are held, although the store was called.
    pub(super) fn spend(&self, subject: Fingerprint, costs: &Units, now: u64) -> Option<Decision> {
        let mut gone = Gone::default();
        let mut part = self.parts.of(subject);
        let decision = part.held.get_mut(&subject)?.spend_now(costs, now, &mut gone);
        drop(part);
        self.count(gone);
        decision
    }

    /// Adds granted units.
    pub(super) fn add(&self, subject: Fingerprint, costs: &Units, granted: Granted) {
        let units = costs.iter().map(|cost| granted.lease.times.saturating_mul(*cost)).sum();
        self.counts.granted.fetch_add(units, Relaxed);
        match self.parts.of(subject).held.get_mut(&subject) {
            Some(holding) => holding.add(costs, granted),
            // It was the least recently used key, or this is the end, so its holding was removed.
            None => self.count(Gone { expired: units, ..Gone::default() }),
        }
    }

    /// Notes that a request for units was answered or abandoned.
    pub(super) fn asked(&self, subject: Fingerprint, want: u64) {
        let mut part = self.parts.of(subject);
        if let Some(holding) = part.held.get_mut(&subject) {
            holding.asked(want);
            if holding.is_empty() {
                part.held.pop(&subject);
            }
        }
    }

    /// Discards the held units of a key, and returns the reports for the store.
    pub(super) fn give_up(&self, subject: Fingerprint) -> Vec<LeaseReport> {
        let mut gone = Gone::default();
        let mut part = self.parts.of(subject);
        let reports = part.held.get_mut(&subject).map(|holding| holding.give_up(&mut gone));
        drop(part);
        self.counts.asked.fetch_add(1, Relaxed);
        self.count(gone);
        reports.unwrap_or_default()
    }

    /// Discards the held units of all keys, and returns the reports for the store. From now on no units are requested.
    pub(super) fn give_up_all(&self) -> Vec<(Owner, Vec<LeaseReport>)> {
        let (mut gone, mut all) = (Gone::default(), Vec::new());
        for mut part in self.parts.iter() {
            part.has_ended = true;
            while let Some((_, mut holding)) = part.held.pop_lru() {
                if let Some(owner) = holding.owner() {
                    all.push((owner, holding.give_up(&mut gone)));
                }
            }
        }
        self.count(gone);
        all
    }

    pub(super) fn stats(&self) -> LeaseStats {
        let Counts { decided, asked, granted, spent, returned, expired } = &self.counts;
        let [decided, asked, granted, spent, returned, expired] =
            [decided, asked, granted, spent, returned, expired].map(|count| count.load(Relaxed));
        LeaseStats { decided, asked, granted, spent, returned, expired }
    }

    fn count(&self, gone: Gone) {
        let Gone { spent, returned, expired } = gone;
        let counts = &self.counts;
        for (count, more) in
            [(&counts.spent, spent), (&counts.returned, returned), (&counts.expired, expired)]
        {
            if more > 0 {
                count.fetch_add(more, Relaxed);
            }
        }
    }
}
