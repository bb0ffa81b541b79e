//! The decisions of a simulation, by limit.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use sluicegate_replay::{PastDecision, Recording};

use super::Bounds;
use super::origin::From;

/// The decisions of a simulation, by limit.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(super) from: From,
    pub(super) recordings: HashMap<String, Recording>,
    /// Number of decisions.
    pub(super) decisions: u64,
    /// Number of decisions that are missing.
    pub(super) left_out: u64,
    /// The smallest share of allowed decisions in millionths, if some are missing.
    pub(super) sample: Option<u32>,
    /// Beginning of the time that the decisions cover, in µs since the epoch.
    pub(super) first: u64,
    /// End of that time.
    pub(super) now: u64,
    wanted: BTreeSet<String>,
    /// Hashes of the keys.
    keys: HashSet<u64>,
    hasher: RandomState,
    is_scaled: bool,
    bounds: Bounds,
}

impl Gathered {
    pub(super) fn new(
        from: From,
        wanted: BTreeSet<String>,
        is_scaled: bool,
        (first, now): (u64, u64),
        bounds: Bounds,
    ) -> Self {
        Self {
            from,
            recordings: HashMap::new(),
            decisions: 0,
            left_out: 0,
            sample: None,
            first,
            now,
            wanted,
            keys: HashSet::new(),
            hasher: RandomState::new(),
            is_scaled,
            bounds,
        }
    }

    /// Adds a decision of a limit, if that is simulated.
    pub(super) fn add(&mut self, limit: &str, decision: &PastDecision<'_>) {
        const WHOLE: u32 = 1_000_000;
        if !self.wanted.contains(limit) {
            return;
        }
        if decision.sample < WHOLE {
            let smallest = self.sample.map_or(decision.sample, |it| it.min(decision.sample));
            self.sample = Some(smallest);
        }
        let key = self.hasher.hash_one((limit, decision.key));
        let is_full = self.keys.len() >= self.bounds.keys && !self.keys.contains(&key);
        if self.decisions >= self.bounds.decisions || is_full {
            self.left_out += 1;
            return;
        }
        self.keys.insert(key);
        self.decisions += 1;
        if !self.recordings.contains_key(limit) {
            self.recordings.insert(limit.to_owned(), Recording::of_decisions(limit));
        }
        let Some(recording) = self.recordings.get_mut(limit) else { return };
        let is_estimated = self.is_scaled && !decision.was_denied && decision.sample < WHOLE;
        let sample = if is_estimated { decision.sample } else { 0 };
        if recording.add_decision(&PastDecision { sample, ..*decision }).is_err() {
            self.decisions -= 1;
            self.left_out += 1;
        }
    }
}
