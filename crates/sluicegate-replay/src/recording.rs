//! A parsed log: keys, times and costs.

use std::{fmt, io};

use sluicegate_core::{Cost, Costs, Span, Timestamp};

use crate::keys::{Keys, shown};
use crate::log_format::LogFormat;
use crate::malformed::MalformedLines;
use crate::record::{Moment, Record};
use crate::timeline::Timeline;

/// The requests of a log, key by key, those of one key in order of time, those of one time in the
/// order of the file.
///
/// Keys share nothing, so answers found in this order are those of the whole file in order of
/// time.
pub struct Recording {
    /// The name of the log in reports.
    pub(crate) name: String,
    /// `None` when no line is well formed, and no format was asked for.
    pub(crate) format: Option<LogFormat>,
    /// What makes the key; `None` when the lines bring their own.
    pub(crate) key: Option<String>,
    pub(crate) lines: u64,
    pub(crate) malformed: MalformedLines,
    pub(crate) keys: Keys,
    requests: Vec<Request>,
    /// By number of the request; stays empty until a line states a cost or a duration.
    details: Vec<Detail>,
    /// The requests whose lines state a duration.
    durations: u64,
}

/// The cost and the duration of a request, where its line states them.
#[derive(Clone, Copy, Debug, Default)]
struct Detail {
    cost: Option<Cost>,
    /// In µs; 0 if the line states none.
    duration: u64,
}

/// A request of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// The start of the request, or the time that its line states if that has no duration.
    pub(crate) at: Timestamp,
    pub(crate) costs: Costs<'static>,
    /// The duration of the request, if its line states one.
    pub(crate) lasts: Span,
}

/// A request in 16 bytes. The key, the time and the number of the request in the file lie one
/// after the other, so that numbers compare as requests are ordered.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Request(u128);

impl Request {
    const fn new(key: u32, micros: u64, number: u32) -> Self {
        Self((key as u128) << 96 | (micros as u128) << 32 | number as u128)
    }

    const fn key(self) -> u32 {
        (self.0 >> 96) as u32
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the field apart")]
    const fn micros(self) -> u64 {
        (self.0 >> 32) as u64
    }

    #[expect(clippy::cast_possible_truncation, reason = "takes the field apart")]
    const fn number(self) -> u32 {
        self.0 as u32
    }
}

/// The requests of one key.
#[derive(Clone, Copy)]
pub(crate) struct OfKey<'r> {
    pub(crate) key: u32,
    requests: &'r [Request],
    details: &'r [Detail],
}

impl OfKey<'_> {
    /// How many there are; at least one.
    pub(crate) const fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Returns each request, in order of time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Arrival> {
        self.requests.iter().map(|request| {
            let detail = self.details.get(request.number() as usize).copied().unwrap_or_default();
            Arrival {
                at: Timestamp::from_micros_clamped(request.micros()),
                costs: detail.cost.map_or(Costs::Own, Costs::Same),
                lasts: Span::from_micros(detail.duration).unwrap_or(Span::MAX),
            }
        })
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("lines", &self.lines)
            .field("requests", &self.requests.len())
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// What kind of lines the log has; `None` when none is well formed, and none was asked for.
    #[must_use]
    pub const fn format(&self) -> Option<LogFormat> {
        self.format
    }

    /// How many lines the log has.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.lines
    }

    /// How many of them are requests.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    /// Returns how many requests have a duration: policies that count requests in flight need it.
    #[must_use]
    pub const fn durations(&self) -> u64 {
        self.durations
    }

    /// How many of them are not.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed.count()
    }

    /// A message for the user about what is probably wrong with a log that has no requests.
    ///
    /// ```
    /// use sluicegate_replay::LogReader;
    ///
    /// let remark = LogReader::new("setup.sh").read(&b"#!/bin/sh\n"[..])?.remark();
    /// assert!(remark.is_some_and(|remark| remark.starts_with("setup.sh has no request: it doesn't look like an access log")));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn remark(&self) -> Option<String> {
        let log = shown(&self.name, usize::MAX);
        if self.lines == 0 {
            return Some(format!("{log} has no request: it is empty"));
        }
        if self.requests() > 0 {
            return None;
        }
        let expected = match self.format {
            Some(LogFormat::Json) => "JSON lines",
            Some(LogFormat::Access) => "an access log in the common or combined format",
            None => "an access log in the common or combined format, or JSON lines",
        };
        let first = self.malformed.first().first();
        let why =
            first.map_or_else(String::new, |(line, why)| format!("; line {line}: {}", why.why()));
        Some(format!("{log} has no request: it doesn't look like {expected}{why}"))
    }

    /// A log of a name, of which nothing is read yet.
    pub(crate) fn new(name: &str, format: Option<LogFormat>) -> Self {
        Self {
            name: name.to_owned(),
            format,
            key: None,
            lines: 0,
            malformed: MalformedLines::default(),
            keys: Keys::default(),
            requests: Vec::new(),
            details: Vec::new(),
            durations: 0,
        }
    }

    /// Adds a request under a key. `moment` is the moment that the log's times state.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        record: &Record<'_>,
        moment: Moment,
    ) -> io::Result<()> {
        let number = u32::try_from(self.requests.len()).ok().zip(self.keys.number(key));
        let Some((number, key)) = number else {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it has more than 4,294,967,295 requests: split it",
            ));
        };
        let duration = record.duration.unwrap_or(0);
        if record.cost.is_some() || duration > 0 {
            self.details.resize(self.requests.len(), Detail::default());
            self.details.push(Detail { cost: record.cost, duration });
        }
        self.durations += u64::from(record.duration.is_some());
        let start = match moment {
            Moment::Start => record.time,
            Moment::End => record.time.saturating_sub(duration),
        };
        self.requests.push(Request::new(key, start, number));
        Ok(())
    }

    /// Puts the requests in order, after the last was added.
    pub(crate) fn sort(&mut self) {
        self.requests.sort_unstable();
    }

    /// The requests, key by key.
    pub(crate) fn by_key(&self) -> impl Iterator<Item = OfKey<'_>> {
        self.requests.chunk_by(|a, b| a.key() == b.key()).map(|requests| OfKey {
            key: requests[0].key(),
            requests,
            details: &self.details,
        })
    }

    /// When the first and the last request were made.
    pub(crate) fn period(&self) -> Option<(Timestamp, Timestamp)> {
        let at = Timestamp::from_micros_clamped;
        Some((at(self.times().min()?), at(self.times().max()?)))
    }

    /// The buckets that the requests lie in.
    pub(crate) fn timeline(&self) -> Timeline {
        Timeline::new(self.times())
    }

    /// When each request was made, in µs since the epoch, in no particular order.
    pub(crate) fn times(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().map(|request| request.micros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::LogReader;

    fn order(recording: &Recording) -> Vec<(&[u8], u64, u64)> {
        let mut all = Vec::new();
        for of_key in recording.by_key() {
            for arrival in of_key.iter() {
                let cost = if let Costs::Same(cost) = arrival.costs { cost.get() } else { 0 };
                all.push((recording.keys.get(of_key.key), arrival.at.as_micros(), cost));
            }
        }
        all
    }

    #[test]
    fn requests_of_one_time_keep_the_order_of_the_file() {
        let log = br#"
{"time":2,"key":"a","cost":1}
{"time":1,"key":"b"}
{"time":2,"key":"a","cost":2}
{"time":1,"key":"a","cost":3}
{"time":2,"key":"a","cost":4}
{"time":2,"key":"a"}"#;
        let recording = LogReader::new("log").read(&log[..]).unwrap();
        assert_eq!(
            order(&recording),
            [
                (&b"a"[..], 1_000_000, 3),
                (b"a", 2_000_000, 1),
                (b"a", 2_000_000, 2),
                (b"a", 2_000_000, 4),
                (b"a", 2_000_000, 0),
                (b"b", 1_000_000, 0),
            ]
        );
        assert_eq!((recording.lines, recording.malformed.count()), (7, 1));
    }
}
