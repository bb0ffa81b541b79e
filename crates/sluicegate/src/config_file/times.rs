//! Multiples of a limit.

use std::error::Error;
use std::fmt;
use std::str::FromStr;

use sluicegate_core::Rate;

/// A multiple of a limit, for an override: a decimal number above 0, at most 1,000,000, with up to
/// six digits after the point. It multiplies exactly or not at all.
///
/// ```
/// use sluicegate::config::Times;
///
/// assert_eq!("10".parse::<Times>()?.to_string(), "10");
/// assert_eq!("0.50".parse::<Times>()?.to_string(), "0.5");
/// assert!("0".parse::<Times>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Times {
    /// In millionths.
    millionths: u64,
}

const MILLION: u64 = 1_000_000;

impl Times {
    /// Returns this multiple of `units`, if it is a whole number.
    pub(super) fn of_units(self, units: u64) -> Option<u64> {
        let product = u128::from(units) * u128::from(self.millionths);
        let whole = product.is_multiple_of(u128::from(MILLION));
        whole.then(|| u64::try_from(product / u128::from(MILLION)).ok()).flatten()
    }

    /// Returns this multiple of `rate`. If the count isn't whole, the period grows until it is.
    pub(super) fn of_rate(self, rate: Rate) -> Option<Rate> {
        if let Some(count) = self.of_units(rate.count()) {
            return Rate::new(count, rate.period()).ok();
        }
        // The smallest number of periods for which the count is whole.
        let product = u128::from(rate.count()) * u128::from(self.millionths);
        let divisor = greatest_common_divisor(product, u128::from(MILLION));
        let count = u64::try_from(product / divisor).ok()?;
        let periods = u32::try_from(u128::from(MILLION) / divisor).ok()?;
        Rate::new(count, rate.period().checked_mul(periods)?).ok()
    }
}

const fn greatest_common_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl FromStr for Times {
    type Err = TimesError;

    fn from_str(text: &str) -> Result<Self, TimesError> {
        let error = || TimesError(text.chars().take(40).collect());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str, most| {
            (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole, 7) || !digits(fraction, 6) {
            return Err(error());
        }
        let whole: u64 = whole.parse().map_err(|_| error())?;
        let fraction: u64 = format!("{fraction:0<6}").parse().map_err(|_| error())?;
        let millionths = whole * MILLION + fraction;
        let range = 1..=MILLION * MILLION;
        range.contains(&millionths).then_some(Self { millionths }).ok_or_else(error)
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.millionths / MILLION, self.millionths % MILLION);
        if fraction == 0 {
            return write!(f, "{whole}");
        }
        let fraction = format!("{fraction:06}");
        write!(f, "{whole}.{}", fraction.trim_end_matches('0'))
    }
}

/// Text that is not a multiple.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TimesError(String);

impl fmt::Display for TimesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` must be a number above 0 and up to 1000000 such as 10 or 0.5, with at most six digits after the point",
            self.0
        )
    }
}

impl Error for TimesError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_they_read() {
        for (text, printed) in [
            ("10", "10"),
            ("0.5", "0.5"),
            ("1.250", "1.25"),
            ("007", "7"),
            ("0.000001", "0.000001"),
            ("1000000", "1000000"),
        ] {
            assert_eq!(text.parse::<Times>().unwrap().to_string(), printed);
        }
        for text in [
            "",
            "0",
            "0.0",
            "-1",
            "+1",
            "1e3",
            ".5",
            "5.",
            "1.0000000",
            "1000000.1",
            "1_0",
            "½",
            "1.5x",
        ] {
            assert!(text.parse::<Times>().is_err(), "{text}");
        }
    }

    #[test]
    fn products_are_exact_or_none() {
        let times = |text: &str| text.parse::<Times>().unwrap();
        assert_eq!(times("1.5").of_units(4), Some(6));
        assert_eq!(times("1.5").of_units(5), None);
        assert_eq!(times("1000000").of_units(u64::MAX), None);
        let rate = |text: &str| text.parse::<Rate>().unwrap();
        assert_eq!(times("0.3").of_rate(rate("1/s")), Some(rate("3/10s")));
        assert_eq!(times("0.5").of_rate(rate("5/100ms")), Some(rate("5/200ms")));
        assert_eq!(times("2").of_rate(rate("0/s")), Some(rate("0/s")));
        assert_eq!(times("0.000001").of_rate(rate("1/1000w")), None);
    }
}
