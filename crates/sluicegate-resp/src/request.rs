//! Commands about limits.

use std::time::Duration;

use sluicegate_core::{HoldToken, HoldTokenError, Operation, Span};

use crate::arguments::Arguments;
use crate::command_error::CommandError;
use crate::cost::Cost;
use crate::number::shown;
use crate::throttle::Throttle;

/// A command about limits, which the caller decides.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// A decision that doesn't wait for units.
    Decide(Decide<'a>),
    /// A decision by the numbers in the command.
    Throttle(Throttle<'a>),
    /// A decision that may wait for units.
    Acquire(Acquire<'a>),
    /// The end of a hold.
    Settle(Box<Settle<'a>>),
}

/// The kind of a decision.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verb {
    /// `SG.CHECK`, and `SG.HOLD` with a time.
    Check,
    /// `SG.PEEK`.
    Peek,
    /// `SG.CHARGE`.
    Charge,
    /// `SG.REFUND`.
    Refund,
    /// `SG.RESET`.
    Reset,
}

/// A decision about a key that doesn't wait for units.
#[derive(Clone, Copy, Debug)]
pub struct Decide<'a> {
    /// The kind of decision.
    pub verb: Verb,
    /// The name of the limit.
    pub limit: &'a str,
    /// The key.
    pub key: &'a [u8],
    /// The units.
    pub cost: Cost<'a>,
    /// The time for which the units are held; `None` for a command that holds none by itself.
    pub hold: Option<Duration>,
}

/// A decision about a key that may wait for units.
#[derive(Clone, Copy, Debug)]
pub struct Acquire<'a> {
    /// The request. Its verb is a check.
    pub decide: Decide<'a>,
    /// The maximum wait: 0 to 10 min.
    pub within: Duration,
}

/// The end of a hold.
#[derive(Clone, Debug)]
pub struct Settle<'a> {
    /// The hold.
    pub token: HoldToken,
    /// The units that were used; [`Cost::Own`] if those are the charged ones.
    pub used: Cost<'a>,
}

impl Verb {
    /// Returns the operation of a store.
    ///
    /// ```
    /// assert_eq!(sluicegate_resp::Verb::Peek.operation(), sluicegate_core::Operation::Peek);
    /// ```
    #[must_use]
    pub const fn operation(self) -> Operation<'static> {
        match self {
            Self::Check => Operation::Check,
            Self::Peek => Operation::Peek,
            Self::Charge => Operation::Charge,
            Self::Refund => Operation::Refund,
            Self::Reset => Operation::Reset,
        }
    }
}

impl<'a> Decide<'a> {
    /// Reads `LIMIT KEY [COST]`, which follow the name of the command.
    pub(crate) fn parse(verb: Verb, arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let cost = arguments.get(3).map(|text| Cost::parse(text, 1)).transpose()?;
        Self::new(verb, arguments, cost.unwrap_or_default())
    }

    /// Reads `LIMIT KEY [COST] FOR DURATION`.
    pub(crate) fn parse_hold(arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let (cost, rest) = cost_before("FOR", arguments)?;
        let hold = option("FOR", arguments, rest)?;
        if hold.is_none() || arguments.len() > rest + 2 {
            return Err(CommandError::err(
                "SG.HOLD needs a time: send SG.HOLD LIMIT KEY [COST] FOR 30s",
            ));
        }
        Ok(Self { hold, ..Self::new(Verb::Check, arguments, cost)? })
    }

    fn new(
        verb: Verb,
        arguments: &Arguments<'a, '_>,
        cost: Cost<'a>,
    ) -> Result<Self, CommandError> {
        let limit = arguments.get(1).unwrap_or_default();
        let limit = str::from_utf8(limit).map_err(|_| CommandError::unknown_limit(limit))?;
        Ok(Self { verb, limit, key: arguments.get(2).unwrap_or_default(), cost, hold: None })
    }
}

impl<'a> Acquire<'a> {
    /// Longest wait.
    const LONGEST: Duration = Duration::from_secs(600);

    /// Reads `LIMIT KEY [COST] WITHIN DURATION [FOR DURATION]`.
    pub(crate) fn parse(arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let (cost, rest) = cost_before("WITHIN", arguments)?;
        let within = option("WITHIN", arguments, rest)?;
        let hold = option("FOR", arguments, rest + 2)?;
        let length = rest + if hold.is_some() { 4 } else { 2 };
        let Some(within) = within.filter(|_| arguments.len() == length) else {
            return Err(CommandError::err(
                "SG.ACQUIRE needs its longest wait: send SG.ACQUIRE LIMIT KEY [COST] WITHIN 2s [FOR 30s]",
            ));
        };
        if within > Self::LONGEST {
            let within = Span::from(within);
            let message = format!("WITHIN is {within}, but must be from 0s to 10min");
            return Err(CommandError::err(message));
        }
        let decide = Decide::new(Verb::Check, arguments, cost)?;
        Ok(Self { decide: Decide { hold, ..decide }, within })
    }
}

impl<'a> Settle<'a> {
    /// Reads `TOKEN [USED]`, which follow the name of the command.
    pub(crate) fn parse(arguments: &Arguments<'a, '_>) -> Result<Self, CommandError> {
        let token = str::from_utf8(arguments.get(1).unwrap_or_default());
        let token = token.map_err(|_| CommandError::err("the token isn't text"))?;
        let token = token.parse().map_err(|error: HoldTokenError| {
            CommandError::err(format!("{error}: send the token of an answer"))
        })?;
        let used = arguments.get(2).map(|text| Cost::parse(text, 0)).transpose()?;
        Ok(Self { token, used: used.unwrap_or_default() })
    }
}

/// Returns the cost in front of an option, and the index of the option.
fn cost_before<'a>(
    option: &str,
    arguments: &Arguments<'a, '_>,
) -> Result<(Cost<'a>, usize), CommandError> {
    match arguments.get(3) {
        Some(word) if !word.eq_ignore_ascii_case(option.as_bytes()) => {
            Ok((Cost::parse(word, 1)?, 4))
        }
        _ => Ok((Cost::Own, 3)),
    }
}

/// Returns the time of an option at an index; `None` if the option isn't there.
fn option(
    name: &str,
    arguments: &Arguments<'_, '_>,
    index: usize,
) -> Result<Option<Duration>, CommandError> {
    let Some(word) = arguments.get(index) else { return Ok(None) };
    if !word.eq_ignore_ascii_case(name.as_bytes()) {
        return Ok(None);
    }
    let text = arguments.get(index + 1).unwrap_or_default();
    let span = str::from_utf8(text).ok().and_then(|text| text.parse::<Span>().ok());
    let span = span.filter(|_| text.first().is_some_and(u8::is_ascii_digit));
    span.map(|span| Some(span.into())).ok_or_else(|| {
        CommandError::err(format!(
            "{name} is `{}`, but must be a length of time such as 500ms, 30s or 5min",
            shown(text)
        ))
    })
}
