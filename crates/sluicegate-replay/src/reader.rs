//! Parses the bytes of a log into requests.

use std::io::{self, Read};

use crate::access::AccessLine;
use crate::json_line::JsonLine;
use crate::key::KeyExpression;
use crate::lines::{self, Line, Lines};
use crate::log_format::LogFormat;
use crate::malformed::Malformed;
use crate::record::{Moment, Record};
use crate::recording::Recording;
use crate::times::Times;

/// Reads logs. A log is any bytes; each of its lines is a request or malformed.
///
/// An access log has lines in the common or combined format; what such a line has beyond 65,536
/// bytes is left out. JSON lines have `time`, `key` and an optional `cost`, in at most 65,536
/// bytes. A `time` is RFC 3339 text or a number since the Unix epoch: seconds, from 10^11 on
/// milliseconds, from 10^14 on microseconds.
///
/// ```
/// use sluicegate_replay::{LogFormat, LogReader};
///
/// let log = "{\"time\":\"2026-01-01T00:00:00Z\",\"key\":\"alice\",\"cost\":3}\nno request\n";
/// let recording = LogReader::new("requests.jsonl").read(log.as_bytes())?;
/// assert_eq!(recording.format(), Some(LogFormat::Json));
/// assert_eq!((recording.lines(), recording.requests(), recording.malformed()), (2, 1, 1));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LogReader {
    name: String,
    format: Option<LogFormat>,
    key: KeyExpression,
}

impl LogReader {
    /// Reads any log, and takes the host for the key. The name is what reports call the log.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), format: None, key: KeyExpression::default() }
    }

    /// What kind of lines the log has; without it, the first that is well formed in one decides.
    #[must_use]
    pub const fn format(mut self, format: LogFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// What makes the key of a line of an access log; JSON lines bring their own.
    #[must_use]
    pub fn key(mut self, key: KeyExpression) -> Self {
        self.key = key;
        self
    }

    /// Reads a log to its end, plain or gzip.
    ///
    /// # Errors
    /// When the input can't be read, is damaged gzip, or has more than 2^32 − 1 requests.
    pub fn read(&self, input: impl Read) -> io::Result<Recording> {
        self.read_lines(&mut lines::unpacked(input)?)
    }

    fn read_lines(&self, lines: &mut Lines<impl Read>) -> io::Result<Recording> {
        let mut reader = Reader {
            recording: Recording::new(&self.name, self.format),
            key: &self.key,
            joined: Vec::new(),
            times: Times::default(),
        };
        while let Some(line) = lines.next()? {
            reader.recording.lines += 1;
            let read = match reader.recording.format {
                Some(LogFormat::Access) => reader.access(line.bytes)?,
                Some(LogFormat::Json) => reader.json(line)?,
                None => reader.either(line)?,
            };
            if let Err(why) = read {
                let number = reader.recording.lines;
                reader.recording.malformed.add(number, why);
            }
        }
        let mut recording = reader.recording;
        recording.sort()?;
        if recording.format != Some(LogFormat::Json) {
            recording.key = Some(self.key.to_string());
        }
        Ok(recording)
    }
}

/// A log that is being read.
struct Reader<'e> {
    recording: Recording,
    key: &'e KeyExpression,
    joined: Vec<u8>,
    times: Times,
}

/// Adds a line. A malformed one is not a failure; one that can't be stored is.
type ReadLine = io::Result<Result<(), Malformed>>;

impl Reader<'_> {
    fn either(&mut self, line: Line<'_>) -> ReadLine {
        if JsonLine::may_be(line.bytes) {
            let read = self.json(line)?;
            if read.is_ok() {
                self.recording.format = Some(LogFormat::Json);
                return Ok(read);
            }
            // A host may begin with a brace too.
            return Ok(match self.access(line.bytes)? {
                Ok(()) => {
                    self.recording.format = Some(LogFormat::Access);
                    Ok(())
                }
                Err(_) => read,
            });
        }
        let read = self.access(line.bytes)?;
        if read.is_ok() {
            self.recording.format = Some(LogFormat::Access);
        }
        Ok(read)
    }

    fn access(&mut self, line: &[u8]) -> ReadLine {
        let line = match AccessLine::read(line, &mut self.times) {
            Ok(line) => line,
            Err(why) => return Ok(Err(why)),
        };
        let record = line.record(self.key.fields());
        let key = self.key.key(&record, &mut self.joined);
        self.recording.add(key, &record, Moment::End).map(Ok)
    }

    fn json(&mut self, line: Line<'_>) -> ReadLine {
        // Of an access log the beginning is enough; an object has no end then.
        if line.is_cut && JsonLine::may_be(line.bytes) {
            return Ok(Err(Malformed::TooLong));
        }
        match JsonLine::read(line.bytes, &mut self.times) {
            Ok(line) => {
                let mut record = Record::at(line.time);
                record.cost = line.cost;
                self.recording.add(line.key.as_bytes(), &record, Moment::End).map(Ok)
            }
            Err(why) => Ok(Err(why)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(log: &[u8], format: Option<LogFormat>) -> Recording {
        LogReader { format, ..LogReader::new("log") }.read(log).unwrap()
    }

    const ACCESS: &[u8] = br#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#;
    const JSON: &[u8] = br#"{"time":1,"key":"k"}"#;

    #[test]
    fn the_first_well_formed_line_decides_the_format() {
        let log = |lines: [&[u8]; 4]| lines.join(&b'\n');
        let recording = read(&log([b"{", ACCESS, JSON, ACCESS]), None);
        assert_eq!((recording.format, recording.requests()), (Some(LogFormat::Access), 2));
        let recording = read(&log([b"x", JSON, ACCESS, JSON]), None);
        assert_eq!((recording.format, recording.requests()), (Some(LogFormat::Json), 2));
        let recording = read(&log([b"x", JSON, ACCESS, JSON]), Some(LogFormat::Access));
        assert_eq!((recording.requests(), recording.malformed.count()), (1, 3));
        let brace = [b"{".as_slice(), ACCESS].concat();
        let recording = read(&log([&brace, JSON, ACCESS, JSON]), None);
        assert_eq!((recording.format, recording.requests()), (Some(LogFormat::Access), 2));
    }

    /// Bytes that come near to being lines.
    fn nearly_a_log() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            Just(b"\n".to_vec()),
            Just(b" ".to_vec()),
            Just(ACCESS.to_vec()),
            Just(JSON.to_vec()),
            (0..ACCESS.len()).prop_map(|end| ACCESS[..end].to_vec()),
            (0..JSON.len()).prop_map(|end| JSON[..end].to_vec()),
            Just(br#"" 200 1 "-" "\"#.to_vec()),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_are_requests_or_malformed_lines(
            log in nearly_a_log(),
            key in prop::sample::subsequence(
                vec!["host", "user", "method", "path", "status", "agent"], 1..6),
            format in prop::option::of(prop_oneof![
                Just(LogFormat::Access), Just(LogFormat::Json)]),
        ) {
            let key = key.join("+").parse().unwrap();
            let reader = LogReader { format, ..LogReader::new("log").key(key) };
            // What looks like gzip is none here.
            let recording = reader.read_lines(&mut Lines::new(&log[..])).unwrap();
            prop_assert_eq!(recording.requests() + recording.malformed.count(), recording.lines);
            let breaks = log.iter().filter(|&&byte| byte == b'\n').count() as u64;
            let is_torn = log.last().is_some_and(|&byte| byte != b'\n');
            prop_assert_eq!(recording.lines, breaks + u64::from(is_torn));
            let parts = recording.parts().map(|part| part.unwrap().times().count() as u64);
            prop_assert_eq!(parts.sum::<u64>(), recording.requests());
        }
    }
}
