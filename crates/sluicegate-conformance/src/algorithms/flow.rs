//! A rate as an exact fraction.

use num_bigint::BigInt;
use num_integer::Integer;
use num_rational::BigRational;
use num_traits::{ToPrimitive, Zero};
use sluicegate_core::{MAX_EXACT, Rate};

use super::refusal::Refusal;
use crate::times::micros;

/// A rate as exact numbers, and the fraction of a unit that states are counted in.
pub(super) struct Flow {
    pub(super) per_us: BigRational,
    /// Ticks per unit.
    pub(super) ticks: u64,
}

impl Flow {
    pub(super) fn new(rate: Rate) -> Self {
        let (count, per) = (rate.count(), micros(rate.period()));
        Self { per_us: BigRational::new(count.into(), per.into()), ticks: per / count.gcd(&per) }
    }

    /// Returns the whole microseconds until `units` have flowed, rounded up, or `None` if that
    /// never happens.
    pub(super) fn time_for(&self, units: &BigRational) -> Option<u64> {
        if *units <= BigRational::zero() {
            return Some(0);
        }
        if self.per_us.is_zero() {
            return None;
        }
        (units / &self.per_us).ceil().to_u64()
    }

    /// Converts a deficit to ticks of this rate, rounded up. A deficit already in these ticks is
    /// unchanged.
    pub(super) fn in_ticks(&self, units: &BigRational) -> Result<BigRational, Refusal> {
        let ticks = (units * whole(self.ticks)).ceil();
        if ticks > whole(MAX_EXACT) {
            return Err(Refusal::TooLarge);
        }
        Ok(ticks / whole(self.ticks))
    }
}

pub(super) fn whole(number: u64) -> BigRational {
    BigRational::from_integer(BigInt::from(number))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithms::{Retry, Verdict};

    #[test]
    fn a_third_of_a_unit_is_exact() {
        let flow = Flow::new(Rate::new(3, Duration::from_secs(1)).unwrap());
        assert_eq!(flow.time_for(&whole(1)), Some(333_334));
        assert_eq!(flow.time_for(&whole(3)), Some(1_000_000));
        assert_eq!(Verdict::after(Some(5), 4).retry, Retry::After(1));
    }
}
