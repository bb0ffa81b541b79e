//! A parsed log: keys, times and costs.

use std::borrow::Cow;
use std::sync::Arc;
use std::{fmt, io};

use sluicegate_core::{Cost, Error, StoreError, StoreErrorKind, Timestamp};

use crate::decision_counts::DecisionCounts;
use crate::format::wrapper::Wrapper;
use crate::key::KeyExpression;
use crate::keys::{Keys, shown};
use crate::log_format::LogFormat;
use crate::malformed::MalformedLines;
use crate::record::{Stated, Then};
use crate::requests::{Detail, Part, Requests, too_many};
use crate::scale::Proportion;
use crate::timeline::{Period, Timeline};

/// The requests of a log: by key, then by time, then in the order of the log.
///
/// Keys share no state, so decisions in this order equal those of the whole log in order of time.
/// Up to 4,194,304 requests are kept in memory. The requests of a longer log are in 64 temporary
/// files by their key, 28 bytes each. So requests in any order are sorted, with one file in memory
/// at a time. Each key is in memory once.
pub struct Recording {
    /// Logs, in the order in which they were read.
    pub(crate) logs: Vec<Log>,
    /// Key expression; `None` if the lines bring their own key.
    key: Option<String>,
    pub(crate) malformed: MalformedLines,
    pub(crate) keys: Keys,
    pub(crate) requests: Requests,
    period: Option<Period>,
    /// Number of requests whose lines state a duration.
    durations: u64,
    /// Whether durations are kept after the starts of requests are computed.
    keeps_durations: bool,
    pub(crate) decisions: Arc<DecisionCounts>,
    /// Times in µs of the last requests of keys, by number, that stand for several.
    last_scaled: Vec<u64>,
    proportion: Proportion,
}

/// A decision of a service, without a log.
#[derive(Clone, Copy, Debug)]
pub struct PastDecision<'k> {
    /// Time of the decision.
    pub time: Timestamp,
    /// The key.
    pub key: &'k [u8],
    /// Cost of the request; `None` for each policy's own cost.
    pub cost: Option<Cost>,
    /// Whether the request was a take, which takes what there is up to its cost.
    pub is_take: bool,
    /// Whether the request was denied.
    pub was_denied: bool,
    /// The share of such decisions that is known, in millionths, if this one stands for the others too; 0 if it stands
    /// for itself.
    pub sample: u32,
}

/// A log of a recording.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) name: String,
    /// Format of the log; `None` until a line is recognized.
    pub(crate) format: Option<LogFormat>,
    pub(crate) wrapper: Wrapper,
    pub(crate) lines: u64,
    pub(crate) requests: u64,
    pub(crate) malformed: u64,
    /// Number of lines that name columns or continue in the next line.
    pub(crate) headers: u64,
}

/// Maximum number of requests for which samples may stand.
const MOST_SCALED: u64 = 100_000_000;

impl Log {
    pub(crate) const fn new(name: String) -> Self {
        let wrapper = Wrapper::None;
        Self { name, format: None, wrapper, lines: 0, requests: 0, malformed: 0, headers: 0 }
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("logs", &self.logs)
            .field("requests", &self.requests.count())
            .finish_non_exhaustive()
    }
}

impl Recording {
    /// Returns the format of the first log whose format was recognized.
    #[must_use]
    pub fn format(&self) -> Option<LogFormat> {
        self.logs.iter().find_map(|log| log.format)
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.logs.iter().map(|log| log.lines).sum()
    }

    /// Returns the number of lines that are requests.
    #[must_use]
    pub const fn requests(&self) -> u64 {
        self.requests.count()
    }

    /// Returns the number of requests with a duration, which policies that count requests in flight
    /// need.
    #[must_use]
    pub const fn durations(&self) -> u64 {
        self.durations
    }

    /// Returns the number of lines that can't be read.
    #[must_use]
    pub const fn malformed(&self) -> u64 {
        self.malformed.count()
    }

    /// Returns the number of lines that aren't requests but belong to the format: names of columns,
    /// and beginnings of lines that continue.
    #[must_use]
    pub fn headers(&self) -> u64 {
        self.logs.iter().map(|log| log.headers).sum()
    }

    /// Returns the formats of the logs, for messages: `access.log: combined, with a syslog prefix`.
    /// Logs of the same format share a message.
    ///
    /// ```
    /// use sluicegate_replay::LogReader;
    ///
    /// let log = &b"2026-01-01T00:00:00Z stdout F {\"time\":1,\"key\":\"alice\"}\n"[..];
    /// let recording = LogReader::new("pod.log").read(log)?;
    /// assert_eq!(recording.recognized(), ["pod.log: json, with a container prefix"]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn recognized(&self) -> Vec<String> {
        let mut found: Vec<(&Log, LogFormat, usize)> = Vec::new();
        for log in &self.logs {
            let Some(format) = log.format else { continue };
            let same = |(other, of_other, _): &&mut (&Log, LogFormat, usize)| {
                *of_other == format && other.wrapper == log.wrapper
            };
            match found.iter_mut().find(same) {
                Some((.., more)) => *more += 1,
                None => found.push((log, format, 0)),
            }
        }
        let text = |(log, format, more): (&Log, LogFormat, usize)| {
            let name = shown(&log.name, usize::MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let prefix = match log.wrapper {
                Wrapper::None => String::new(),
                wrapper => format!(", with a {} prefix", wrapper.as_str()),
            };
            format!("{name}{more}: {format}{prefix}")
        };
        found.into_iter().map(text).collect()
    }

    /// Returns an error message for the user if a log has lines but no requests, or if no log has a
    /// line.
    ///
    /// The message names the first line that can't be read, and the reason.
    ///
    /// ```
    /// use sluicegate_replay::LogReader;
    ///
    /// let error = LogReader::new("setup.sh").read(&b"#!/bin/sh\n"[..])?.unreadable();
    /// assert!(error.is_some_and(|error| error.contains("setup.sh:1: no known format")));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn unreadable(&self) -> Option<String> {
        if let Some(problem) = self.decisions.problem() {
            return Some(problem);
        }
        // A decision log that was rotated may have only other operations, or other limits.
        let is_read = |log: &Log| log.format == Some(LogFormat::Sluicegate) && log.headers > 0;
        let unread = |log: &Log| log.requests == 0 && log.lines > 0 && !is_read(log);
        if let Some(number) = self.logs.iter().position(unread) {
            let name = shown(&self.logs[number].name, usize::MAX);
            let first = self.malformed.first_of(number);
            return Some(first.map_or_else(
                || format!("{name} has no request, only a header"),
                |first| {
                    let (line, why, text) = (first.line, &first.why, &first.text);
                    format!(
                        "no line of {name} can be read: {name}:{line}: {why}; the line is {text}"
                    )
                },
            ));
        }
        if self.requests() > 0 {
            return None;
        }
        let names: Vec<_> = self.logs.iter().map(|log| shown(&log.name, usize::MAX)).collect();
        let names = names.join(", ");
        Some(match self.logs.iter().any(is_read) {
            true => format!("there is no request to replay: {names} has only other decisions"),
            false => format!("there is no request to replay: {names} is empty"),
        })
    }

    /// Returns the name of the logs in reports.
    pub(crate) fn name(&self) -> String {
        match &self.logs[..] {
            [] => String::new(),
            [log] => log.name.clone(),
            [first, more @ ..] => format!("{} and {} more", first.name, more.len()),
        }
    }

    /// Returns the names of the formats.
    pub(crate) fn formats(&self) -> Option<String> {
        let mut names: Vec<_> =
            self.logs.iter().filter_map(|log| log.format).map(LogFormat::as_str).collect();
        names.sort_unstable();
        names.dedup();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// Returns the key expression; `None` if the lines bring their own key.
    pub(crate) fn key(&self) -> Option<String> {
        let brings_key = self.format().is_some_and(LogFormat::brings_key);
        match &self.key {
            None if brings_key => None,
            None => Some(KeyExpression::default().to_string()),
            key => key.clone(),
        }
    }

    /// Returns a recording without requests. `key` is the key expression, if one was chosen.
    pub(crate) fn new(key: Option<String>, decisions: Arc<DecisionCounts>) -> Self {
        Self {
            logs: Vec::new(),
            key,
            malformed: MalformedLines::default(),
            keys: Keys::default(),
            requests: Requests::default(),
            period: None,
            durations: 0,
            keeps_durations: true,
            decisions,
            last_scaled: Vec::new(),
            proportion: Proportion::default(),
        }
    }

    /// Drops each duration once the start of its request is computed.
    pub(crate) const fn forget_durations(&mut self) {
        self.keeps_durations = false;
    }

    /// Adds a request under a key.
    pub(crate) fn add(&mut self, key: &[u8], stated: Stated) -> io::Result<()> {
        let Stated { start, cost, duration, then } = stated;
        let key = self.keys.number(key).ok_or_else(too_many)?;
        self.durations += u64::from(duration.is_some());
        let kept = if self.keeps_durations { duration.unwrap_or(0) } else { 0 };
        self.period.get_or_insert_with(|| Period::new(start)).extend(start);
        let detail = Detail::new(cost, kept, then);
        match self.proportion.next(then.sample) {
            1 => self.requests.add(key, start, detail),
            count => self.add_scaled(key, start, count, detail),
        }
    }

    /// Returns a recording of decisions that don't come from a log, for [`Recording::add_decision`].
    #[must_use]
    pub fn of_decisions(name: impl Into<String>) -> Self {
        let mut recording = Self::new(None, Arc::default());
        recording.forget_durations();
        let log = Log { format: Some(LogFormat::Sluicegate), ..Log::new(name.into()) };
        recording.logs.push(log);
        recording
    }

    /// Adds a decision. Call [`Recording::finish`] after the last.
    ///
    /// # Errors
    /// Returns an error if the recording would have more than 2^32 − 1 keys, or if a sample stands for too many requests.
    /// Returns an error if a temporary file can't be written.
    pub fn add_decision(&mut self, decision: &PastDecision<'_>) -> io::Result<()> {
        let PastDecision { time, key, cost, is_take, was_denied, sample } = *decision;
        let then = Then { was_denied, is_take, sample };
        self.add(key, Stated { start: time.as_micros(), cost, duration: None, then })
    }

    /// Adds `count` requests of a key, evenly spread over the time since the previous ones.
    fn add_scaled(&mut self, key: u32, end: u64, count: u64, detail: Detail) -> io::Result<()> {
        if self.requests.count() + count > MOST_SCALED {
            let message = format!(
                "the sample stands for more than {MOST_SCALED} requests: replay a shorter log"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let index = key as usize;
        let first = self.period.map_or(end, |period| period.first);
        if self.last_scaled.len() <= index {
            self.last_scaled.resize(index + 1, first);
        }
        let begin = std::mem::replace(&mut self.last_scaled[index], end).min(end);
        for number in 1..=count {
            let after = u128::from(end - begin) * u128::from(number) / u128::from(count);
            let at = begin + u64::try_from(after).unwrap_or(end - begin);
            self.requests.add(key, at, detail)?;
        }
        Ok(())
    }

    /// Sorts the requests, after the last log was added.
    ///
    /// # Errors
    /// Returns an error if a temporary file can't be written.
    pub fn finish(mut self) -> io::Result<Self> {
        self.requests.finish()?;
        Ok(self)
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

    /// Returns the times of the first and the last request.
    pub(crate) fn period(&self) -> Option<(Timestamp, Timestamp)> {
        let Period { first, last, .. } = self.period?;
        Some((Timestamp::from_micros_clamped(first), Timestamp::from_micros_clamped(last)))
    }

    /// Returns the buckets that cover the requests.
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
        assert_eq!((recording.lines(), recording.malformed.count()), (7, 1));
    }
}
