//! The number of hits from which a counter is near its limit.

/// The part of a limit from which hits are near it, as 32-bit float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NearLimitRatio(f32);

impl NearLimitRatio {
    /// Makes a ratio. Returns `None` for a negative or infinite one.
    #[must_use]
    pub fn new(ratio: f32) -> Option<Self> {
        (ratio.is_finite() && ratio >= 0.0).then_some(Self(ratio))
    }

    /// Returns the number of hits, rounded down, above which hits are near a limit.
    ///
    /// The number is only counted with, so the incumbent's floats do no harm: a decision never depends on it.
    #[must_use]
    #[expect(
        clippy::float_arithmetic,
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the incumbent multiplies floats of 32 bits; the product isn't negative, and too large ones saturate"
    )]
    pub fn threshold(self, requests_per_unit: u32) -> u64 {
        (requests_per_unit as f32 * self.0).floor() as u64
    }
}

impl Default for NearLimitRatio {
    fn default() -> Self {
        Self(0.8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        let threshold =
            |ratio, limit| NearLimitRatio::new(ratio).expect("a ratio").threshold(limit);
        assert_eq!(threshold(0.8, 10), 8);
        assert_eq!(threshold(0.8, 1), 0);
        assert_eq!(threshold(0.5, 7), 3);
        assert_eq!(threshold(0.0, 7), 0);
        assert_eq!(threshold(0.8, u32::MAX), 3_435_973_888);
        assert!(NearLimitRatio::new(f32::NAN).is_none() && NearLimitRatio::new(-0.1).is_none());
    }
}
