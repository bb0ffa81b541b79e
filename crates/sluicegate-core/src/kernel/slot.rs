//! Units of a state that are outstanding until one time, and the share of its rate that is booked
//! until then.

use crate::time::Span;

/// The units that are outstanding until one time, and the booked share of the rate.
///
/// A slot has units, a share, or both.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Slot {
    /// The time when it ends, in µs since the epoch.
    pub until: u64,
    /// The number of units.
    pub units: u64,
    /// The name of the slot: a random number below 2^53 chosen by the request that opened it.
    pub tag: u64,
    /// The share of the rate that holders spend, in millionths.
    pub share: u64,
}

impl Slot {
    /// The number of numbers in which a slot is stored.
    pub const NUMBERS: usize = 4;

    pub(crate) const fn is_empty(&self) -> bool {
        self.units == 0 && self.share == 0
    }
}

/// Shares are millionths. A booked share is also the µs of each second in which a bucket doesn't
/// drain.
pub(crate) const WHOLE: u64 = Span::SECOND.as_micros();

/// Returns the number of all outstanding units.
pub(crate) fn total(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.units).sum()
}

/// Returns the share of the rate that is booked, in millionths.
pub(crate) fn booked(slots: &[Slot]) -> u64 {
    slots.iter().map(|slot| slot.share).sum()
}

/// Returns the µs until `at` in which a bucket has drained, while this share of its rate is booked.
///
/// Only differences of two results have a meaning. They don't depend on the times between, so
/// frequent requests lose nothing by rounding.
pub(super) const fn drained_until(at: u64, share: u64) -> u64 {
    at - (at / WHOLE * share + (at % WHOLE * share).div_ceil(WHOLE))
}

/// Returns the first time when a bucket has drained for `micros` after `from`, while this share of
/// its rate is booked; `None` for never.
pub(super) fn drained_for(micros: u64, from: u64, share: u64) -> Option<u64> {
    let goal = drained_until(from, share).checked_add(micros)?;
    let each_second = WHOLE - share;
    if micros == 0 || share == 0 {
        return from.checked_add(micros);
    }
    let (seconds, rest) = (goal.checked_div(each_second)?, goal.checked_rem(each_second)?);
    seconds.checked_mul(WHOLE)?.checked_add((rest * WHOLE).div_ceil(each_second))
}

/// Moves the ends of slots to the longest time from now at the latest.
pub(super) fn bring_near(slots: &mut [Slot], now: u64, longest: Span) {
    let longest = now.saturating_add(longest.as_micros());
    for slot in slots {
        slot.until = slot.until.min(longest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_drains_for_the_rest_of_each_second() {
        for share in [0, 1, 333_333, 500_000, 980_000, 999_999, WHOLE] {
            for from in [0, 1, 999_999, 1_000_000, 1_764_000_000_123_457] {
                for step in [0, 1, 2, 7, 999_999, 1_000_000, 11_000_003] {
                    let drained = drained_until(from + step, share) - drained_until(from, share);
                    let exact = step * (WHOLE - share);
                    assert!(drained.abs_diff(exact / WHOLE) <= 1, "{share} {from} {step}");
                }
            }
        }
    }

    #[test]
    fn the_time_until_it_has_drained_is_sufficient_and_minimal() {
        for share in [0, 1, 333_333, 500_000, 980_000, 999_999] {
            for from in [0, 1, 999_999, 1_000_000, 1_764_000_000_123_457] {
                for micros in [1, 2, 19_999, 20_000, 20_001, 1_000_000] {
                    let drained = |at| drained_until(at, share) - drained_until(from, share);
                    let then = drained_for(micros, from, share).unwrap();
                    assert!(drained(then) >= micros, "{share} {from} {micros}");
                    assert!(drained(then - 1) < micros, "{share} {from} {micros}");
                }
            }
        }
        assert_eq!(drained_for(1, 7, WHOLE), None);
        assert_eq!(drained_for(0, 7, WHOLE), Some(7));
    }
}
