//! The next exact rate below one that can't be counted exactly.

use std::time::Duration;

use sluicegate_core::{MAX_EXACT, PolicyError, Rate};

/// Returns the highest rate of at most `count` units per `micros` whose bucket of `burst` units is exact. `None` if
/// that is zero: then a bucket takes more than 285 years to fill.
///
/// A rate is a fraction of whole numbers, ticks per µs over ticks per unit. In a bucket, `burst` times the ticks per unit
/// must be exact. So it is the best fraction from below with a bounded denominator, which a walk down the Stern–Brocot
/// tree finds.
pub(crate) fn exact_rate(
    count: u64,
    micros: u128,
    burst: u64,
) -> Option<Result<Rate, PolicyError>> {
    let most_unit = u128::from(MAX_EXACT / burst.max(1));
    let most_refill = u128::from(MAX_EXACT);
    let (count, micros) = (u128::from(count), micros);
    // Both are of the form refill / unit. The wanted fraction is always between them, and equal to the lower one or
    // above it.
    let (mut low, mut high) = ((0_u128, 1_u128), (1_u128, 0_u128));
    loop {
        // Moves the lower fraction towards the upper one, as far as it stays at most the wanted one.
        let steps = (count * low.1 - low.0 * micros).checked_div(high.0 * micros - count * high.1);
        let room = room(low, high, most_refill, most_unit);
        let up = steps.unwrap_or(u128::MAX).min(room);
        low = (low.0 + up * high.0, low.1 + up * high.1);
        if count * low.1 == low.0 * micros || up == room {
            break;
        }
        // Moves the upper fraction towards the lower one, as far as it stays above the wanted one.
        let gap = count * low.1 - low.0 * micros;
        let steps = (high.0 * micros - count * high.1 - 1) / gap;
        let down = steps.min(self::room(high, low, most_refill, most_unit));
        if down == 0 {
            break;
        }
        high = (high.0 + down * low.0, high.1 + down * low.1);
    }
    let (refill, unit) = low;
    if refill == 0 {
        return None;
    }
    let (refill, unit) = (u64::try_from(refill).ok()?, u64::try_from(unit).ok()?);
    Some(Rate::new(refill, Duration::from_micros(unit)))
}

/// Returns how often `step` can be added to a fraction until a part of it is out of bounds.
fn room(from: (u128, u128), step: (u128, u128), most_refill: u128, most_unit: u128) -> u128 {
    let refill = (most_refill.saturating_sub(from.0)).checked_div(step.0).unwrap_or(u128::MAX);
    let unit = (most_unit.saturating_sub(from.1)).checked_div(step.1).unwrap_or(u128::MAX);
    refill.min(unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rate(count: u64, seconds: u64, burst: u64) -> Option<(u64, u64)> {
        let rate = exact_rate(count, u128::from(seconds) * 1_000_000, burst)?.unwrap();
        Some((rate.count(), u64::try_from(rate.period().as_micros()).unwrap()))
    }

    #[test]
    fn exact_rates_stay_and_others_are_the_next_ones_below() {
        assert_eq!(rate(7, 86_400, 16), Some((7, 86_400_000_000)));
        assert_eq!(rate(1_000, 3_000, 3), Some((1, 3_000_000)));
        assert_eq!(rate(1, 1, MAX_EXACT), None);
        // With this burst a unit has at most 9 ticks: below 2/7 per µs, 1/4 is next, and 2/7 itself is exact.
        let burst = MAX_EXACT / 9;
        let of = |count, micros| {
            let rate = exact_rate(count, micros, burst)?.unwrap();
            Some((rate.count(), rate.period().as_micros()))
        };
        assert_eq!(of(2, 7), Some((2, 7)));
        assert_eq!(of(3, 11), Some((1, 4)));
        assert_eq!(of(999, 3_000), Some((2, 7)));
        assert_eq!(of(1, 9), Some((1, 9)));
        assert_eq!(of(1, 10), None);
        assert_eq!(of(100, 1), Some((100, 1)));
    }

    proptest! {
        #[test]
        fn no_rate_in_between_is_exact(count in 1_u64..200, micros in 1_u128..200, most in 1_u64..50) {
            let burst = MAX_EXACT / most;
            // The bound may be a little higher than `most`, because the quotient is rounded down.
            let most = MAX_EXACT / burst;
            let fractions = (1..=u128::from(most))
                .map(|unit| (u128::from(count) * unit / micros, unit))
                .filter(|(refill, _)| *refill > 0);
            let best = fractions.reduce(|one, two| if two.0 * one.1 > one.0 * two.1 { two } else { one });
            let found = exact_rate(count, micros, burst).map(|rate| {
                let rate = rate.unwrap();
                (u128::from(rate.count()), rate.period().as_micros())
            });
            prop_assert_eq!(found.map(|it| it.0 * best.unwrap_or((0, 1)).1), best.map(|it| it.0 * found.unwrap().1));
        }

        #[test]
        fn any_numbers_are_rounded_without_overflow(count in 1..=i64::MAX as u64, seconds in 1..=i64::MAX as u64, burst in 1..=MAX_EXACT) {
            let micros = u128::from(seconds) * 1_000_000;
            if let Some(rate) = exact_rate(count, micros, burst) {
                let rate = rate.unwrap();
                prop_assert!(u128::from(rate.count()) <= u128::from(count) * rate.period().as_micros() / micros);
                prop_assert!(sluicegate_core::Policy::gcra(rate, burst).is_ok());
            }
        }
    }
}
