//! A span in words.

use super::Span;

/// The units that people count in, longest first.
const UNITS: [(&str, Span); 4] =
    [("d", Span::DAY), ("h", Span::HOUR), ("min", Span::MINUTE), ("s", Span::SECOND)];

impl Span {
    /// Returns the span in words, rounded up: days, hours, minutes and seconds, at most two of them.
    ///
    /// Less than 10 seconds have tenths. Less than a second is in whole `ms`, and less than a
    /// millisecond in `us`. A wait of the printed length is always long enough. For an exact form
    /// that parses, print the span itself.
    ///
    /// ```
    /// use sluicegate_core::Span;
    ///
    /// let words = |micros| Span::from_micros(micros).unwrap().in_words();
    /// assert_eq!(words(349_001), "350 ms");
    /// assert_eq!(words(1_100_001), "1.2 s");
    /// assert_eq!(words(89_000_001), "1 min 30 s");
    /// let hour = Span::HOUR.as_micros();
    /// assert_eq!(words((8 * 24 + 18) * hour + 1), "8 d 19 h");
    /// ```
    #[must_use]
    pub fn in_words(self) -> String {
        let micros = self.as_micros();
        if micros == 0 {
            return "0 s".to_owned();
        }
        if self < Self::MILLISECOND {
            return format!("{micros} us");
        }
        let millis = self.as_millis_ceil();
        if millis < 1_000 {
            return format!("{millis} ms");
        }
        if millis < 10_000 {
            let tenths = micros.div_ceil(100_000);
            return if tenths.is_multiple_of(10) {
                format!("{} s", tenths / 10)
            } else {
                format!("{}.{} s", tenths / 10, tenths % 10)
            };
        }
        // The unit to round up to is the one below the first that fits.
        let first = UNITS.iter().position(|(_, unit)| self >= *unit).unwrap_or(UNITS.len());
        let (_, finest) = UNITS.get(first + 1).unwrap_or(&UNITS[UNITS.len() - 1]);
        let mut rest = micros.div_ceil(finest.as_micros()) * finest.as_micros();
        let mut words = Vec::with_capacity(2);
        for (name, unit) in UNITS {
            let count = rest / unit.as_micros();
            rest %= unit.as_micros();
            if count > 0 {
                words.push(format!("{count} {name}"));
            }
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, more: u64) -> String {
        let span: Span = text.parse().unwrap();
        Span::from_micros(span.as_micros() + more).unwrap().in_words()
    }

    #[test]
    fn a_span_is_said_in_at_most_two_units_and_never_understated() {
        for (text, exactly, a_microsecond_more) in [
            ("0s", "0 s", "1 us"),
            ("250us", "250 us", "251 us"),
            ("999us", "999 us", "1 ms"),
            ("1ms", "1 ms", "2 ms"),
            ("350ms", "350 ms", "351 ms"),
            ("999ms", "999 ms", "1 s"),
            ("1s", "1 s", "1.1 s"),
            ("9900ms", "9.9 s", "10 s"),
            ("59s", "59 s", "1 min"),
            ("60s", "1 min", "1 min 1 s"),
            ("3599s", "59 min 59 s", "1 h"),
            ("1h", "1 h", "1 h 1 min"),
            ("90min", "1 h 30 min", "1 h 31 min"),
            ("1439min", "23 h 59 min", "1 d"),
            ("1d", "1 d", "1 d 1 h"),
            ("1w", "7 d", "7 d 1 h"),
            ("210h", "8 d 18 h", "8 d 19 h"),
            ("215h", "8 d 23 h", "9 d"),
            ("36525d", "36525 d", "36525 d 1 h"),
        ] {
            assert_eq!(words(text, 0), exactly, "{text}");
            assert_eq!(words(text, 1), a_microsecond_more, "{text} and 1us");
        }
        assert_eq!(Span::MAX.in_words(), "104250 d");
    }
}
