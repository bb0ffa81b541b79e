//! A parsed log: keys, times and costs.

use std::borrow::Cow;
use std::{fmt, io};

use sluicegate_core::{Error, StoreError, StoreErrorKind, Timestamp};

use crate::keys::{Keys, shown};
use crate::log_format::LogFormat;
use crate::malformed::MalformedLines;
use crate::record::{Moment, Record};
use crate::requests::{Detail, Part, Requests, too_many};
use crate::timeline::{Period, Timeline};

/// The requests of a log, key by key, those of one key in order of time, those of one time in the
/// order of the log.
///
/// Keys share nothing, so answers found in this order are those of the whole log in order of time. Up to 4,194,304
/// requests are in memory. Those of a longer log are in 64 temporary files by their key, 28 bytes each, so that any
/// order is put right and only one of the files needs memory at a time. Each key is in memory once.
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
    pub(crate) requests: Requests,
    period: Option<Period>,
    /// The requests whose lines state a duration.
    durations: u64,
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("lines", &self.lines)
            .field("requests", &self.requests.count())
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
        self.requests.count()
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
            requests: Requests::default(),
            period: None,
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
        let key = self.keys.number(key).ok_or_else(too_many)?;
        let duration = record.duration.unwrap_or(0);
        self.durations += u64::from(record.duration.is_some());
        let start = match moment {
            Moment::Start => record.time,
            Moment::End => record.time.saturating_sub(duration),
        };
        self.requests.add(key, start, Detail::new(record.cost, duration))?;
        self.period.get_or_insert_with(|| Period::new(start)).extend(start);
        Ok(())
    }

    /// Puts the requests in order, after the last was added.
    pub(crate) fn sort(&mut self) -> io::Result<()> {
        self.requests.finish()
    }

    /// Returns the parts of the recording, each with all requests of some keys.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Result<Cow<'_, Part>, Error>> {
        self.requests.parts().map(|part| {
            part.map_err(|error| {
                let message = format!("a temporary file of the log can't be read: {error}");
                StoreError::new(StoreErrorKind::Unavailable, message).into()
            })
        })
    }

    /// When the first and the last request were made.
    pub(crate) fn period(&self) -> Option<(Timestamp, Timestamp)> {
        let Period { first, last, .. } = self.period?;
        Some((Timestamp::from_micros_clamped(first), Timestamp::from_micros_clamped(last)))
    }

    /// The buckets that the requests lie in.
    pub(crate) fn timeline(&self) -> Timeline {
        Timeline::new(self.period)
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_core::Costs;

    use super::*;
    use crate::reader::LogReader;

    fn order(recording: &Recording) -> Vec<(&[u8], u64, u64)> {
        let mut all = Vec::new();
        let part = recording.parts().next().unwrap().unwrap();
        for of_key in part.by_key() {
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
