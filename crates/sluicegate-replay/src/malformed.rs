//! Lines that are no requests, and why.

use crate::lines::MAX_LINE;

/// Why a line is no request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Malformed {
    Blank,
    Cost,
    Key,
    NoHost,
    NoQuote,
    NoStamp,
    NoUser,
    NotJson,
    Stamp,
    Time,
    TooLong,
}

impl Malformed {
    /// What is wrong with the line.
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::Blank => "it is blank",
            Self::Cost => "`cost` is not a whole number from 1 to 2^53 − 1",
            Self::Key => "`key` is missing, or neither a string nor a number",
            Self::NoHost => "it does not begin with a host",
            Self::NoQuote => "no quote opens the request after the time",
            Self::NoStamp => "no [time] follows the first three fields",
            Self::NoUser => "it has fewer than three fields before the [time]",
            Self::NotJson => "it is not a JSON object",
            Self::Stamp => "its [time] is not like [17/May/2015:10:05:03 +0000]",
            Self::TooLong => TOO_LONG,
            Self::Time => "`time` is missing, or neither RFC 3339 nor a number from 1970 to 2255",
        }
    }
}

const TOO_LONG: &str = "it is longer than 65536 bytes";
const _: () = assert!(MAX_LINE == 65_536, "what the text says");

/// The malformed lines of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct MalformedLines {
    count: u64,
    first: Vec<(u64, Malformed)>,
}

impl MalformedLines {
    /// How many lines are remembered one by one.
    const SHOWN: usize = 5;

    /// Adds the line of a number, counted from 1.
    pub(crate) fn add(&mut self, line: u64, why: Malformed) {
        self.count += 1;
        if self.first.len() < Self::SHOWN {
            self.first.push((line, why));
        }
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// The first of them, with their numbers.
    pub(crate) fn first(&self) -> &[(u64, Malformed)] {
        &self.first
    }
}
