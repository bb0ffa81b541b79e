//! The results: counts over time, and the keys and the minute with the most denials.

use std::collections::HashMap;

use sluicegate_core::{Decision, Span, Timestamp};

use crate::timeline::Timeline;

/// The counts of one limit: as a whole, and of each of its policies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LimitTally {
    pub(crate) whole: Tally,
    pub(crate) policies: Vec<Tally>,
    /// Requests denied because their cost or debt is beyond what the policies' states can hold.
    pub(crate) beyond: u64,
}

/// The refusals of a policy, or of a limit as a whole.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    /// Requests refused.
    pub(crate) denied: u64,
    /// Keys of which a request was refused.
    pub(crate) keys_denied: u64,
    /// The keys with the most refusals, the most refused first.
    pub(crate) denied_most: Vec<DeniedKey>,
    /// Refusals in each bucket of the timeline.
    pub(crate) denied_in: Vec<u64>,
    /// Refusals by minute since the epoch.
    minutes: HashMap<u64, u64>,
}

/// A key and its refusals.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DeniedKey {
    pub(crate) key: u32,
    pub(crate) requests: u64,
    pub(crate) denied: u64,
}

/// The refusals of one key, under one limit.
#[derive(Clone, Debug)]
pub(crate) struct KeyTally {
    timeline: Timeline,
    whole: Refusals,
    policies: Vec<Refusals>,
    beyond: u64,
}

/// The refusals of one key, in order of time.
#[derive(Clone, Debug, Default)]
struct Refusals {
    /// The minutes since the epoch that have some, each with how many.
    minutes: Vec<(u64, u64)>,
    /// The buckets of the timeline that have some, each with how many.
    buckets: Vec<(usize, u64)>,
    /// When the last of `buckets` ends, in µs since the epoch.
    bucket_ends: u64,
}

impl LimitTally {
    pub(crate) fn new(policies: usize, timeline: Timeline) -> Self {
        let tally = Tally { denied_in: vec![0; timeline.count()], ..Tally::default() };
        Self { whole: tally.clone(), policies: vec![tally; policies], beyond: 0 }
    }

    /// Adds what came of the requests of a key. The order of keys makes no difference.
    pub(crate) fn add(&mut self, key: u32, requests: u64, of_key: &KeyTally) {
        self.whole.add(key, requests, &of_key.whole);
        for (policy, refusals) in self.policies.iter_mut().zip(&of_key.policies) {
            policy.add(key, requests, refusals);
        }
        self.beyond += of_key.beyond;
    }

    /// Adds the counts of other keys.
    pub(crate) fn merge(&mut self, other: Self) {
        self.whole.merge(other.whole);
        for (policy, other) in self.policies.iter_mut().zip(other.policies) {
            policy.merge(other);
        }
        self.beyond += other.beyond;
    }
}

impl Tally {
    /// How many keys are remembered one by one.
    const MOST: usize = 10;

    /// The minute with the most refusals, the first of equals, and how many there were.
    pub(crate) fn worst_minute(&self) -> Option<(Timestamp, u64)> {
        let worst =
            self.minutes.iter().max_by_key(|&(&minute, &denied)| (denied, u64::MAX - minute));
        worst.map(|(minute, denied)| {
            (Timestamp::from_micros_clamped(minute * Span::MINUTE.as_micros()), *denied)
        })
    }

    fn add(&mut self, key: u32, requests: u64, refusals: &Refusals) {
        if refusals.minutes.is_empty() {
            return;
        }
        let mut denied = 0;
        for (minute, count) in &refusals.minutes {
            denied += count;
            *self.minutes.entry(*minute).or_default() += count;
        }
        for &(bucket, count) in &refusals.buckets {
            self.denied_in[bucket] += count;
        }
        self.denied += denied;
        self.keys_denied += 1;
        self.rank(DeniedKey { key, requests, denied });
    }

    fn merge(&mut self, other: Self) {
        self.denied += other.denied;
        self.keys_denied += other.keys_denied;
        other.denied_most.into_iter().for_each(|key| self.rank(key));
        for (minute, count) in other.minutes {
            *self.minutes.entry(minute).or_default() += count;
        }
        for (denied, other) in self.denied_in.iter_mut().zip(other.denied_in) {
            *denied += other;
        }
    }

    fn rank(&mut self, new: DeniedKey) {
        // Of keys refused equally often, the one that appeared first in the file comes first.
        let place = self
            .denied_most
            .partition_point(|other| (other.denied, new.key) > (new.denied, other.key));
        if place < Self::MOST {
            self.denied_most.truncate(Self::MOST - 1);
            self.denied_most.insert(place, new);
        }
    }
}

impl KeyTally {
    pub(crate) fn new(policies: usize, timeline: Timeline) -> Self {
        Self {
            timeline,
            whole: Refusals::default(),
            policies: vec![Refusals::default(); policies],
            beyond: 0,
        }
    }

    /// Starts anew for another key.
    pub(crate) fn clear(&mut self) {
        self.whole.clear();
        self.policies.iter_mut().for_each(Refusals::clear);
        self.beyond = 0;
    }

    pub(crate) fn add(&mut self, decision: &Decision, at: Timestamp) {
        if decision.is_denied() {
            self.whole.add(at, &self.timeline);
        }
        for (refusals, outcome) in self.policies.iter_mut().zip(decision.policies()) {
            if !outcome.is_admitted() {
                refusals.add(at, &self.timeline);
            }
        }
    }

    /// Adds a request that no state can hold.
    pub(crate) fn add_beyond(&mut self, at: Timestamp) {
        self.beyond += 1;
        self.whole.add(at, &self.timeline);
        // Of several policies it isn't known whose state it is.
        if let [policy] = &mut self.policies[..] {
            policy.add(at, &self.timeline);
        }
    }
}

impl Refusals {
    fn add(&mut self, at: Timestamp, timeline: &Timeline) {
        let at = at.as_micros();
        let minute = at / Span::MINUTE.as_micros();
        match self.minutes.last_mut() {
            Some((last, count)) if *last == minute => *count += 1,
            _ => self.minutes.push((minute, 1)),
        }
        match self.buckets.last_mut() {
            Some((_, count)) if at < self.bucket_ends => *count += 1,
            _ => {
                let bucket = timeline.bucket(at);
                self.buckets.push((bucket, 1));
                self.bucket_ends = timeline.end_of(bucket);
            }
        }
    }

    fn clear(&mut self) {
        self.minutes.clear();
        self.buckets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten minutes in buckets of 5 seconds.
    fn timeline() -> Timeline {
        Timeline::new([0, 599_000_000].into_iter())
    }

    fn no_refusals() -> Tally {
        LimitTally::new(0, timeline()).whole
    }

    fn refused_at(minutes: &[u64]) -> Refusals {
        let mut refusals = Refusals::default();
        for minute in minutes {
            let at = Timestamp::from_micros(minute * 60_000_000 + 1).unwrap();
            refusals.add(at, &timeline());
        }
        refusals
    }

    #[test]
    fn the_keys_refused_most_are_the_same_in_any_order() {
        let counts = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9];
        let tally = |order: &mut dyn Iterator<Item = usize>| {
            let mut tally = no_refusals();
            for key in order {
                let refusals = refused_at(&vec![7; counts[key]]);
                tally.add(u32::try_from(key).unwrap(), 10, &refusals);
            }
            tally
        };
        let forwards = tally(&mut (0..counts.len()));
        let backwards = tally(&mut (0..counts.len()).rev());
        assert_eq!(forwards, backwards);
        let mut in_parts = tally(&mut (0..6));
        in_parts.merge(tally(&mut (6..counts.len())));
        assert_eq!(forwards, in_parts);
        let keys: Vec<_> =
            forwards.denied_most.iter().map(|most| (most.key, most.denied)).collect();
        assert_eq!(
            keys,
            [(5, 9), (12, 9), (14, 9), (11, 8), (13, 7), (7, 6), (4, 5), (8, 5), (10, 5), (2, 4)]
        );
        assert_eq!(forwards.denied, counts.iter().sum::<usize>() as u64);
        assert_eq!(forwards.keys_denied, 15);
    }

    #[test]
    fn the_worst_minute_is_counted_over_all_keys() {
        let mut tally = no_refusals();
        tally.add(0, 5, &refused_at(&[1, 1, 2, 2, 9]));
        tally.add(1, 5, &refused_at(&[]));
        tally.add(2, 5, &refused_at(&[2, 3, 3, 3]));
        assert_eq!(
            tally.worst_minute().map(|(at, denied)| (at.as_micros(), denied)),
            Some((120_000_000, 3))
        );
        assert_eq!((tally.keys_denied, tally.denied), (2, 9));
        assert_eq!(no_refusals().worst_minute(), None);
    }

    #[test]
    fn refusals_are_counted_over_time() {
        let mut tally = no_refusals();
        tally.add(0, 5, &refused_at(&[1, 1, 2, 9]));
        let mut other = no_refusals();
        other.add(1, 5, &refused_at(&[0, 2]));
        tally.merge(other);
        let found: Vec<_> =
            tally.denied_in.iter().enumerate().filter(|(_, denied)| **denied > 0).collect();
        assert_eq!(found, [(0, &1), (12, &2), (24, &2), (108, &1)]);
    }
}
