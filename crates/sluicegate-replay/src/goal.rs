//! The share of requests or keys that a suggested limit may deny.

use std::fmt;
use std::str::FromStr;

/// The maximum share of requests or of keys that a suggested limit denies, such as `1% of requests`.
///
/// A key counts as denied if at least one of its requests is.
///
/// ```
/// use sluicegate_replay::Goal;
///
/// let goal: Goal = "deny 0.5% of keys".parse()?;
/// assert_eq!(goal.to_string(), "0.5% of keys");
/// assert_eq!(Goal::default().to_string(), "1% of requests");
/// assert!("5 requests".parse::<Goal>().is_err());
/// # Ok::<(), sluicegate_replay::GoalError>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Goal {
    /// Share in 10,000ths of a percent.
    share: u64,
    pub(crate) of: Counted,
}

/// The unit of a goal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Counted {
    Keys,
    Requests,
}

/// An error for text that isn't a goal.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GoalError(String);

const PERCENT: u64 = 10_000;
const WHOLE: u64 = 100 * PERCENT;

impl Goal {
    /// Returns the maximum number of denials among `count` requests or keys, rounded down.
    pub(crate) fn of(self, count: u64) -> u64 {
        let denied = u128::from(count) * u128::from(self.share) / u128::from(WHOLE);
        u64::try_from(denied).unwrap_or(count)
    }
}

impl Default for Goal {
    /// Returns `1% of requests`.
    fn default() -> Self {
        Self { share: PERCENT, of: Counted::Requests }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.share / PERCENT, self.share % PERCENT);
        let of = match self.of {
            Counted::Keys => "keys",
            Counted::Requests => "requests",
        };
        if fraction == 0 {
            return write!(f, "{whole}% of {of}");
        }
        let digits = format!("{fraction:04}");
        write!(f, "{whole}.{}% of {of}", digits.trim_end_matches('0'))
    }
}

impl FromStr for Goal {
    type Err = GoalError;

    fn from_str(text: &str) -> Result<Self, GoalError> {
        let error = || GoalError(text.chars().take(80).collect());
        let words = text.trim();
        let words = words.strip_prefix("deny ").unwrap_or(words).trim_start();
        let (number, rest) = words.split_once('%').ok_or_else(error)?;
        let of = match rest.split_whitespace().collect::<Vec<_>>()[..] {
            ["of", "keys"] => Counted::Keys,
            ["of", "requests"] => Counted::Requests,
            _ => return Err(error()),
        };
        let share = share(number.trim()).filter(|&share| share < WHOLE).ok_or_else(error)?;
        Ok(Self { share, of })
    }
}

/// Parses a number with at most four decimals, in 10,000ths.
fn share(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| {
        (1..=4).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
    };
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction: u64 = format!("{fraction:0<4}").parse().ok()?;
    Some(whole.parse::<u64>().ok()? * PERCENT + fraction)
}

impl fmt::Display for GoalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` isn't a share to deny: write `N% of requests` or `N% of keys`, N from 0 to below 100 with at most \
             4 decimals, such as `1% of requests`",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for GoalError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_a_share_of_requests_or_of_keys() {
        for (text, printed, of_1000) in [
            ("1% of requests", "1% of requests", 10),
            (" deny 0.05 %  of  keys ", "0.05% of keys", 0),
            ("99.9999% of requests", "99.9999% of requests", 999),
            ("0% of keys", "0% of keys", 0),
        ] {
            let goal: Goal = text.parse().unwrap();
            assert_eq!((&*goal.to_string(), goal.of(1_000)), (printed, of_1000), "{text}");
            assert_eq!(goal.to_string().parse(), Ok(goal));
        }
    }

    #[test]
    fn what_is_no_goal_is_refused_with_what_to_write() {
        for text in [
            "",
            "1%",
            "1% of",
            "1 of keys",
            "1% of hosts",
            "100% of keys",
            "-1% of keys",
            "1e1% of keys",
            "0.00001% of keys",
            ".5% of keys",
            "1% of keys today",
        ] {
            let message = text.parse::<Goal>().unwrap_err().to_string();
            assert!(message.contains("write `N% of requests` or `N% of keys`"), "{message}");
        }
    }
}
