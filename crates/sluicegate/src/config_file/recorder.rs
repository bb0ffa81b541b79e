//! The settings of the recorder of decisions.

use std::fmt;
use std::str::FromStr;

/// The settings of the recorder, which keeps the newest decisions in memory for simulations. They are those of the
/// service; the library records none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct RecorderConfig {
    /// Memory for decisions; 0 turns the recorder off. Default: 8 MiB.
    pub size: RecorderSize,
}

/// Memory of the recorder: 0, or 64 KiB to 1 GiB. It prints with the largest unit that makes it a whole number.
///
/// ```
/// use sluicegate::config::RecorderSize;
///
/// let size: RecorderSize = "16MiB".parse()?;
/// assert_eq!((size.bytes(), size.to_string().as_str()), (16 << 20, "16MiB"));
/// assert_eq!("0".parse::<RecorderSize>()?.bytes(), 0);
/// assert_eq!(
///     "5MB".parse::<RecorderSize>().unwrap_err().to_string(),
///     "must be 0, or a size from 64KiB to 1GiB such as 16MiB"
/// );
/// # Ok::<(), sluicegate::config::RecorderSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct RecorderSize(usize);

/// The error for text that isn't a size of the recorder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RecorderSizeError;

impl RecorderSize {
    /// No recorder.
    pub const OFF: Self = Self(0);
    const LEAST: usize = 64 << 10;
    const MOST: usize = 1 << 30;
    const UNITS: [(&'static str, u32); 4] = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

    /// Returns the number of bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0
    }
}

impl Default for RecorderSize {
    /// Returns 8 MiB.
    fn default() -> Self {
        Self(8 << 20)
    }
}

impl FromStr for RecorderSize {
    type Err = RecorderSizeError;

    fn from_str(text: &str) -> Result<Self, RecorderSizeError> {
        let units = || Self::UNITS.into_iter();
        let unit = units().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
        let (digits, bits) = unit.unwrap_or((text, 0));
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: usize = digits.parse().ok().filter(|_| is_number).ok_or(RecorderSizeError)?;
        let bytes = number.checked_mul(1 << bits).ok_or(RecorderSizeError)?;
        let is_in_range = bytes == 0 || (Self::LEAST..=Self::MOST).contains(&bytes);
        if is_in_range { Ok(Self(bytes)) } else { Err(RecorderSizeError) }
    }
}

impl fmt::Display for RecorderSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, bits): &(&str, u32)| self.0.is_multiple_of(1 << bits);
        match Self::UNITS.into_iter().find(fits) {
            Some((unit, bits)) if self.0 > 0 => write!(f, "{}{unit}", self.0 >> bits),
            _ => f.write_str("0"),
        }
    }
}

impl fmt::Display for RecorderSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be 0, or a size from 64KiB to 1GiB such as 16MiB")
    }
}

impl std::error::Error for RecorderSizeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_prints_as_it_reads() {
        for text in ["0", "64KiB", "65537B", "1GiB", "8MiB", "1025KiB"] {
            assert_eq!(text.parse::<RecorderSize>().unwrap().to_string(), text);
        }
        assert_eq!("65536".parse(), Ok(RecorderSize(65_536)));
        for text in [
            "",
            "1",
            "63KiB",
            "1025MiB",
            "8 MiB",
            "-1",
            "+8MiB",
            "8M",
            "1e9",
            "MiB",
            "99999999999999999999GiB",
        ] {
            assert_eq!(text.parse::<RecorderSize>(), Err(RecorderSizeError), "{text}");
        }
    }
}
