//! Commands whose numbers are in the command: `CL.THROTTLE` and `THROTTLE`.

use std::time::Duration;

use sluicegate_core::{Decision, Limit, MAX_EXACT, Policy, RetryAfter, Span};

use crate::arguments::Arguments;
use crate::command_error::CommandError;
use crate::exact_rate::exact_rate;
use crate::number::{integer, shown};
use crate::output::Output;

/// The command whose numbers and answer are meant.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Form {
    /// `CL.THROTTLE` of the module redis-cell. A key has `max_burst` units and one more.
    RedisCell,
    /// `THROTTLE` of the server throttlecrab. A key has `max_burst` units.
    Throttlecrab,
}

/// A key, the numbers of its limit, and the units that it takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Throttle<'a> {
    /// The command.
    pub form: Form,
    /// The key.
    pub key: &'a [u8],
    /// The numbers of the limit.
    pub numbers: Numbers,
    /// The units to take; 0 only looks.
    pub quantity: u64,
}

/// The numbers of a limit: a bucket that refills with `count` units in `seconds`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Numbers {
    /// The units of a full bucket: 1 to 2^53 − 1.
    pub burst: u64,
    /// The units that flow back: 1 to 2^63 − 1.
    pub count: u64,
    /// The time in which they do, in seconds: 1 to 2^63 − 1.
    pub seconds: u64,
}

impl Form {
    /// Returns the name of the limit as which the command counts.
    ///
    /// ```
    /// assert_eq!(sluicegate_resp::Form::RedisCell.limit(), "cl.throttle");
    /// ```
    #[must_use]
    pub const fn limit(self) -> &'static str {
        match self {
            Self::RedisCell => "cl.throttle",
            Self::Throttlecrab => "throttle",
        }
    }
}

impl Numbers {
    /// Returns the policy with these numbers: GCRA, whose state is that of redis-cell.
    ///
    /// A rate that can't be counted exactly is rounded down to the next one that can.
    ///
    /// # Errors
    /// Returns an error if the bucket takes more than 285 years to fill.
    ///
    /// ```
    /// use sluicegate_resp::Numbers;
    ///
    /// let policy = |burst, count, seconds| Numbers { burst, count, seconds }.policy();
    /// assert_eq!(policy(16, 30, 60)?.to_string(), "gcra 1/2s burst 16");
    /// // 7 per hour with this burst isn't exact, and nor is any rate above this one.
    /// assert_eq!(policy(10_000_000, 7, 3_600)?.to_string(), "gcra 1/514285715us burst 10000000");
    /// assert!(policy(10_000_000, 1, 3_600).is_err());
    /// # Ok::<(), sluicegate_resp::CommandError>(())
    /// ```
    pub fn policy(&self) -> Result<Policy, CommandError> {
        let Self { burst, count, seconds } = *self;
        let rate = exact_rate(count, u128::from(seconds) * 1_000_000, burst);
        let policy = rate.and_then(|rate| Policy::gcra(rate.ok()?, burst).ok());
        policy.ok_or_else(|| {
            CommandError::err(format!(
                "max_burst makes a key of {burst} units, which takes more than 285 years to fill at {count} per {seconds} s: \
                 lower it"
            ))
        })
    }

    /// Returns the limit of a command with these numbers.
    ///
    /// # Errors
    /// Returns the error of [`Numbers::policy`].
    ///
    /// ```
    /// use sluicegate_resp::{Form, Numbers};
    ///
    /// let limit = Numbers { burst: 16, count: 30, seconds: 60 }.limit(Form::RedisCell)?;
    /// assert_eq!(limit.name().as_str(), "cl.throttle");
    /// # Ok::<(), sluicegate_resp::CommandError>(())
    /// ```
    pub fn limit(&self, form: Form) -> Result<Limit, CommandError> {
        let limit = Limit::new(form.limit(), [self.policy()?]);
        limit.map_err(|error| CommandError::err(error.to_string()))
    }
}

impl<'a> Throttle<'a> {
    /// Reads `KEY MAX_BURST COUNT PERIOD [QUANTITY]`, which follow the name of the command.
    pub(crate) fn parse(form: Form, arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let argument = |index| arguments.get(index).unwrap_or_default();
        let least = match form {
            Form::RedisCell => 0,
            Form::Throttlecrab => 1,
        };
        let more = 1 - least;
        let burst = number("max_burst", argument(2), least, MAX_EXACT - more)? + more;
        let count = number("count_per_period", argument(3), 1, i64::MAX as u64)?;
        let seconds = number("period", argument(4), 1, i64::MAX as u64)?;
        let quantity = match arguments.get(5) {
            Some(text) => number("quantity", text, 0, i64::MAX as u64)?,
            None => 1,
        };
        // Neither fits any bucket.
        let quantity = quantity.min(MAX_EXACT);
        Ok(Self { form, key: argument(1), numbers: Numbers { burst, count, seconds }, quantity })
    }

    /// Writes the answer: whether the key is limited, its limit, the remaining units, and two times in seconds.
    ///
    /// The time until a retry is −1 for a quantity that never fits, and in `CL.THROTTLE` for an allowed one. If a list
    /// or a switch decides instead of the policy, an allowed key is fresh, and a blocked one has no units.
    pub fn write(&self, decision: &Decision, output: &mut Output) {
        let limit = self.numbers.burst;
        let remaining = decision.remaining();
        let remaining = remaining.unwrap_or(if decision.is_allowed() { limit } else { 0 });
        let reset = decision.policies().filter_map(|policy| policy.reset_after()).max();
        let reset = seconds(reset.unwrap_or_default());
        // A policy can't refuse no units. The look at the key asked for one.
        let is_look = self.quantity == 0 && decision.binding().is_some();
        let is_allowed = decision.is_allowed() || is_look;
        let retry = match (is_allowed, decision.retry_after()) {
            (true, _) if self.form == Form::Throttlecrab => 0,
            (false, RetryAfter::After(wait)) => seconds(wait),
            _ => -1,
        };
        let is_allowed = i64::from(is_allowed);
        let [limit, remaining] = [limit, remaining].map(|it| it.try_into().unwrap_or(i64::MAX));
        output.array(5);
        let numbers = match self.form {
            Form::RedisCell => [1 - is_allowed, limit, remaining, retry, reset],
            Form::Throttlecrab => [is_allowed, limit, remaining, reset, retry],
        };
        numbers.into_iter().for_each(|number| output.integer(number));
    }
}

/// Returns a time in seconds, rounded up after the part below a millisecond was dropped, as redis-cell does.
fn seconds(time: Duration) -> i64 {
    let millis = Span::from(time).as_micros() / 1_000;
    millis.div_ceil(1_000).try_into().unwrap_or(i64::MAX)
}

/// Reads a number in a range.
fn number(name: &str, text: &[u8], least: u64, most: u64) -> Result<u64, CommandError> {
    let number = integer(text).and_then(|number| u64::try_from(number).ok());
    number.filter(|number| (least..=most).contains(number)).ok_or_else(|| {
        CommandError::err(format!(
            "{name} is `{}`, but must be a whole number from {least} to {most}",
            shown(text)
        ))
    })
}
