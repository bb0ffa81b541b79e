//! Durations counted in buckets, for a metrics page and for quantiles.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of buckets.
const BUCKETS: usize = BOUNDS.len() + 1;

/// The upper bounds of all buckets but the last, in ns.
const BOUNDS: [u64; 21] = [
    10 * MICRO,
    25 * MICRO,
    50 * MICRO,
    100 * MICRO,
    250 * MICRO,
    500 * MICRO,
    MILLI,
    2_500 * MICRO,
    5 * MILLI,
    10 * MILLI,
    25 * MILLI,
    50 * MILLI,
    100 * MILLI,
    250 * MILLI,
    500 * MILLI,
    1_000 * MILLI,
    2_500 * MILLI,
    5_000 * MILLI,
    10_000 * MILLI,
    30_000 * MILLI,
    60_000 * MILLI,
];
const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000 * MICRO;

/// Counts durations in fixed buckets, from 10 µs to 60 s and above.
///
/// Counting takes two atomic additions and no lock, so threads can share a histogram.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::Histogram;
///
/// let histogram = Histogram::new();
/// for micros in 1..=1_000 {
///     histogram.observe(Duration::from_micros(micros));
/// }
/// let counts = histogram.counts();
/// assert_eq!(counts.total(), 1_000);
/// let median = counts.quantile(500).expect("something was counted");
/// assert!(Duration::from_micros(450) < median && median < Duration::from_micros(550));
/// ```
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    nanos: AtomicU64,
}

/// The counts of a [`Histogram`] at one time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct HistogramCounts {
    buckets: [u64; BUCKETS],
    nanos: u64,
}

impl Histogram {
    /// Makes a histogram that has counted nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], nanos: AtomicU64::new(0) }
    }

    /// Counts a duration, and returns the index of its bucket in [`HistogramCounts::buckets`].
    #[inline]
    pub fn observe(&self, took: Duration) -> usize {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_of(nanos);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        bucket
    }

    /// Returns the counts up to now. Durations that are counted meanwhile may be missing in the sum.
    #[must_use]
    pub fn counts(&self) -> HistogramCounts {
        HistogramCounts {
            buckets: array::from_fn(|bucket| self.buckets[bucket].load(Ordering::Relaxed)),
            nanos: self.nanos.load(Ordering::Relaxed),
        }
    }
}

impl HistogramCounts {
    /// Returns the number of counted durations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// Returns the sum of the counted durations.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Returns the upper bound of each bucket, and the number of durations in it. The last bucket has no bound.
    #[must_use]
    pub fn buckets(&self) -> impl ExactSizeIterator<Item = (Option<Duration>, u64)> {
        self.buckets.iter().enumerate().map(|(bucket, count)| {
            (BOUNDS.get(bucket).map(|nanos| Duration::from_nanos(*nanos)), *count)
        })
    }

    /// Returns the durations that were counted after `earlier`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_core::Histogram;
    ///
    /// let histogram = Histogram::new();
    /// histogram.observe(Duration::from_secs(9));
    /// let earlier = histogram.counts();
    /// histogram.observe(Duration::from_micros(80));
    /// let since = histogram.counts().since(&earlier);
    /// assert_eq!((since.total(), since.sum()), (1, Duration::from_micros(80)));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            buckets: array::from_fn(|bucket| {
                self.buckets[bucket].saturating_sub(earlier.buckets[bucket])
            }),
            nanos: self.nanos.wrapping_sub(earlier.nanos),
        }
    }

    /// Returns the counts of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            buckets: array::from_fn(|bucket| {
                self.buckets[bucket].saturating_add(other.buckets[bucket])
            }),
            nanos: self.nanos.wrapping_add(other.nanos),
        }
    }

    /// Estimates the duration that `per_mille` thousandths of the counted ones don't exceed: 500 is the median, 990 the
    /// 99th percentile.
    ///
    /// The true duration is in the same bucket, whose bounds differ by a factor of at most 3. The estimate assumes that
    /// durations are spread evenly in a bucket. Above the last bound, 60 s, it is that bound. Returns `None` if nothing
    /// was counted.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sluicegate_core::Histogram;
    ///
    /// let histogram = Histogram::new();
    /// assert_eq!(histogram.counts().quantile(990), None);
    /// for _ in 0..100 {
    ///     histogram.observe(Duration::from_micros(30));
    /// }
    /// assert_eq!(histogram.counts().quantile(1_000), Some(Duration::from_micros(50)));
    /// ```
    #[must_use]
    pub fn quantile(&self, per_mille: u16) -> Option<Duration> {
        let total = u128::from(self.total());
        // The rank of the duration, in thousandths.
        let rank = (total * u128::from(per_mille.min(1_000))).max(1);
        let mut below = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            let count = u128::from(*count) * 1_000;
            if count > 0 && below + count >= rank {
                let lower = bucket.checked_sub(1).map_or(0, |before| BOUNDS[before]);
                let upper = BOUNDS.get(bucket).copied().unwrap_or(lower);
                let part = u128::from(upper - lower) * (rank - below) / count;
                let part = u64::try_from(part).unwrap_or(upper - lower);
                return Some(Duration::from_nanos(lower + part));
            }
            below += count;
        }
        None
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the bucket of a duration, whose bound is the first that isn't below it.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    BOUNDS.partition_point(|bound| *bound < nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_bucket_whose_bound_is_the_first_that_is_not_below_it() {
        for (nanos, bucket) in [
            (0, 0),
            (10_000, 0),
            (10_001, 1),
            (MILLI, 6),
            (60_000 * MILLI, 20),
            (60_000 * MILLI + 1, 21),
            (u64::MAX, 21),
        ] {
            assert_eq!(Histogram::new().observe(Duration::from_nanos(nanos)), bucket, "{nanos}");
        }
        assert!(BOUNDS.is_sorted_by(|one, next| 2 * one <= *next && *next <= 3 * one));
    }

    #[test]
    fn a_quantile_is_in_the_bucket_of_the_true_one() {
        let histogram = Histogram::new();
        let micros = |index: u64| 1 + index * index * 7 % 90_000;
        let mut all: Vec<u64> = (0..10_000).map(micros).collect();
        for micros in &all {
            histogram.observe(Duration::from_micros(*micros));
        }
        all.sort_unstable();
        let counts = histogram.counts();
        for per_mille in [1_u16, 10, 250, 500, 900, 990, 999, 1_000] {
            let index = (usize::from(per_mille) * all.len()).div_ceil(1_000) - 1;
            let estimate = counts.quantile(per_mille).unwrap().as_nanos();
            let estimate = bucket_of(u64::try_from(estimate).unwrap());
            assert_eq!(estimate, bucket_of(all[index] * 1_000), "{per_mille}");
        }
    }

    #[test]
    fn the_longest_durations_are_estimated_as_the_last_bound() {
        let histogram = Histogram::new();
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.counts().quantile(500), Some(Duration::from_secs(60)));
        assert_eq!(histogram.counts().quantile(0), Some(Duration::from_secs(60)));
        assert_eq!(histogram.counts().total(), 1);
    }

    #[test]
    fn threads_lose_no_count() {
        let histogram = Histogram::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        histogram.observe(Duration::from_nanos(3));
                    }
                });
            }
        });
        let counts = histogram.counts();
        assert_eq!((counts.total(), counts.sum()), (4_000, Duration::from_nanos(12_000)));
        let twice = counts.plus(&counts);
        assert_eq!((twice.total(), twice.since(&counts)), (8_000, counts));
    }
}
