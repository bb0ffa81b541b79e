//! The period of a recording, in equal buckets of a round length.

use sluicegate_core::Span;

/// Buckets that cover a recording, from its first request to its last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Timeline {
    /// Start of the first bucket, in µs since the epoch.
    start: u64,
    /// Length of each bucket in µs; at least 1.
    length: u64,
    /// Number of buckets; 0 if there are no requests.
    count: usize,
}

/// The times of a recording, in µs since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Unit of the times in µs: a second, a millisecond or a microsecond.
    finest: u64,
}

/// Maximum number of buckets: as many as a narrow screen can show.
const MOST: u64 = 120;

const SECOND: u64 = Span::SECOND.as_micros();
const MINUTE: u64 = Span::MINUTE.as_micros();
const HOUR: u64 = Span::HOUR.as_micros();
const DAY: u64 = Span::DAY.as_micros();

/// Round lengths of time in µs, from a second to two weeks.
pub(crate) const ROUND_TIMES: [u64; 21] = [
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
];

/// Longest bucket, in µs. At most 120 of them cover every time that can be represented.
const LONGEST: u64 = 1_820 * DAY;

/// Returns the possible lengths of a bucket, in µs.
fn lengths() -> impl Iterator<Item = u64> {
    let below = [1, 10, 100, 1_000, 10_000, 100_000];
    let below = below.into_iter().flat_map(|unit| [unit, 2 * unit, 5 * unit]);
    let above = [28 * DAY, 91 * DAY, 182 * DAY, 364 * DAY, 728 * DAY, LONGEST];
    below.chain(ROUND_TIMES).chain(above)
}

impl Period {
    /// Returns a period with one time, in µs since the epoch.
    pub(crate) const fn new(time: u64) -> Self {
        Self { first: time, last: time, finest: SECOND }
    }

    /// Adds a time, in µs since the epoch.
    pub(crate) fn extend(&mut self, time: u64) {
        self.first = self.first.min(time);
        self.last = self.last.max(time);
        while !time.is_multiple_of(self.finest) {
            self.finest /= 1_000;
        }
    }
}

impl Timeline {
    /// Returns the shortest buckets that cover a period in at most 120 buckets.
    ///
    /// Buckets are never shorter than the unit of the times (second, ms or µs). They start at whole
    /// multiples of their length; buckets longer than a day start at the beginning of a day.
    pub(crate) fn new(period: Option<Period>) -> Self {
        let Some(Period { first, last, finest }) = period else {
            return Self { start: 0, length: SECOND, count: 0 };
        };
        let covering = |length: u64| {
            let start = first - first % length.min(DAY);
            (start, (last - start) / length + 1)
        };
        let length = lengths()
            .find(|&length| length >= finest && covering(length).1 <= MOST)
            .unwrap_or(LONGEST);
        let (start, count) = covering(length);
        Self { start, length, count: usize::try_from(count).unwrap_or(0) }
    }

    /// Returns the shortest buckets of at least a second that cover a window in at most 60 buckets.
    pub(crate) fn of_window(from: u64, to: u64) -> Self {
        const FEW: u64 = 60;
        let (first, last) = (from, to.max(from));
        let covering = |length: u64| (last - first) / length + 1;
        let fits = |length: &u64| *length >= SECOND && covering(*length) <= FEW;
        let length = lengths().find(fits).unwrap_or(LONGEST);
        Self { start: first, length, count: usize::try_from(covering(length)).unwrap_or(0) }
    }

    /// Returns the start of the first bucket, in µs since the epoch.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// Returns the length of each bucket in µs; at least 1.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of buckets.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the index of the bucket that contains a time, or of the nearest bucket.
    pub(crate) fn bucket(&self, time: u64) -> usize {
        let number = time.saturating_sub(self.start) / self.length;
        usize::try_from(number).unwrap_or(usize::MAX).min(self.count.saturating_sub(1))
    }

    /// Returns the end of a bucket, in µs since the epoch.
    pub(crate) const fn end_of(&self, bucket: usize) -> u64 {
        self.start.saturating_add((bucket as u64 + 1).saturating_mul(self.length))
    }

    /// Adds a time to the counts of the buckets.
    pub(crate) fn count_in(&self, counts: &mut [u64], time: u64) {
        if let Some(count) = counts.get_mut(self.bucket(time)) {
            *count += 1;
        }
    }
}

#[cfg(test)]
impl Timeline {
    pub(crate) fn of(times: impl IntoIterator<Item = u64>) -> Self {
        let mut period = None;
        for time in times {
            period.get_or_insert_with(|| Period::new(time)).extend(time);
        }
        Self::new(period)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_core::MAX_EXACT;

    use super::*;

    fn of(times: &[u64]) -> (u64, u64, usize) {
        let line = Timeline::of(times.iter().copied());
        (line.start, line.length, line.count)
    }

    #[test]
    fn a_period_is_cut_at_round_times() {
        // 17 May 2015, 10:05:00 to 20 May, 21:05:59: hours.
        let (first, last) = (1_431_857_100 * SECOND, 1_432_155_959 * SECOND);
        assert_eq!(of(&[last, first]), (1_431_856_800 * SECOND, HOUR, 84));
        // Ten years from a noon on: quarters of a year from that day on.
        let noon = 16_000 * DAY + 12 * HOUR;
        assert_eq!(of(&[noon, noon + 3_652 * DAY]), (16_000 * DAY, 91 * DAY, 41));
    }

    #[test]
    fn buckets_are_no_finer_than_the_times() {
        assert_eq!(of(&[]), (0, SECOND, 0));
        assert_eq!(of(&[7 * SECOND]), (7 * SECOND, SECOND, 1));
        assert_eq!(of(&[7 * SECOND, 9 * SECOND]), (7 * SECOND, SECOND, 3));
        assert_eq!(of(&[7 * SECOND, 7_002_000]), (7 * SECOND, 1_000, 3));
        assert_eq!(of(&[7 * SECOND, 7_000_001]), (7 * SECOND, 1, 2));
    }

    proptest! {
        #[test]
        fn every_time_lies_in_its_bucket(
            first in 0..=MAX_EXACT,
            spans in prop::collection::vec((0..=53_u32).prop_flat_map(|bits| 0..=1_u64 << bits), 0..20),
        ) {
            let times = || spans.iter().map(|span| (first + span).min(MAX_EXACT)).chain([first]);
            let line = Timeline::of(times());
            prop_assert!((1..=120).contains(&line.count()));
            for time in times() {
                let bucket = line.bucket(time);
                prop_assert!(time < line.end_of(bucket));
                prop_assert!(time >= line.end_of(bucket) - line.length());
                prop_assert!(bucket < line.count());
            }
            let mut counts = vec![0; line.count()];
            times().for_each(|time| line.count_in(&mut counts, time));
            prop_assert_eq!(counts.iter().sum::<u64>(), spans.len() as u64 + 1);
            prop_assert!(counts[0] > 0 && counts[line.count() - 1] > 0);
        }
    }
}
