//! The units in the slices of a ring.

use std::time::Duration;

use crate::failure::{RequestError, RequestErrorKind};
use crate::kernel::{Rule, log};
use crate::limit::Limit;
use crate::time::{Span, Timestamp};

/// The units in the slices of a ring.
///
/// One sliding window also gives the total of each shorter window. Slices begin at whole multiples
/// of their length since the Unix epoch. A window of k slices contains the current one, which
/// hasn't ended yet, and the k − 1 before it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SliceCounts {
    at: u64,
    slice: u64,
    horizon: u64,
    /// Start and units of each non-empty slice, oldest first.
    counts: Vec<(u64, u64)>,
}

impl SliceCounts {
    /// Reads the slices of a state at the evaluation time.
    pub(crate) fn of(rule: &log::Log, balance: &log::Balance) -> Self {
        let (state, at) = (balance.state(), balance.at());
        let (slice, horizon) = (rule.quantum(), rule.horizon());
        let mut before = state.base;
        let mut counts = Vec::with_capacity(state.entries.len());
        for entry in state.entries.iter() {
            if entry.stamp + horizon > at {
                counts.push((entry.stamp, entry.total - before));
            }
            before = entry.total;
        }
        Self { at, slice, horizon, counts }
    }

    /// Returns the ring of a limit whose only policy is a ring.
    ///
    /// # Errors
    /// Returns an error of kind [`RequestErrorKind::Unsupported`] for any other limit.
    pub(crate) fn ring(limit: &Limit) -> Result<&log::Log, RequestError> {
        match limit.members() {
            [member] => match member.policy().rule() {
                Rule::Log(log) if log.is_ring() => Ok(log),
                _ => Err(not_a_ring(limit)),
            },
            _ => Err(not_a_ring(limit)),
        }
    }

    /// Returns when the slices were read, by the store's clock.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        timestamp(self.at)
    }

    /// Returns the units in the current slice.
    #[must_use]
    pub fn current(&self) -> u64 {
        let start = self.at - self.at % self.slice;
        self.counts.last().filter(|(stamp, _)| *stamp == start).map_or(0, |(_, units)| *units)
    }

    /// Returns the units in the last `window`, which includes the current slice.
    ///
    /// `None` unless `window` is a whole number of slices, at least one, and no longer than the
    /// ring.
    #[must_use]
    pub fn total(&self, window: Duration) -> Option<u64> {
        let window = Span::from(window).as_micros();
        let is_valid = window > 0 && window <= self.horizon && window.is_multiple_of(self.slice);
        is_valid.then(|| {
            let within = self.counts.iter().filter(|(stamp, _)| stamp + window > self.at);
            within.map(|(_, units)| units).sum()
        })
    }

    /// Returns the start and units of each non-empty slice, oldest first.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Timestamp, u64)> {
        self.counts.iter().map(|(stamp, units)| (timestamp(*stamp), *units))
    }
}

fn timestamp(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap_or(Timestamp::EPOCH)
}

#[cold]
fn not_a_ring(limit: &Limit) -> RequestError {
    RequestError::new(
        RequestErrorKind::Unsupported,
        format!(
            "limit `{}` has no slices to read: only a limit with one policy, a sliding_window, has slices",
            limit.name()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::log::Entry;
    use crate::kernel::{Kernel, Now};

    fn counts(at: u64) -> SliceCounts {
        let limit = Limit::new("l", vec!["sliding_window 9/10s slices 10"]).unwrap();
        let entries = [(2, 13), (3, 15), (7, 20)];
        let state = log::State {
            newest: 7_300_000,
            base: 10,
            entries: entries
                .map(|(second, total)| Entry { stamp: second * 1_000_000, total })
                .into_iter()
                .collect(),
        };
        let ring = SliceCounts::ring(&limit).unwrap();
        let now = Now { micros: at, max_clock_back: None };
        SliceCounts::of(ring, &ring.balance(Some(state), now).unwrap().0)
    }

    #[test]
    fn any_window_of_whole_slices_is_read() {
        let counts = counts(7_300_000);
        let total = |seconds: u64| counts.total(Duration::from_secs(seconds));
        assert_eq!(
            (counts.current(), total(1), total(4), total(5)),
            (5, Some(5), Some(5), Some(7))
        );
        assert_eq!((total(6), total(10)), (Some(10), Some(10)));
        assert_eq!((total(11), counts.total(Duration::from_millis(1))), (None, None));
        assert_eq!(counts.total(Duration::ZERO), None);
        assert_eq!(counts.iter().map(|(_, units)| units).collect::<Vec<_>>(), [3, 2, 5]);
    }

    #[test]
    fn what_has_left_the_ring_is_not_read() {
        let later = counts(12_000_000);
        assert_eq!(later.current(), 0);
        assert_eq!(later.iter().map(|(_, units)| units).collect::<Vec<_>>(), [2, 5]);
        assert_eq!(later.total(Duration::from_secs(10)), Some(7));
    }

    #[test]
    fn only_a_ring_alone_has_slices() {
        for specs in
            [vec!["gcra 1/s"], vec!["sliding_log 1/s"], vec!["sliding_window 60/h", "gcra 1/s"]]
        {
            let limit = Limit::new("l", specs).unwrap();
            let error = SliceCounts::ring(&limit).unwrap_err();
            assert_eq!(error.kind(), RequestErrorKind::Unsupported);
        }
    }
}
