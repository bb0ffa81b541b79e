//! The decisions of a service, compared with those of a plan.

use sluicegate_core::Timestamp;

use crate::counts::Then;
use crate::keys::Keys;
use crate::requests::Arrival;
use crate::timeline::Timeline;

/// The decisions of a limit, compared with those that a service made.
///
/// ```
/// use sluicegate::MemoryStore;
/// use sluicegate_core::Timestamp;
/// use sluicegate_replay::{PastDecision, Plan, Recording};
///
/// let mut recording = Recording::of_decisions("the last minute");
/// for second in 0..3 {
///     let time = Timestamp::from_micros(second * 1_000_000)?;
///     let cost = None;
///     recording.add_decision(&PastDecision { time, key: b"alice", cost, is_take: false, was_denied: false, sample: 0 })?;
/// }
/// let recording = recording.finish()?;
/// let plan = Plan::together(sluicegate::Limit::new("login", ["fixed_window 2/h"])?).compared(10);
/// let report = plan.play_now(&MemoryStore::new(), &recording, &|_| ())?;
/// let comparison = report.comparisons().next().ok_or("there is one for each limit")?;
/// assert_eq!((comparison.requests, comparison.newly_denied), (3, 1));
/// assert_eq!(comparison.keys[0].key, b"alice");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// Number of requests that were decided.
    pub requests: u64,
    /// Number of requests that the plan denies.
    pub denied: u64,
    /// Number of requests without a decision, because no state can hold their cost.
    pub errors: u64,
    /// Number of requests that the service denied.
    pub was_denied: u64,
    /// Number of requests that the service allowed, and the plan denies.
    pub newly_denied: u64,
    /// Number of requests that the service denied, and the plan allows.
    pub newly_allowed: u64,
    /// Number of keys with a request that was decided.
    pub keys_played: u64,
    /// Number of keys with a newly denied request.
    pub keys_newly_denied: u64,
    /// Number of requests that weren't decided, by [`KeyRule::Skip`](crate::KeyRule::Skip).
    pub skipped: u64,
    /// Keys with the most newly denied requests, and then with the most denied ones.
    pub keys: Vec<ComparedKey>,
    /// Length of each bucket of the timeline, in µs.
    pub bucket_us: u64,
    /// Start of the first bucket, in µs since the epoch.
    pub from_us: u64,
    /// Requests that the plan denies, in each bucket.
    pub denied_in: Vec<u64>,
    /// Requests that are newly denied, in each bucket.
    pub newly_denied_in: Vec<u64>,
    /// Requests that the service denied, in each bucket.
    pub was_denied_in: Vec<u64>,
}

/// A key that a plan denies requests of, or that a service did.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ComparedKey {
    /// The key.
    pub key: Vec<u8>,
    /// Number of its requests.
    pub requests: u64,
    /// Number of its requests that the plan denies.
    pub denied: u64,
    /// Number of its requests that the service denied.
    pub was_denied: u64,
    /// Number of its requests that the service allowed, and the plan denies.
    pub newly_denied: u64,
    /// Number of its requests that the service denied, and the plan allows.
    pub newly_allowed: u64,
    /// Time of the first request that the plan denies.
    pub first_denied: Option<Timestamp>,
    /// Time of the last request that the plan denies.
    pub last_denied: Option<Timestamp>,
}

/// The comparison of one key.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Compared {
    requests: u64,
    denied: u64,
    errors: u64,
    was_denied: u64,
    newly_denied: u64,
    newly_allowed: u64,
    first_denied: Option<Timestamp>,
    last_denied: Option<Timestamp>,
}

/// The comparison of one key, with its times.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyComparison {
    sums: Compared,
    /// Buckets with denials, each with the denied, newly denied and formerly denied requests.
    buckets: Vec<(usize, [u64; 3])>,
}

/// The comparison of a limit, while it is played.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct LimitComparison {
    sums: Compared,
    keys_played: u64,
    keys_newly_denied: u64,
    pub(crate) skipped: u64,
    /// Keys in descending order.
    most: Vec<(u32, Compared)>,
    /// Maximum length of `most`.
    top: usize,
    in_buckets: Vec<[u64; 3]>,
}

impl Compared {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.denied += other.denied;
        self.errors += other.errors;
        self.was_denied += other.was_denied;
        self.newly_denied += other.newly_denied;
        self.newly_allowed += other.newly_allowed;
    }
}

impl KeyComparison {
    pub(crate) fn clear(&mut self) {
        self.sums = Compared::default();
        self.buckets.clear();
    }

    /// Adds a request; `is_denied` is `None` for one without a decision.
    pub(crate) fn add(&mut self, is_denied: Option<bool>, arrival: &Arrival, timeline: &Timeline) {
        let Arrival { at, was_denied, .. } = *arrival;
        let denies = is_denied == Some(true);
        let is_new = denies && !was_denied;
        let sums = &mut self.sums;
        sums.requests += 1;
        sums.errors += u64::from(is_denied.is_none());
        sums.denied += u64::from(denies);
        sums.was_denied += u64::from(was_denied);
        sums.newly_denied += u64::from(is_new);
        sums.newly_allowed += u64::from(was_denied && is_denied == Some(false));
        if denies {
            sums.first_denied.get_or_insert(at);
            sums.last_denied = Some(at);
        }
        if !denies && !was_denied {
            return;
        }
        let bucket = timeline.bucket(at.as_micros());
        let counts = match self.buckets.last_mut() {
            Some((last, counts)) if *last == bucket => counts,
            _ => {
                self.buckets.push((bucket, [0; 3]));
                let Some((_, counts)) = self.buckets.last_mut() else { return };
                counts
            }
        };
        for (count, is) in counts.iter_mut().zip([denies, is_new, was_denied]) {
            *count += u64::from(is);
        }
    }
}

impl LimitComparison {
    pub(crate) fn new(top: usize, timeline: &Timeline) -> Self {
        Self { top, in_buckets: vec![[0; 3]; timeline.count()], ..Self::default() }
    }

    /// Adds the comparison of a key. The order of keys doesn't matter.
    pub(crate) fn add(&mut self, key: u32, of_key: &KeyComparison) {
        let sums = of_key.sums;
        self.sums.add(&sums);
        self.keys_played += 1;
        self.keys_newly_denied += u64::from(sums.newly_denied > 0);
        for (bucket, counts) in &of_key.buckets {
            if let Some(sums) = self.in_buckets.get_mut(*bucket) {
                add_each(sums, counts);
            }
        }
        if sums.denied > 0 || sums.was_denied > 0 {
            self.rank(key, sums);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.sums.add(&other.sums);
        self.keys_played += other.keys_played;
        self.keys_newly_denied += other.keys_newly_denied;
        self.skipped += other.skipped;
        for (key, sums) in other.most {
            self.rank(key, sums);
        }
        for (sums, others) in self.in_buckets.iter_mut().zip(&other.in_buckets) {
            add_each(sums, others);
        }
    }

    /// Returns the results, with the keys.
    pub(crate) fn finish(&self, keys: &Keys, timeline: &Timeline) -> Comparison {
        let Compared { requests, denied, errors, was_denied, newly_denied, newly_allowed, .. } =
            self.sums;
        let column = |index: usize| self.in_buckets.iter().map(|counts| counts[index]).collect();
        let of_key = |(key, sums): &(u32, Compared)| ComparedKey {
            key: keys.get(*key).to_vec(),
            requests: sums.requests,
            denied: sums.denied,
            was_denied: sums.was_denied,
            newly_denied: sums.newly_denied,
            newly_allowed: sums.newly_allowed,
            first_denied: sums.first_denied,
            last_denied: sums.last_denied,
        };
        Comparison {
            requests,
            denied,
            errors,
            was_denied,
            newly_denied,
            newly_allowed,
            keys_played: self.keys_played,
            keys_newly_denied: self.keys_newly_denied,
            skipped: self.skipped,
            keys: self.most.iter().map(of_key).collect(),
            bucket_us: timeline.length(),
            from_us: timeline.start(),
            denied_in: column(0),
            newly_denied_in: column(1),
            was_denied_in: column(2),
        }
    }

    /// Returns the sums of a comparison.
    pub(crate) const fn then(&self) -> Then {
        let Compared { was_denied, newly_denied, newly_allowed, .. } = self.sums;
        Then { denied_then: was_denied, newly_denied, newly_allowed }
    }

    fn rank(&mut self, key: u32, sums: Compared) {
        // Among equal keys, the first one of the recording comes first.
        let order = |key: u32, sums: &Compared| {
            (sums.newly_denied, sums.denied, sums.was_denied, u32::MAX - key)
        };
        let new = order(key, &sums);
        let place = self.most.partition_point(|(key, sums)| order(*key, sums) > new);
        if place < self.top {
            self.most.truncate(self.top - 1);
            self.most.insert(place, (key, sums));
        }
    }
}

fn add_each(sums: &mut [u64; 3], others: &[u64; 3]) {
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluicegate::MemoryStore;
    use sluicegate_core::Limit;

    use crate::{Comparison, KeyRule, KeyRules, PastDecision, Plan, Recording};

    /// Requests as `(second, key, was_denied)`.
    fn recording(requests: &[(u64, &[u8], bool)]) -> Recording {
        let mut recording = Recording::of_decisions("test");
        for &(second, key, was_denied) in requests {
            let time = super::Timestamp::from_micros(second * 1_000_000).unwrap();
            let (cost, is_take, sample) = (None, false, 0);
            let decision = PastDecision { time, key, cost, is_take, was_denied, sample };
            recording.add_decision(&decision).unwrap();
        }
        recording.finish().unwrap()
    }

    fn compare(plan: &Plan, recording: &Recording) -> Comparison {
        let report = plan.play_now(&MemoryStore::new(), recording, &|_| ()).unwrap();
        report.comparisons().next().unwrap().clone()
    }

    fn two_an_hour() -> Plan {
        Plan::together(Limit::new("login", ["fixed_window 2/h"]).unwrap()).top(0)
    }

    #[test]
    fn each_request_is_compared_with_its_decision_then() {
        let requests: [(u64, &[u8], bool); 8] = [
            (0, b"a", false),
            (1, b"a", true),
            (2, b"a", false),
            (3, b"a", true),
            (4, b"a", false),
            (5, b"b", false),
            (6, b"\xff", false),
            (7, b"c", true),
        ];
        let found = compare(&two_an_hour().compared(2), &recording(&requests));
        assert_eq!((found.requests, found.denied, found.was_denied), (8, 3, 3));
        assert_eq!((found.newly_denied, found.newly_allowed), (2, 2));
        assert_eq!((found.keys_played, found.keys_newly_denied), (4, 1));
        let keys: Vec<_> = found.keys.iter().map(|key| (&*key.key, key.newly_denied)).collect();
        assert_eq!(keys, [(&b"a"[..], 2), (b"c", 0)]);
        let times = (found.keys[0].first_denied, found.keys[0].last_denied);
        assert_eq!(
            [times.0, times.1].map(|at| at.map(|at| at.as_micros() / 1_000_000)),
            [Some(2), Some(4)]
        );
        assert_eq!(found.newly_denied_in.iter().sum::<u64>(), 2);
        assert_eq!(
            (found.denied_in[4], found.was_denied_in[7], found.bucket_us),
            (1, 1, 1_000_000)
        );
    }

    #[derive(Debug)]
    struct ByFirstByte;

    impl KeyRules for ByFirstByte {
        fn rule(&self, key: &[u8]) -> KeyRule {
            match key[0] {
                b'a' => KeyRule::Allow,
                b'b' => KeyRule::Block,
                b'm' => KeyRule::Limit(Limit::new("login", ["fixed_window 4/h"]).unwrap()),
                b's' => KeyRule::Skip,
                _ => KeyRule::Plan,
            }
        }
    }

    #[test]
    fn keys_have_rules_of_their_own() {
        let keys: [&[u8]; 5] = [b"a", b"b", b"m", b"s", b"x"];
        let requests: Vec<_> =
            (0..5).flat_map(|second| keys.map(|key| (second, key, false))).collect();
        let plan = two_an_hour().compared(10).rules(Arc::new(ByFirstByte));
        let found = compare(&plan, &recording(&requests));
        let mut keys: Vec<_> = found.keys.iter().map(|key| (&*key.key, key.newly_denied)).collect();
        keys.sort_unstable();
        assert_eq!(keys, [(&b"b"[..], 5), (b"m", 1), (b"x", 3)]);
        assert_eq!((found.requests, found.skipped), (20, 5));
    }

    #[test]
    fn a_window_sets_the_timeline() {
        let window = [0, 3_600_000_000].map(|us| super::Timestamp::from_micros(us).unwrap());
        let plan = two_an_hour().compared(1).window(window[0], window[1]);
        let found = compare(&plan, &recording(&[(5, b"a", true), (3_599, b"a", true)]));
        assert!(found.was_denied_in.len() <= 60, "{}", found.was_denied_in.len());
        assert_eq!((found.from_us, found.was_denied_in[0]), (0, 1));
        assert_eq!(found.was_denied_in.iter().sum::<u64>(), 2);
    }
}
