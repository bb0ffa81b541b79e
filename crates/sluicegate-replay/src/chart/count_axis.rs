//! The ticks of an axis of counts.

/// An axis of counts, from 0 to a round number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct CountAxis {
    step: u64,
    top: u64,
}

impl CountAxis {
    /// Returns an axis that fits `most`, with at most `steps` ticks above 0; `steps` is at least 1.
    pub(crate) fn new(most: u64, steps: u64) -> Self {
        let most = most.max(1);
        let mut step = 1_u64;
        for factor in [2, 5, 10].into_iter().cycle() {
            if most.div_ceil(step) <= steps {
                break;
            }
            // The steps 1, 2, 5, 10, 20, 50 …, from the power of ten below.
            let power = 10_u64.pow(step.ilog10());
            step = power.saturating_mul(factor);
        }
        Self { step, top: most.div_ceil(step).saturating_mul(step) }
    }

    /// Returns the distance between ticks: 1, 2 or 5 times a power of ten.
    pub(crate) const fn step(self) -> u64 {
        self.step
    }

    /// Returns the number at the upper end; at least 1.
    pub(crate) const fn top(self) -> u64 {
        self.top
    }

    /// Returns the numbers with a tick, from 0 to the top.
    pub(crate) fn ticks(self) -> impl Iterator<Item = u64> {
        (0..=self.top / self.step).map(move |number| number * self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_at_a_round_number() {
        for (most, steps, ticks) in [
            (0, 5, &[0, 1][..]),
            (1, 5, &[0, 1]),
            (5, 5, &[0, 1, 2, 3, 4, 5]),
            (6, 5, &[0, 2, 4, 6]),
            (98, 5, &[0, 20, 40, 60, 80, 100]),
            (101, 3, &[0, 50, 100, 150]),
            (1_001, 1, &[0, 2_000]),
        ] {
            let axis = CountAxis::new(most, steps);
            assert_eq!(axis.ticks().collect::<Vec<_>>(), ticks, "{most}");
            assert_eq!(Some(&axis.top()), ticks.last());
        }
        assert!(CountAxis::new(u64::MAX, 3).top() >= u64::MAX / 2);
    }
}
