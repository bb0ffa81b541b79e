//! A log, read: who asked when, and at what cost.

use std::io::{self, Read};

use clap::ValueEnum;
use sluicegate_core::{Cost, Costs, Timestamp};

use super::access::AccessLine;
use super::json_line::JsonLine;
use super::key::KeyExpression;
use super::keys::Keys;
use super::lines::{Line, Lines};
use super::malformed::{Malformed, MalformedLines};
use super::stamp::Stamps;
use super::timeline::Timeline;

/// What kind of lines a log has.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Common or combined: `HOST IDENT USER [TIME] "REQUEST" …`.
    Access,
    /// One JSON object a line: `{"time":…,"key":…,"cost":…}`.
    Json,
}

impl LogFormat {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Json => "json",
        }
    }
}

/// The requests of a log, key by key, those of one key in order of time, those of one time in the
/// order of the file.
///
/// Keys share nothing, so answers found in this order are those of the whole file in order of
/// time.
pub(super) struct Recording {
    pub(super) format: Option<LogFormat>,
    pub(super) lines: u64,
    pub(super) malformed: MalformedLines,
    pub(super) keys: Keys,
    requests: Vec<Request>,
    /// By number of the request; stays empty until a line has a cost of its own.
    costs: Vec<Option<Cost>>,
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
pub(super) struct OfKey<'r> {
    pub(super) key: u32,
    requests: &'r [Request],
    costs: &'r [Option<Cost>],
}

impl OfKey<'_> {
    /// How many there are; at least one.
    pub(super) const fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// When each was made, and what it costs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Timestamp, Costs<'static>)> {
        self.requests.iter().map(|request| {
            let cost = self.costs.get(request.number() as usize).copied().flatten();
            (Timestamp::from_micros_clamped(request.micros()), cost.map_or(Costs::Own, Costs::Same))
        })
    }
}

impl Recording {
    /// Reads a log to its end. Without a format, the first line that is well formed in one
    /// decides.
    pub(super) fn read(
        lines: &mut Lines<impl Read>,
        format: Option<LogFormat>,
        key: &KeyExpression,
    ) -> io::Result<Self> {
        let mut reader = Reader {
            recording: Self {
                format,
                lines: 0,
                malformed: MalformedLines::default(),
                keys: Keys::default(),
                requests: Vec::new(),
                costs: Vec::new(),
            },
            key,
            joined: Vec::new(),
            stamps: Stamps::default(),
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
        recording.requests.sort_unstable();
        Ok(recording)
    }

    /// How many requests there are.
    pub(super) const fn len(&self) -> u64 {
        self.requests.len() as u64
    }

    /// The requests, key by key.
    pub(super) fn by_key(&self) -> impl Iterator<Item = OfKey<'_>> {
        self.requests.chunk_by(|a, b| a.key() == b.key()).map(|requests| OfKey {
            key: requests[0].key(),
            requests,
            costs: &self.costs,
        })
    }

    /// When the first and the last request were made.
    pub(super) fn period(&self) -> Option<(Timestamp, Timestamp)> {
        let at = Timestamp::from_micros_clamped;
        Some((at(self.times().min()?), at(self.times().max()?)))
    }

    /// The buckets that the requests lie in.
    pub(super) fn timeline(&self) -> Timeline {
        Timeline::new(self.times())
    }

    /// When each request was made, in µs since the epoch, in no particular order.
    pub(super) fn times(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().map(|request| request.micros())
    }
}

struct Reader<'e> {
    recording: Recording,
    key: &'e KeyExpression,
    joined: Vec<u8>,
    stamps: Stamps,
}

/// A line that is no request is no failure; one that can't be kept is.
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
        let line = match AccessLine::read(line, &mut self.stamps) {
            Ok(line) => line,
            Err(why) => return Ok(Err(why)),
        };
        let key = self.key.key(&line, &mut self.joined);
        self.recording.add(key, line.time, None).map(Ok)
    }

    fn json(&mut self, line: Line<'_>) -> ReadLine {
        // Of an access log the beginning is enough; an object has no end then.
        if line.is_cut && JsonLine::may_be(line.bytes) {
            return Ok(Err(Malformed::TooLong));
        }
        match JsonLine::read(line.bytes) {
            Ok(line) => self.recording.add(line.key.as_bytes(), line.time, line.cost).map(Ok),
            Err(why) => Ok(Err(why)),
        }
    }
}

impl Recording {
    fn add(&mut self, key: &[u8], micros: u64, cost: Option<Cost>) -> io::Result<()> {
        let number = u32::try_from(self.requests.len()).ok().zip(self.keys.number(key));
        let Some((number, key)) = number else {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it has more than 4,294,967,295 requests: split it",
            ));
        };
        if cost.is_some() {
            self.costs.resize(self.requests.len(), None);
            self.costs.push(cost);
        }
        self.requests.push(Request::new(key, micros, number));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(log: &[u8], format: Option<LogFormat>) -> Recording {
        Recording::read(&mut Lines::new(log), format, &KeyExpression::default()).unwrap()
    }

    fn order(recording: &Recording) -> Vec<(&[u8], u64, u64)> {
        let mut all = Vec::new();
        for of_key in recording.by_key() {
            for (at, costs) in of_key.iter() {
                let cost = if let Costs::Same(cost) = costs { cost.get() } else { 0 };
                all.push((recording.keys.get(of_key.key), at.as_micros(), cost));
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
        let recording = read(log, None);
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

    const ACCESS: &[u8] = br#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#;
    const JSON: &[u8] = br#"{"time":1,"key":"k"}"#;

    #[test]
    fn the_first_well_formed_line_decides_the_format() {
        let log = |lines: [&[u8]; 4]| lines.join(&b'\n');
        let recording = read(&log([b"{", ACCESS, JSON, ACCESS]), None);
        assert_eq!((recording.format, recording.len()), (Some(LogFormat::Access), 2));
        let recording = read(&log([b"x", JSON, ACCESS, JSON]), None);
        assert_eq!((recording.format, recording.len()), (Some(LogFormat::Json), 2));
        let recording = read(&log([b"x", JSON, ACCESS, JSON]), Some(LogFormat::Access));
        assert_eq!((recording.len(), recording.malformed.count()), (1, 3));
        let brace = [b"{".as_slice(), ACCESS].concat();
        let recording = read(&log([&brace, JSON, ACCESS, JSON]), None);
        assert_eq!((recording.format, recording.len()), (Some(LogFormat::Access), 2));
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
            let recording = Recording::read(&mut Lines::new(&log[..]), format, &key).unwrap();
            prop_assert_eq!(recording.len() + recording.malformed.count(), recording.lines);
            let breaks = log.iter().filter(|&&byte| byte == b'\n').count() as u64;
            let is_torn = log.last().is_some_and(|&byte| byte != b'\n');
            prop_assert_eq!(recording.lines, breaks + u64::from(is_torn));
            prop_assert_eq!(recording.by_key().map(|of_key| of_key.len()).sum::<u64>(), recording.len());
        }
    }
}
