//! Lines that aren't requests, and the reasons.

use crate::format::role::Role;
use crate::keys::shown;
use crate::lines::MAX_LINE;

/// The reason that a line isn't a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Malformed {
    Blank,
    /// The line's fields don't match the header.
    Columns,
    /// A part is invalid for its role.
    Invalid(Role),
    Missing(Role),
    /// The log has no header yet.
    NoHeader,
    NoHost,
    /// The pattern doesn't match.
    NoMatch,
    NoQuote,
    NoStamp,
    NoUser,
    NotJson,
    /// A quoted field isn't closed.
    Open,
    /// The parts of the line don't match the format.
    Shape,
    Stamp,
    TooLong,
    Twice(Role),
    /// No format fits.
    Unknown,
}

const _: () = assert!(MAX_LINE == 65_536, "the text states this number");

impl Malformed {
    /// Describes the error in the line. `name` returns the log's name for a role.
    pub(crate) fn why(self, name: impl Fn(Role) -> String, example: &str) -> String {
        match self {
            Self::Blank => "it is blank".to_owned(),
            Self::Columns => "it has more or fewer fields than the header".to_owned(),
            Self::Invalid(role @ (Role::Time | Role::Start | Role::Date)) => format!(
                "`{}` isn't a time from 1970 to 2255: RFC 3339, [17/May/2015:10:05:03 +0000], or a \
                 number of seconds or milliseconds since 1970",
                name(role)
            ),
            Self::Invalid(role @ Role::Cost) => {
                format!("`{}` isn't a whole number from 1 to 2^53 − 1", name(role))
            }
            Self::Invalid(role @ Role::Duration) => {
                format!("`{}` isn't a duration, such as 0.25 or 250ms", name(role))
            }
            Self::Invalid(role) => format!("`{}` isn't valid text", name(role)),
            Self::Missing(role @ Role::Text(_)) => {
                format!("`{}` is missing or empty, or neither text nor a number", name(role))
            }
            Self::Missing(role) => {
                format!("`{}` is missing, or neither text nor a number", name(role))
            }
            Self::NoHeader => "no header names the columns before it".to_owned(),
            Self::NoHost => "it doesn't begin with a host".to_owned(),
            Self::NoMatch => "the pattern doesn't match it".to_owned(),
            Self::NoQuote => "no quote opens the request after the time".to_owned(),
            Self::NoStamp => "no [time] follows the first three fields".to_owned(),
            Self::NoUser => "it has fewer than three fields before the [time]".to_owned(),
            Self::NotJson => "it isn't a JSON object".to_owned(),
            Self::Open => "a quoted field doesn't end".to_owned(),
            Self::Shape => format!("it isn't like {example}"),
            Self::Stamp => "its [time] isn't one from 1970 to 2255, such as \
                            [17/May/2015:10:05:03 +0000]"
                .to_owned(),
            Self::TooLong => "it is longer than 65536 bytes".to_owned(),
            Self::Twice(role) => format!("`{}` is there twice", name(role)),
            Self::Unknown => "no known format has such lines: choose one with --log-format, name \
                              fields as in --fields time=ts,key=client.ip, or describe the line \
                              with --pattern"
                .to_owned(),
        }
    }

    /// Returns how specific the reason is. If several formats fail, the reason with the highest
    /// weight is shown.
    pub(crate) const fn weight(self) -> u8 {
        match self {
            Self::Twice(_) | Self::Invalid(_) | Self::Stamp => 3,
            Self::TooLong => 2,
            Self::Unknown => 1,
            _ => 0,
        }
    }
}

/// A line that isn't a request.
#[derive(Clone, Debug)]
pub(crate) struct MalformedLine {
    /// Index of the input, from 0.
    pub(crate) log: usize,
    /// Number of the line in its input, from 1.
    pub(crate) line: u64,
    pub(crate) why: String,
    /// Beginning of the line.
    pub(crate) text: String,
}

/// The malformed lines of a recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct MalformedLines {
    count: u64,
    first: Vec<MalformedLine>,
}

impl MalformedLines {
    /// Maximum number of lines that are stored.
    const SHOWN: usize = 5;

    /// Maximum number of characters stored of a line.
    const WIDTH: usize = 80;

    /// Adds a line of an input.
    pub(crate) fn add(&mut self, log: usize, line: u64, text: &[u8], why: impl FnOnce() -> String) {
        self.count += 1;
        // Also keep the first line of each log, because it explains a log without requests.
        if self.first.len() < Self::SHOWN || self.first.last().is_none_or(|last| last.log != log) {
            let text = String::from_utf8_lossy(&text[..text.len().min(4 * Self::WIDTH)]);
            let text = shown(&text, Self::WIDTH);
            self.first.push(MalformedLine { log, line, why: why(), text });
        }
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the first malformed line of a log, if it is stored.
    pub(crate) fn first_of(&self, log: usize) -> Option<&MalformedLine> {
        self.first.iter().find(|line| line.log == log)
    }

    /// Returns the stored lines.
    pub(crate) fn first(&self) -> &[MalformedLine] {
        &self.first[..self.first.len().min(Self::SHOWN)]
    }
}
