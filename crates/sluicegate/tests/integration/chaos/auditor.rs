//! Checks admitted units against the promise of a limit, in every interval.

/// The promise of a key's limit about the units that it admits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Promise {
    /// In every interval: at most the burst, plus the rate times its length.
    Bucket { per_second: u64, burst: u64 },
    /// In every window, which begin at multiples of their length: at most the limit.
    Window { limit: u64, length_ms: u64 },
}

/// A unit that was admitted at some instant between these two, in µs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Admission {
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
}

impl Promise {
    /// Returns the policy that promises it.
    pub(crate) fn spec(self) -> String {
        match self {
            Self::Bucket { per_second, burst } => {
                format!("token_bucket {per_second}/s burst {burst}")
            }
            Self::Window { limit, length_ms } => {
                format!("fixed_window {limit}/{length_ms}ms aligned")
            }
        }
    }

    /// Returns the units that a fresh key admits immediately.
    pub(crate) const fn at_once(self) -> u64 {
        match self {
            Self::Bucket { burst, .. } => burst,
            Self::Window { limit, .. } => limit,
        }
    }

    /// Returns the excess units of the interval with the largest excess, for any instants of admission between the
    /// known bounds.
    pub(crate) fn excess(self, admissions: &[Admission]) -> u64 {
        let mut by_latest = admissions.to_vec();
        by_latest.sort_unstable_by_key(|it| it.latest);
        match self {
            Self::Bucket { per_second, burst } => {
                let brings = |from: u64, to: u64| i128::from(to - from) * i128::from(per_second);
                units_too_many(&by_latest, burst, brings)
            }
            Self::Window { limit, length_ms } => {
                let window = |at: u64| at / (length_ms * 1_000);
                let surely_in = |it: &&Admission| window(it.earliest) == window(it.latest);
                let (mut most, mut current, mut units) = (0_u64, 0, 0);
                for it in by_latest.iter().filter(surely_in) {
                    if window(it.latest) != current {
                        (current, units) = (window(it.latest), 0);
                    }
                    units += 1;
                    most = most.max(units);
                }
                most.saturating_sub(limit)
            }
        }
    }

    /// Returns the excess of decisions by a store and, during its outages, by the shares of `programs` programs. A
    /// bucket gives twice its burst, and its rate. In addition, each program gets its part of the rate while it is
    /// `away`, in µs.
    pub(crate) fn excess_with_shares(
        self,
        admissions: &[Admission],
        away: &[(u64, u64)],
        programs: u64,
    ) -> u64 {
        let Self::Bucket { per_second, burst } = self else { unreachable!("no window has shares") };
        let mut by_latest = admissions.to_vec();
        by_latest.sort_unstable_by_key(|it| it.latest);
        let brings = |from: u64, to: u64| {
            let within =
                |(start, end): &(u64, u64)| (*end).min(to).saturating_sub(from.max(*start));
            let away: u64 = away.iter().map(within).sum();
            let again = i128::from(per_second) * i128::from(away) / i128::from(programs);
            i128::from(per_second) * i128::from(to - from) + again
        };
        units_too_many(&by_latest, 2 * burst, brings)
    }

    /// Returns whether a bucket that admitted units at these times had less than a unit left at some instant
    /// between two.
    pub(crate) fn is_used_up(self, times: &[u64], from: u64, to: u64) -> bool {
        let Self::Bucket { per_second, burst } = self else {
            unreachable!("only buckets are asked")
        };
        let micros = u64::try_from(MICROS).unwrap();
        let mut times: Vec<_> = times.iter().copied().filter(|at| *at <= to).collect();
        times.sort_unstable();
        // In parts of a unit: a µs drains as many as the rate has units.
        let (mut used, mut newest) = (0_u64, 0_u64);
        let is_full = |used: u64| used + micros > burst * micros;
        let mut was_full = false;
        for at in times {
            if newest <= from && at > from {
                was_full |= is_full(used.saturating_sub((from - newest) * per_second));
            }
            used = used.saturating_sub((at - newest) * per_second) + micros;
            newest = at;
            was_full |= at >= from && is_full(used);
        }
        was_full || (newest <= from && is_full(used.saturating_sub((from - newest) * per_second)))
    }
}

/// Returns the units beyond a burst and the refill of an interval, in the interval with the largest excess. `brings` is
/// the refill in millionths of a unit.
fn units_too_many(by_latest: &[Admission], burst: u64, brings: impl Fn(u64, u64) -> i128) -> u64 {
    let mut starts: Vec<_> = by_latest.iter().map(|it| it.earliest).collect();
    starts.sort_unstable();
    starts.dedup();
    let most = starts.into_iter().map(|start| {
        let inside = by_latest.iter().filter(|it| it.earliest >= start);
        let too_many = inside
            .zip(1_i128..)
            .map(|(last, units)| (units - i128::from(burst)) * MICROS - brings(start, last.latest));
        too_many.max().unwrap_or(0)
    });
    let most = most.max().unwrap_or(0).max(0);
    u64::try_from((most + MICROS - 1) / MICROS).unwrap()
}

/// In a second.
const MICROS: i128 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const BUCKET: Promise = Promise::Bucket { per_second: 10, burst: 5 };
    const WINDOW: Promise = Promise::Window { limit: 5, length_ms: 1_000 };

    fn at(millis: u64) -> Admission {
        Admission { earliest: millis * 1_000, latest: millis * 1_000 }
    }

    #[test]
    fn what_is_promised_is_no_excess_and_one_unit_more_is() {
        let mut kept: Vec<_> = (0..5).map(|_| at(1_000)).collect();
        kept.extend((1..=20).map(|unit| at(1_000 + 100 * unit)));
        assert_eq!(BUCKET.excess(&kept), 0);
        kept.push(at(2_999));
        assert_eq!(BUCKET.excess(&kept), 1);
        kept.extend([at(2_999), at(2_999)]);
        assert_eq!(BUCKET.excess(&kept), 3);
        // A long rest before and after excuses nothing.
        kept.extend([at(0), at(100_000)]);
        assert_eq!(BUCKET.excess(&kept), 3);
    }

    #[test]
    fn a_microsecond_too_early_is_seen() {
        let mut units: Vec<_> = (0..5).map(|_| at(1_000)).collect();
        units.push(at(1_100));
        assert_eq!(BUCKET.excess(&units), 0);
        units[5] = Admission { earliest: 1_099_999, latest: 1_099_999 };
        assert_eq!(BUCKET.excess(&units), 1);
    }

    #[test]
    fn a_unit_counts_only_in_intervals_that_it_surely_is_in() {
        let mut units: Vec<_> = (0..5).map(|_| at(1_000)).collect();
        units.push(Admission { earliest: 1_050_000, latest: 1_100_000 });
        assert_eq!(BUCKET.excess(&units), 0, "it may have been the last instant");
        units[5].latest -= 1;
        assert_eq!(BUCKET.excess(&units), 1);
        let mut units: Vec<_> = (0..5).map(|_| at(1_000)).collect();
        units.push(Admission { earliest: 1_999_999, latest: 2_000_000 });
        assert_eq!(WINDOW.excess(&units), 0);
        units[5].latest -= 1;
        assert_eq!(WINDOW.excess(&units), 1);
    }

    #[test]
    fn shares_give_a_burst_more_and_their_rate_only_while_they_decide() {
        let mut units: Vec<_> = (0..10).map(|_| at(1_000)).collect();
        units.extend((1..=10).map(|unit| at(1_000 + 100 * unit)));
        assert_eq!(BUCKET.excess_with_shares(&units, &[], 2), 0);
        units.push(at(2_000));
        assert_eq!(BUCKET.excess_with_shares(&units, &[], 2), 1);
        // One of two programs decided by its half of the rate.
        assert_eq!(BUCKET.excess_with_shares(&units, &[(0, 1_199_999)], 2), 1);
        assert_eq!(BUCKET.excess_with_shares(&units, &[(0, 1_200_000)], 2), 0);
        let both = [(1_900_000, 2_100_000); 2];
        assert_eq!(BUCKET.excess_with_shares(&units, &both, 2), 0);
        assert_eq!(BUCKET.excess_with_shares(&units, &[(2_000_000, 9_000_000)], 2), 1);
    }

    #[test]
    fn a_bucket_is_used_up_until_a_unit_has_come_back() {
        let times: Vec<_> = [1_000_000; 5].to_vec();
        let is_used_up = |from, to| BUCKET.is_used_up(&times, from, to);
        assert!(!is_used_up(999_998, 999_999));
        assert!(is_used_up(999_999, 1_000_000) && is_used_up(1_000_000, 1_000_001));
        assert!(is_used_up(1_099_999, 1_200_000));
        assert!(!is_used_up(1_100_000, 1_200_000));
        // A unit that was taken meanwhile makes it so.
        let times = [&times[..], &[1_150_000]].concat();
        assert!(BUCKET.is_used_up(&times, 1_100_000, 1_150_000));
        assert!(!BUCKET.is_used_up(&times, 1_100_000, 1_149_999));
        assert!(BUCKET.is_used_up(&times, 1_199_999, 1_199_999));
        assert!(!BUCKET.is_used_up(&times, 1_200_000, 1_300_000));
    }

    #[test]
    fn windows_are_counted_apart() {
        let mut units: Vec<_> = (0..5).flat_map(|_| [at(1_999), at(2_000)]).collect();
        assert_eq!(WINDOW.excess(&units), 0);
        units.extend([at(2_500), at(2_999)]);
        assert_eq!(WINDOW.excess(&units), 2);
    }
}
