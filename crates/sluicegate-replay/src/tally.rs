//! The results: counts over time, and the keys and the minute with the most denials.

use std::collections::HashMap;

use sluicegate_core::{Decision, RequestError, Span, Timestamp};

use crate::comparison::{KeyComparison, LimitComparison};
use crate::plan::Plan;
use crate::requests::Arrival;
use crate::timeline::Timeline;

/// The counts of one limit: as a whole, and for each of its policies.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct LimitTally {
    pub(crate) whole: Tally,
    pub(crate) policies: Vec<Tally>,
    pub(crate) errors: Errors,
    pub(crate) comparison: LimitComparison,
}

/// Requests without a decision: no state can hold their cost, or the debt that it would cause.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Errors {
    pub(crate) count: u64,
    /// Errors in each bucket of the timeline.
    pub(crate) errors_in: Vec<u64>,
    /// Error of the lowest key number, so that the order of keys doesn't matter.
    pub(crate) first: Option<(u32, String)>,
}

/// The refusals of a policy, or of a limit as a whole.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    /// Number of refused requests.
    pub(crate) denied: u64,
    /// Number of keys with a refused request.
    pub(crate) keys_denied: u64,
    /// Keys with the most refusals, in descending order.
    pub(crate) denied_most: Vec<DeniedKey>,
    /// Maximum length of `denied_most`.
    top: usize,
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
    pub(crate) errors: u64,
    pub(crate) denied: u64,
    pub(crate) worst_minute: WorstMinute,
}

/// The minute with the most refusals; the first one if several have as many.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct WorstMinute {
    pub(crate) at: Timestamp,
    pub(crate) denied: u64,
}

/// The refusals of one key, under one limit.
#[derive(Clone, Debug)]
pub(crate) struct KeyTally {
    timeline: Timeline,
    whole: Refusals,
    policies: Vec<Refusals>,
    errors: Refusals,
    first_error: Option<String>,
    comparison: KeyComparison,
}

/// The refusals of one key, in order of time.
#[derive(Clone, Debug, Default)]
struct Refusals {
    /// Minutes since the epoch with refusals, each with their number.
    minutes: Vec<(u64, u64)>,
    /// Buckets of the timeline with refusals, each with their number.
    buckets: Vec<(usize, u64)>,
    /// End of the last of `buckets`, in µs since the epoch.
    bucket_ends: u64,
}

impl LimitTally {
    /// Returns a tally that lists the keys with the most refusals, as many as the plan says.
    pub(crate) fn new(policies: usize, plan: &Plan, timeline: Timeline) -> Self {
        let comparison = LimitComparison::new(plan.compared, &timeline);
        let top = plan.top;
        let tally = Tally { denied_in: vec![0; timeline.count()], top, ..Tally::default() };
        let errors = Errors { errors_in: vec![0; timeline.count()], ..Errors::default() };
        Self { whole: tally.clone(), policies: vec![tally; policies], errors, comparison }
    }

    /// Adds the results of a key. The order of keys doesn't matter.
    pub(crate) fn add(&mut self, key: u32, requests: u64, of_key: &KeyTally) {
        self.comparison.add(key, &of_key.comparison);
        let errors = self.errors.add(key, of_key);
        self.whole.add(key, requests, errors, &of_key.whole);
        for (policy, refusals) in self.policies.iter_mut().zip(&of_key.policies) {
            policy.add(key, requests, errors, refusals);
        }
    }

    /// Returns the numbers of the keys listed under the limit or one of its policies.
    pub(crate) fn listed(&self) -> impl Iterator<Item = u32> {
        let tallies = self.policies.iter().chain([&self.whole]);
        tallies.flat_map(|tally| tally.denied_most.iter().map(|most| most.key))
    }

    /// Adds the counts of other keys.
    pub(crate) fn merge(&mut self, other: Self) {
        self.whole.merge(other.whole);
        for (policy, other) in self.policies.iter_mut().zip(other.policies) {
            policy.merge(other);
        }
        self.errors.merge(other.errors);
        self.comparison.merge(other.comparison);
    }

    /// Counts requests that weren't played.
    pub(crate) const fn skip(&mut self, requests: u64) {
        self.comparison.skipped += requests;
    }
}

impl Errors {
    /// Adds the errors of a key and returns their number.
    fn add(&mut self, key: u32, of_key: &KeyTally) -> u64 {
        let Some(first) = &of_key.first_error else { return 0 };
        if self.first.as_ref().is_none_or(|(earlier, _)| key < *earlier) {
            self.first = Some((key, first.clone()));
        }
        let count = of_key.errors.add_to(&mut self.errors_in);
        self.count += count;
        count
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        add_each(&mut self.errors_in, &other.errors_in);
        self.first = self.first.take().into_iter().chain(other.first).min();
    }
}

impl Tally {
    /// Returns the minute with the most refusals; the first one if several have as many.
    pub(crate) fn worst_minute(&self) -> Option<WorstMinute> {
        worst_minute(self.minutes.iter().map(|(&minute, &denied)| (minute, denied)))
    }

    fn add(&mut self, key: u32, requests: u64, errors: u64, refusals: &Refusals) {
        let Some(worst_minute) = worst_minute(refusals.minutes.iter().copied()) else { return };
        for (minute, count) in &refusals.minutes {
            *self.minutes.entry(*minute).or_default() += count;
        }
        let denied = refusals.add_to(&mut self.denied_in);
        self.denied += denied;
        self.keys_denied += 1;
        self.rank(DeniedKey { key, requests, errors, denied, worst_minute });
    }

    fn merge(&mut self, other: Self) {
        self.denied += other.denied;
        self.keys_denied += other.keys_denied;
        other.denied_most.into_iter().for_each(|key| self.rank(key));
        for (minute, count) in other.minutes {
            *self.minutes.entry(minute).or_default() += count;
        }
        add_each(&mut self.denied_in, &other.denied_in);
    }

    fn rank(&mut self, new: DeniedKey) {
        // Among keys refused equally often, the first one in the file comes first.
        let place = self
            .denied_most
            .partition_point(|other| (other.denied, new.key) > (new.denied, other.key));
        if place < self.top {
            self.denied_most.truncate(self.top - 1);
            self.denied_most.insert(place, new);
        }
    }
}

fn add_each(counts: &mut [u64], others: &[u64]) {
    for (count, other) in counts.iter_mut().zip(others) {
        *count += other;
    }
}

fn worst_minute(minutes: impl Iterator<Item = (u64, u64)>) -> Option<WorstMinute> {
    let (minute, denied) = minutes.max_by_key(|&(minute, denied)| (denied, u64::MAX - minute))?;
    let at = Timestamp::from_micros_clamped(minute * Span::MINUTE.as_micros());
    Some(WorstMinute { at, denied })
}

impl KeyTally {
    pub(crate) fn new(policies: usize, timeline: Timeline) -> Self {
        Self {
            timeline,
            whole: Refusals::default(),
            policies: vec![Refusals::default(); policies],
            errors: Refusals::default(),
            first_error: None,
            comparison: KeyComparison::default(),
        }
    }

    /// Clears the tally for another key.
    pub(crate) fn clear(&mut self) {
        self.whole.clear();
        self.policies.iter_mut().for_each(Refusals::clear);
        self.errors.clear();
        self.first_error = None;
        self.comparison.clear();
    }

    pub(crate) fn add(&mut self, decision: &Decision, arrival: &Arrival) {
        let at = arrival.at;
        self.comparison.add(Some(decision.is_denied()), arrival, &self.timeline);
        if decision.is_denied() {
            self.whole.add(at, &self.timeline);
        }
        for (refusals, outcome) in self.policies.iter_mut().zip(decision.policies()) {
            if !outcome.is_admitted() {
                refusals.add(at, &self.timeline);
            }
        }
    }

    /// Adds a request of a key on a list, which no policy counts.
    pub(crate) fn add_listed(&mut self, is_denied: bool, arrival: &Arrival) {
        self.comparison.add(Some(is_denied), arrival, &self.timeline);
        if is_denied {
            self.whole.add(arrival.at, &self.timeline);
        }
    }

    /// Adds a request whose cost no state can hold.
    pub(crate) fn add_error(&mut self, error: &RequestError, arrival: &Arrival) {
        self.comparison.add(None, arrival, &self.timeline);
        self.errors.add(arrival.at, &self.timeline);
        self.first_error.get_or_insert_with(|| error.to_string());
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

    /// Adds the counts to those of each bucket and returns their sum.
    fn add_to(&self, counts: &mut [u64]) -> u64 {
        for &(bucket, count) in &self.buckets {
            counts[bucket] += count;
        }
        self.buckets.iter().map(|(_, count)| count).sum()
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
        Timeline::of([0, 599_000_000])
    }

    fn no_refusals() -> Tally {
        LimitTally::new(0, &Plan::side_by_side([]), timeline()).whole
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
                tally.add(u32::try_from(key).unwrap(), 10, 0, &refusals);
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
        tally.add(0, 5, 0, &refused_at(&[1, 1, 2, 2, 9]));
        tally.add(1, 5, 0, &refused_at(&[]));
        tally.add(2, 5, 0, &refused_at(&[2, 3, 3, 3]));
        assert_eq!(
            tally.worst_minute().map(|worst| (worst.at.as_micros(), worst.denied)),
            Some((120_000_000, 3))
        );
        assert_eq!((tally.keys_denied, tally.denied), (2, 9));
        assert_eq!(no_refusals().worst_minute(), None);
    }

    #[test]
    fn refusals_are_counted_over_time() {
        let mut tally = no_refusals();
        tally.add(0, 5, 0, &refused_at(&[1, 1, 2, 9]));
        let mut other = no_refusals();
        other.add(1, 5, 0, &refused_at(&[0, 2]));
        tally.merge(other);
        let found: Vec<_> =
            tally.denied_in.iter().enumerate().filter(|(_, denied)| **denied > 0).collect();
        assert_eq!(found, [(0, &1), (12, &2), (24, &2), (108, &1)]);
    }
}
