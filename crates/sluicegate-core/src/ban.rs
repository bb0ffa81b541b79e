//! Bans: a subject that is denied too often is refused for a period.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::PolicyError;
use crate::number::MAX_EXACT;
use crate::rate::Rate;
use crate::time::Span;

/// The rule for when a limit bans a subject, and for how long.
///
/// A subject is banned after a number of denials by the limit's own policies within a period,
/// counted from the first denial. With `doubling` each ban lasts twice as long as the previous one,
/// up to `up_to`. The doubling starts again once `up_to` has passed since the last ban ended.
///
/// Parses from and prints as text such as `5/min for 15min doubling up to 1d`. `doubling` and
/// `up to` are optional. `up to` is 24 h by default, or the length of the first ban if that is
/// longer.
///
/// ```
/// use std::time::Duration;
/// use sluicegate_core::Ban;
///
/// let ban: Ban = "5/1min for 15min doubling".parse()?;
/// assert_eq!((ban.after().count(), ban.lasts()), (5, Duration::from_secs(15 * 60)));
/// assert!(ban.is_doubling());
/// assert_eq!(ban.up_to(), Duration::from_secs(24 * 60 * 60));
/// assert_eq!(ban.to_string(), "5/min for 15min doubling up to 1d");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Ban {
    after: Rate,
    pub(crate) lasts: Span,
    is_doubling: bool,
    pub(crate) up_to: Span,
}

impl Ban {
    /// The shortest period for counting denials, and the shortest ban.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest period for counting denials, and the longest ban.
    pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    /// The largest number of denials before a ban.
    pub const MOST_DENIALS: u64 = 1_000_000;
    const UP_TO: Span = Span::DAY;

    /// Creates a ban of `lasts` after the number of denials in `after`, within its period. `5/min`
    /// means five denials within a minute.
    ///
    /// # Errors
    /// Returns an error if `after` isn't from 1 to 1,000,000, or its period or `lasts` isn't from a
    /// second to 30 days.
    pub fn new(after: Rate, lasts: Duration) -> Result<Self, PolicyError> {
        let lasts = Span::from(lasts);
        let denials = after.count();
        if !(1..=Self::MOST_DENIALS).contains(&denials) {
            let most = Self::MOST_DENIALS;
            let problem = format!("is {denials} denials, but must be from 1 to {most}");
            return Err(PolicyError::new("after", problem));
        }
        in_range("after", after.period)?;
        in_range("for", lasts)?;
        Ok(Self { after, lasts, is_doubling: false, up_to: Self::UP_TO.max(lasts) })
    }

    /// Makes each ban last twice as long as the previous one.
    #[must_use]
    pub const fn doubling(mut self) -> Self {
        self.is_doubling = true;
        self
    }

    /// Limits bans to `up_to`.
    ///
    /// # Errors
    /// Returns an error if `up_to` is shorter than the first ban, or longer than 30 days.
    pub fn with_up_to(self, up_to: Duration) -> Result<Self, PolicyError> {
        let up_to = Span::from(up_to);
        in_range("up_to", up_to)?;
        if up_to < self.lasts {
            let lasts = self.lasts;
            let problem =
                format!("is {up_to}, shorter than the first ban, {lasts}: make it at least that");
            return Err(PolicyError::new("up_to", problem));
        }
        Ok(Self { up_to, ..self })
    }

    /// Returns the number of denials before a ban, and the period in which they count.
    #[must_use]
    pub const fn after(&self) -> Rate {
        self.after
    }

    /// Returns the length of the first ban.
    #[must_use]
    pub const fn lasts(&self) -> Duration {
        Duration::from_micros(self.lasts.as_micros())
    }

    /// Returns `true` if each ban lasts twice as long as the previous one.
    #[must_use]
    pub const fn is_doubling(&self) -> bool {
        self.is_doubling
    }

    /// Returns the maximum length of a ban, which is also the quiet time that resets the doubling.
    #[must_use]
    pub const fn up_to(&self) -> Duration {
        Duration::from_micros(self.up_to.as_micros())
    }
}

fn in_range(parameter: &'static str, span: Span) -> Result<(), PolicyError> {
    let (shortest, longest) = (Span::from(Ban::SHORTEST), Span::from(Ban::LONGEST));
    if (shortest..=longest).contains(&span) {
        return Ok(());
    }
    Err(PolicyError::new(parameter, format!("is {span}, but must be from {shortest} to {longest}")))
}

impl fmt::Display for Ban {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, lasts, is_doubling, up_to } = self;
        let doubling = if *is_doubling { " doubling" } else { "" };
        write!(f, "{after} for {lasts}{doubling} up to {up_to}")
    }
}

impl FromStr for Ban {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, PolicyError> {
        let wrong = |what: &str| {
            let shown: String = text.chars().take(60).collect();
            let problem = format!(
                "`{}` {what}: write it like `5/1min for 15min doubling up to 24h`",
                shown.escape_debug()
            );
            PolicyError::new("ban", problem)
        };
        let span = |parameter: &'static str, word: &str| {
            let span = word.parse::<Span>();
            span.map(Duration::from).map_err(|error| PolicyError::new(parameter, error.to_string()))
        };
        let mut words = text.split_whitespace();
        let after = words.next().ok_or_else(|| wrong("says nothing"))?;
        let after: Rate = after.parse().map_err(|error: PolicyError| {
            let problem = error.to_string();
            PolicyError::new("after", problem)
        })?;
        if words.next() != Some("for") {
            return Err(wrong("doesn't say for how long"));
        }
        let lasts = words.next().ok_or_else(|| wrong("doesn't say for how long"))?;
        let mut ban = Self::new(after, span("for", lasts)?)?;
        let mut up_to = None;
        while let Some(word) = words.next() {
            match word {
                "doubling" if !ban.is_doubling => ban = ban.doubling(),
                "up" | "up_to" if up_to.is_none() => {
                    if word == "up" && words.next() != Some("to") {
                        return Err(wrong("has `up` without `to`"));
                    }
                    let most = words.next().ok_or_else(|| wrong("doesn't say up to what"))?;
                    up_to = Some(span("up_to", most)?);
                }
                _ => {
                    let word: String = word.chars().take(30).collect();
                    let word = word.escape_debug();
                    return Err(wrong(&format!("has a word too many, `{word}`")));
                }
            }
        }
        up_to.map_or(Ok(ban), |up_to| ban.with_up_to(up_to))
    }
}

// Twice the longest ban fits into a stored number, even when added to a time.
const _: () = assert!(2 * Ban::LONGEST.as_micros() < MAX_EXACT as u128 / 1_000);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const LONGEST: u64 = 30 * Span::DAY.as_micros();

    #[test]
    fn what_is_left_out_has_a_default() {
        let ban: Ban = "5/1min for 15min".parse().unwrap();
        assert_eq!((ban.is_doubling(), ban.up_to()), (false, DAY));
        let ban: Ban = "1/s for 2d".parse().unwrap();
        assert_eq!(ban.up_to(), 2 * DAY);
        let ban: Ban = "5/min for 1min up_to 2min doubling".parse().unwrap();
        assert_eq!(ban.to_string(), "5/min for 1min doubling up to 2min");
    }

    #[test]
    fn what_is_wrong_with_a_ban_is_said() {
        for (text, expected) in [
            ("", "ban: `` says nothing: write it like `5/1min for 15min doubling up to 24h`"),
            ("5/min", "doesn't say for how long"),
            ("5/min 15min", "doesn't say for how long"),
            ("0/min for 1min", "after: is 0 denials, but must be from 1 to 1000000"),
            ("1000001/min for 1min", "after: is 1000001 denials"),
            ("5/ms for 1min", "after: is 1ms, but must be from 1s to 30d"),
            ("5/min for 1ms", "for: is 1ms, but must be from 1s to 30d"),
            ("5/min for 31d", "for: is 31d, but must be from 1s to 30d"),
            ("5/min for 15m", "for: `15m` is ambiguous"),
            ("5/min for 1h up to 1min", "up_to: is 1min, shorter than the first ban, 1h"),
            ("5/min for 1h up to 5w", "up_to: is 5w, but must be from 1s to 30d"),
            ("5/min for 1h up 2h", "has `up` without `to`"),
            ("5/min for 1h doubling doubling", "has a word too many, `doubling`"),
            ("5/min for 1h later", "has a word too many, `later`"),
        ] {
            let error = text.parse::<Ban>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_ban_reads_back_from_its_text(
            denials in 1..=Ban::MOST_DENIALS,
            within in 1_000_000..=LONGEST,
            lasts in 1_000_000..=LONGEST,
            is_doubling: bool,
            more in 0..1_000_u64,
        ) {
            let span = Duration::from_micros;
            let ban = Ban::new(Rate::new(denials, span(within)).unwrap(), span(lasts)).unwrap();
            let ban = if is_doubling { ban.doubling() } else { ban };
            let up_to = span(lasts.saturating_add(more).min(LONGEST));
            let ban = ban.with_up_to(up_to).unwrap();
            prop_assert_eq!(ban.to_string().parse(), Ok(ban));
        }

        #[test]
        fn any_text_is_a_ban_or_an_error(text in "\\PC{0,40}|[0-9a-z/ ]{0,60}") {
            if let Ok(ban) = text.parse::<Ban>() {
                prop_assert_eq!(ban.to_string().parse(), Ok(ban));
            }
        }
    }
}
