//! The range of all numbers in a decision.

use std::fmt;

use crate::error::{InvalidNumber, PolicyError};

/// The largest whole number that every store can compute with exactly: 2^53 − 1.
///
/// Lua numbers are doubles, so this bounds costs, limits, times in microseconds and every product
/// that a script computes. The Rust kernels could go further, but the answer must be the same in
/// every store.
pub const MAX_EXACT: u64 = (1 << 53) - 1;

/// The units that a request takes: a whole number from 1 to 2^53 − 1.
///
/// ```
/// use sluicegate_core::Cost;
///
/// assert_eq!(Cost::new(3).unwrap().get(), 3);
/// assert!(Cost::new(0).is_err());
/// assert!(Cost::new(1 << 53).is_err());
/// assert_eq!(Cost::ONE.get(), 1);
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Cost(u64);

impl Cost {
    /// One unit: the default cost.
    pub const ONE: Self = Self(1);
    /// The largest cost.
    pub const MAX: Self = Self(MAX_EXACT);

    /// Creates a cost of `units`.
    ///
    /// # Errors
    /// Returns an error if `units` is 0 or above 2^53 − 1.
    pub const fn new(units: u64) -> Result<Self, InvalidNumber> {
        if units == 0 || units > MAX_EXACT {
            return Err(InvalidNumber::new("cost", units, 1, MAX_EXACT));
        }
        Ok(Self(units))
    }

    /// Returns the units.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Default for Cost {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u64> for Cost {
    type Error = InvalidNumber;

    fn try_from(units: u64) -> Result<Self, InvalidNumber> {
        Self::new(units)
    }
}

/// Checks that every store can count up to `limit`.
pub(crate) fn check_limit(limit: u64) -> Result<u64, PolicyError> {
    if limit > MAX_EXACT {
        return Err(PolicyError::new(
            "limit",
            format!("{limit} is above the largest limit, {MAX_EXACT}"),
        ));
    }
    Ok(limit)
}

/// Returns ⌈a·b ÷ c⌉ exactly, or `None` above [`MAX_EXACT`]. `c` is not 0.
pub(crate) fn mul_div_ceil(a: u64, b: u64, c: u64) -> Option<u64> {
    let exact = (u128::from(a) * u128::from(b)).div_ceil(u128::from(c));
    u64::try_from(exact).ok().filter(|&quotient| quotient <= MAX_EXACT)
}

pub(crate) const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
