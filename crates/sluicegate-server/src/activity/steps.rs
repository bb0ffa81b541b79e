//! Counts in steps of 10 s.

use std::collections::VecDeque;

use super::counts::Counts;

/// Number of seconds of a step.
pub(crate) const STEP_SECONDS: u64 = 10;
/// Number of steps that are kept: 15 min.
pub(crate) const MOST_STEPS: usize = 90;

/// The counts of the last steps. It takes at most 1,080 bytes, and none without traffic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps(VecDeque<[u32; 3]>);

impl Steps {
    /// Ends a step with its counts.
    pub(super) fn push(&mut self, counts: Counts) {
        if self.0.is_empty() && counts.is_zero() {
            return;
        }
        if self.0.capacity() == 0 {
            self.0.reserve_exact(MOST_STEPS);
        }
        if self.0.len() >= MOST_STEPS {
            self.0.pop_front();
        }
        let Counts { allowed, denied, shadow_denied } = counts;
        self.0.push_back(
            [allowed, denied, shadow_denied].map(|it| u32::try_from(it).unwrap_or(u32::MAX)),
        );
        if self.0.iter().all(|step| *step == [0; 3]) {
            self.0 = VecDeque::new();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of steps that are kept, since the first decision.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the sum of `count` steps. The last one ended `ago` steps ago.
    pub(crate) fn sum(&self, ago: usize, count: usize) -> Counts {
        let steps = self.0.iter().rev().skip(ago).take(count);
        steps.fold(Counts::default(), |sum, step| sum.plus(of(*step)))
    }

    /// Returns the counts of the last `count` steps, the oldest first. Steps before the first decision have none.
    pub(crate) fn last(&self, count: usize) -> impl Iterator<Item = Counts> {
        let absent = count.saturating_sub(self.0.len());
        let known = self.0.iter().skip(self.0.len().saturating_sub(count));
        std::iter::repeat_n(Counts::default(), absent).chain(known.map(|step| of(*step)))
    }
}

fn of([allowed, denied, shadow_denied]: [u32; 3]) -> Counts {
    Counts { allowed: allowed.into(), denied: denied.into(), shadow_denied: shadow_denied.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_after_15_minutes_and_idle_ones_take_no_memory() {
        let mut steps = Steps::default();
        let of = |denied| Counts { denied, ..Counts::default() };
        steps.push(of(0));
        assert_eq!(steps.0.capacity(), 0);
        for number in 1..=100 {
            steps.push(of(number));
        }
        assert_eq!((steps.sum(0, 2).denied, steps.sum(2, 1).denied), (199, 98));
        assert_eq!(steps.sum(0, 1_000).denied, (11..=100).sum::<u64>());
        assert_eq!(steps.last(3).map(|it| it.denied).collect::<Vec<_>>(), [98, 99, 100]);
        let mut young = Steps::default();
        young.push(of(7));
        assert_eq!(young.last(3).map(|it| it.denied).collect::<Vec<_>>(), [0, 0, 7]);
        for _ in 0..90 {
            steps.push(of(0));
        }
        assert!(steps.is_empty() && steps.0.capacity() == 0);
    }
}
