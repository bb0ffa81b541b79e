//! The requests that those of a sample stand for.

/// Spreads the requests that a sample left out over those that it has, so that their sum is exact.
///
/// A share of 0.3 makes every request stand for 3 or 4: after N requests, the sum is N ÷ 0.3, rounded down.
#[derive(Debug, Default)]
pub(crate) struct Proportion {
    /// The shares in millionths, each with the remainder of its last division. A log rarely has more than one.
    remainders: Vec<(u32, u64)>,
}

impl Proportion {
    /// The millionths of the whole.
    pub(crate) const WHOLE: u32 = 1_000_000;
    /// Number of shares whose remainders are kept.
    const MOST: usize = 64;

    /// Returns the number of requests that the next one of a sample stands for, at least 1. A share of 0 is of none.
    pub(crate) fn next(&mut self, sample: u32) -> u64 {
        if sample == 0 || sample >= Self::WHOLE {
            return 1;
        }
        let index = match self.remainders.iter().position(|(of, _)| *of == sample) {
            Some(index) => index,
            None => {
                if self.remainders.len() >= Self::MOST {
                    self.remainders.remove(0);
                }
                self.remainders.push((sample, 0));
                self.remainders.len() - 1
            }
        };
        let remainder = &mut self.remainders[index].1;
        let due = *remainder + u64::from(Self::WHOLE);
        *remainder = due % u64::from(sample);
        due / u64::from(sample)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_share_of_two_thirds_alternates() {
        let mut proportion = Proportion::default();
        let counts: Vec<_> = (0..6).map(|_| proportion.next(400_000)).collect();
        assert_eq!(counts, [2, 3, 2, 3, 2, 3]);
        assert_eq!((proportion.next(0), proportion.next(1_000_000)), (1, 1));
    }

    proptest! {
        #[test]
        fn the_sum_is_exact(sample in 1_u32..1_000_000, other in 1_u32..1_000_000, count in 1_u64..500) {
            let mut proportion = Proportion::default();
            let mut sum = 0;
            for _ in 0..count {
                sum += proportion.next(sample);
                proportion.next(other);
            }
            if sample != other {
                prop_assert_eq!(sum, count * 1_000_000 / u64::from(sample));
            }
        }
    }
}
