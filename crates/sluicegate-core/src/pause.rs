//! A subject's pauses, as pure functions with the time as an argument.

use crate::kernel::{NUMBER_BYTES, Now, retention};
use crate::limit::Identity;
use crate::number::MAX_EXACT;
use crate::refusal::{later_end, rest};
use crate::time::Span;

/// The shortest pause.
pub(crate) const SHORTEST: Span = Span::MILLISECOND;

/// A pause of a subject under one limit or one of its policies. The times are in µs since the epoch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pause {
    /// The time when the pause was last set.
    pub newest: u64,
    /// The end of the pause.
    pub until: u64,
}

/// The pauses of one subject under one limit, each with the identity of its policy.
///
/// [`Identity::SUBJECT`] stands for the whole limit.
///
/// ```
/// use sluicegate_core::for_stores::{Identity, Pauses};
///
/// let mut pauses = Pauses::default();
/// pauses.extend(Identity::SUBJECT, 1_000_000, 30_000_000);
/// // A shorter pause doesn't end the longer one.
/// pauses.extend(Identity::SUBJECT, 2_000_000, 1_000_000);
/// assert_eq!(pauses.rest(Identity::SUBJECT, 2_000_000), Some(29_000_000));
/// assert_eq!(pauses.rest(Identity::SUBJECT, 31_000_000), None);
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pauses(Vec<(Identity, Pause)>);

impl Pause {
    /// The number of stored numbers.
    pub const NUMBERS: usize = 2;
    /// The kind of the stored entry.
    pub const KIND: u8 = 0x8a;

    /// Returns the pause at `now`, and whether it was restamped because its time was too far ahead.
    ///
    /// A restamped pause lasts as long from now as it lasted from its newest time.
    fn restamped(self, now: Now) -> (Self, bool) {
        if !now.is_exceeded_by(self.newest) {
            return (self, false);
        }
        let until = now.micros.saturating_add(self.until - self.newest);
        (Self { newest: now.micros, until }, true)
    }

    /// Returns the retention of the stored entry.
    pub(crate) const fn retention(self) -> u8 {
        retention(self.until - self.newest)
    }

    /// Returns the stored numbers.
    #[must_use]
    pub const fn numbers(self) -> [u64; Self::NUMBERS] {
        [self.newest, self.until]
    }

    /// Reads the pause from its numbers; `None` if they are invalid.
    #[must_use]
    pub const fn from_numbers(numbers: &[u64]) -> Option<Self> {
        match *numbers {
            [newest, until] if newest <= until && until <= MAX_EXACT => {
                Some(Self { newest, until })
            }
            _ => None,
        }
    }
}

impl Pauses {
    /// The maximum number of bytes that another pause adds to [`Pauses::heap_bytes`].
    pub(crate) const GROWTH_BYTES: usize = size_of::<Self>() + size_of::<(Identity, Pause)>();

    /// Returns the pauses with the identities of their policies.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Identity, Pause)> {
        self.0.iter().copied()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the end of the last pause; 0 if there is none.
    pub(crate) fn last_end(&self) -> u64 {
        self.0.iter().map(|(_, pause)| pause.until).max().unwrap_or(0)
    }

    /// Returns for how many µs the pause of a policy still lasts; `None` if there is none.
    #[must_use]
    pub fn rest(&self, identity: Identity, now: u64) -> Option<u64> {
        let (_, pause) = self.0.iter().find(|(other, _)| *other == identity)?;
        rest(pause.until, now)
    }

    /// Pauses a policy for `lasts` µs from now, unless its pause ends later. Returns the end.
    ///
    /// Also removes ended pauses.
    pub fn extend(&mut self, identity: Identity, now: u64, lasts: u64) -> u64 {
        self.0.retain(|(_, pause)| pause.until > now);
        let known = self.0.iter_mut().find(|(other, _)| *other == identity);
        let before = known.as_ref().map_or(Pause::default(), |(_, pause)| *pause);
        let until = later_end(before.until, now, lasts);
        let pause = Pause { newest: before.newest.max(now), until };
        match known {
            Some((_, known)) => *known = pause,
            None => self.put(identity, pause),
        }
        until
    }

    /// Ends the pause of a policy, or all pauses for [`Identity::SUBJECT`]. Returns `true` if one
    /// was running.
    pub fn end(&mut self, identity: Identity, now: u64) -> bool {
        let is_meant = |other: Identity| identity == Identity::SUBJECT || identity == other;
        let meant = self.0.iter().filter(|(other, _)| is_meant(*other));
        let was_running = meant.clone().any(|(_, pause)| pause.until > now);
        self.0.retain(|(other, _)| !is_meant(*other));
        was_running
    }

    /// Restamps the pauses whose times are too far ahead, and returns `true` if there were any.
    pub(crate) fn restamp(&mut self, now: Now) -> bool {
        let mut is_any = false;
        for (_, pause) in &mut self.0 {
            let (restamped, is_restamped) = pause.restamped(now);
            *pause = restamped;
            is_any |= is_restamped;
        }
        is_any
    }

    /// Adds a pause, and replaces the one of this identity.
    pub(crate) fn put(&mut self, identity: Identity, pause: Pause) {
        self.0.retain(|(other, _)| *other != identity);
        self.0.reserve_exact(1);
        self.0.push((identity, pause));
    }

    /// Returns the size on the heap, in bytes, with this struct.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.0.len() * size_of::<(Identity, Pause)>()
    }
}

// An entry stores its length.
const _: () = assert!(Pause::NUMBERS * NUMBER_BYTES < u16::MAX as usize);

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const START: u64 = 1_699_920_000 * SECOND;
    const WHOLE: Identity = Identity::SUBJECT;
    const POLICY: Identity = Identity::from_bytes([1, 2, 3, 4]);

    #[test]
    fn of_two_pauses_the_later_end_counts_in_either_order() {
        for lasts in [[SECOND, 5 * SECOND], [5 * SECOND, SECOND]] {
            let mut pauses = Pauses::default();
            let ends = lasts.map(|lasts| pauses.extend(WHOLE, START, lasts));
            assert_eq!(ends[1], START + 5 * SECOND);
            assert_eq!(pauses.rest(WHOLE, START), Some(5 * SECOND));
        }
    }

    #[test]
    fn ending_all_pauses_ends_those_of_policies_and_ending_one_no_other() {
        let mut pauses = Pauses::default();
        pauses.extend(WHOLE, START, SECOND);
        pauses.extend(POLICY, START, SECOND);
        let mut of_one = pauses.clone();
        assert!(of_one.end(POLICY, START));
        assert_eq!((of_one.rest(WHOLE, START), of_one.rest(POLICY, START)), (Some(SECOND), None));
        assert!(!of_one.end(POLICY, START));
        assert!(pauses.end(WHOLE, START));
        assert!(pauses.is_empty());
    }

    #[test]
    fn a_pause_that_has_ended_is_not_running_and_leaves_with_the_next() {
        let mut pauses = Pauses::default();
        pauses.extend(POLICY, START, SECOND);
        assert!(!pauses.clone().end(POLICY, START + SECOND));
        pauses.extend(WHOLE, START + SECOND, SECOND);
        assert_eq!(pauses.iter().count(), 1);
    }

    #[test]
    fn a_clock_that_steps_back_leaves_no_pause_longer_than_it_was() {
        let mut pauses = Pauses::default();
        pauses.extend(WHOLE, START, 60 * SECOND);
        let at = |micros| Now { micros, max_clock_back: Some(5 * SECOND) };
        assert!(!pauses.restamp(at(START - 5 * SECOND)));
        let back = START - 86_400 * SECOND;
        assert!(pauses.restamp(at(back)));
        assert_eq!(pauses.rest(WHOLE, back), Some(60 * SECOND));
        let (_, pause) = pauses.iter().next().unwrap();
        assert_eq!(pause.newest, back);
    }

    #[test]
    fn no_pause_ends_after_the_last_time_there_is() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.extend(WHOLE, START, MAX_EXACT), MAX_EXACT);
    }

    #[test]
    fn numbers_that_no_pause_has_are_refused() {
        assert_eq!(Pause::from_numbers(&[3, 5]), Some(Pause { newest: 3, until: 5 }));
        for wrong in [&[5, 3][..], &[3], &[3, 5, 7], &[3, MAX_EXACT + 1]] {
            assert_eq!(Pause::from_numbers(wrong), None, "{wrong:?}");
        }
    }
}
