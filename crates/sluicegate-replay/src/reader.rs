//! Parses the bytes of logs into requests.

use std::io::{self, Read};
use std::sync::Arc;

use sluicegate_http::ClientAddress;

use crate::batch::parse_rest;
use crate::decision_counts::DecisionCounts;
use crate::format::detect::Detector;
use crate::format::pattern::Pattern;
use crate::format::wrapper::Wrapper;
use crate::format::{FieldNames, Parser};
use crate::key::KeyExpression;
use crate::lines::{Line, Lines};
use crate::log_format::LogFormat;
use crate::malformed::Malformed;
use crate::recognized::Recognized;
use crate::recording::{Log, Recording};
use crate::unpack::unpacked;

/// Reads logs. A log is any bytes; each of its lines is a request, a header or malformed.
///
/// By default the format is recognized from the first lines. Only the first 65,536 bytes of a line
/// are read; JSON, logfmt and tables need the whole line.
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
    fields: Option<FieldNames>,
    pattern: Option<Pattern>,
    key: Option<KeyExpression>,
    address: ClientAddress,
    keeps_durations: bool,
    /// The limit whose decisions are read of a decision log.
    limit: Option<String>,
    is_scaled: bool,
}

/// Number of requests from which starting threads pays off.
const FEW: u64 = 1_000;

/// Number of unreadable lines after which no format is recognized.
const FIRST_LINES: u64 = 1_000;

impl LogReader {
    /// Returns a reader for logs of any format, keyed by host. Reports use `name` for the log.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            format: None,
            fields: None,
            pattern: None,
            key: None,
            address: ClientAddress::peer(),
            keeps_durations: true,
            limit: None,
            is_scaled: false,
        }
    }

    /// Sets the format. By default, it is recognized from the first lines.
    #[must_use]
    pub const fn format(mut self, format: LogFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// Names the parts of the lines, for formats that have [names](LogFormat::has_names).
    #[must_use]
    pub fn fields(mut self, fields: FieldNames) -> Self {
        self.fields = Some(fields);
        self
    }

    /// Sets the pattern of the lines.
    #[must_use]
    pub fn pattern(mut self, pattern: Pattern) -> Self {
        self.pattern = Some(pattern);
        self
    }

    /// Sets the fields that form the key. By default, [`LogFormat::Json`] lines bring their own
    /// key, and other formats use the client's address.
    #[must_use]
    pub fn key(mut self, key: KeyExpression) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the prefixes of addresses that count as one client. A log has no proxies to trust, so
    /// only the prefixes apply.
    #[must_use]
    pub fn client_address(mut self, address: ClientAddress) -> Self {
        self.address = address;
        self
    }

    /// Drops durations after the starts of requests are computed. Only policies that count requests
    /// in flight need them. Saves 16 bytes per request.
    #[must_use]
    pub const fn forget_durations(mut self) -> Self {
        self.keeps_durations = false;
        self
    }

    /// Reads only the decisions of this limit, of a decision log. Other logs have none of its limits.
    #[must_use]
    pub fn limit(mut self, name: impl Into<String>) -> Self {
        self.limit = Some(name.into());
        self
    }

    /// Lets each decision of a sample stand for those that it was drawn from. They are spread evenly over the time since
    /// the previous one of its key, so the results are estimates. Without this, a sampled log is [unreadable](Recording::unreadable).
    #[must_use]
    pub const fn scaled(mut self) -> Self {
        self.is_scaled = true;
        self
    }

    /// Reads a log to its end, compressed or not.
    ///
    /// # Errors
    /// Returns an error if the input can't be read, its compressed data is damaged, or its lines
    /// lack a field of the key. Also if the recording would have more than 2^32 − 1 requests.
    pub fn read(&self, input: impl Read + Send) -> io::Result<Recording> {
        let mut recording = self.begin();
        self.add(&mut recording, self.name.clone(), input)?;
        recording.finish()
    }

    /// Returns a recording without requests, for several logs.
    #[must_use]
    pub fn begin(&self) -> Recording {
        let decisions = DecisionCounts::new(self.limit.clone(), self.is_scaled);
        let key = self.key.as_ref().map(ToString::to_string);
        let mut recording = Recording::new(key, Arc::new(decisions));
        if !self.keeps_durations {
            recording.forget_durations();
        }
        recording
    }

    /// Adds the requests of a log to a recording. Call [`Recording::finish`] after the last.
    ///
    /// Each log may have its own format. The order of logs matters only for requests with equal
    /// times.
    ///
    /// # Errors
    /// See [`LogReader::read`].
    pub fn add(
        &self,
        recording: &mut Recording,
        name: impl Into<String>,
        input: impl Read + Send,
    ) -> io::Result<()> {
        self.add_lines(recording, name.into(), &mut Lines::new(unpacked(input)?))
    }

    fn add_lines(
        &self,
        recording: &mut Recording,
        name: String,
        lines: &mut Lines<impl Read + Send>,
    ) -> io::Result<()> {
        let address = |key: KeyExpression| key.with_client_address(self.address.clone());
        let key = address(self.key.clone().unwrap_or_default());
        let decisions = Arc::clone(&recording.decisions);
        let mut reader = Reader {
            log: Log::new(name),
            number: recording.logs.len(),
            recording,
            is_key_chosen: self.key.is_some(),
            detector: Detector {
                format: self.format,
                fields: self.fields.as_ref(),
                pattern: self.pattern.as_ref(),
                wanted: key.fields(),
                decisions: &decisions,
            },
            key,
            found: None,
        };
        while let Some(line) = lines.next()? {
            reader.log.lines += 1;
            reader.line(line)?;
            if reader.found.is_none() && reader.log.malformed >= FIRST_LINES {
                break;
            }
            if reader.log.requests == FEW {
                reader.rest(lines)?;
            }
        }
        reader.end();
        Ok(())
    }
}

/// A log that is being read.
struct Reader<'e> {
    log: Log,
    /// Number of the log in the recording.
    number: usize,
    recording: &'e mut Recording,
    key: KeyExpression,
    is_key_chosen: bool,
    detector: Detector<'e>,
    found: Option<Recognized>,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        if line.is_blank() {
            self.malformed(line.bytes, Malformed::Blank);
            return Ok(());
        }
        if self.found.is_none() {
            if Detector::is_directive(line.bytes) {
                self.log.headers += 1;
                return Ok(());
            }
            match self.detector.detect(line.bytes) {
                Ok((parser, wrapper)) => self.decide(parser, wrapper),
                Err(why) => {
                    self.malformed(line.bytes, if line.is_cut { Malformed::TooLong } else { why });
                    return Ok(());
                }
            }
        }
        let Some(recognized) = &mut self.found else { return Ok(()) };
        if self.log.requests == 0 {
            check(&recognized.parser, &self.key)?;
        }
        match recognized.read(line) {
            Ok(Some((key, stated))) => {
                self.recording.add(key, stated)?;
                self.log.requests += 1;
            }
            Ok(None) => self.log.headers += 1,
            Err(why) => self.malformed(line.bytes, why),
        }
        Ok(())
    }

    /// Reads the rest of a log, on several threads if its lines are costly to parse.
    fn rest(&mut self, lines: &mut Lines<impl Read + Send>) -> io::Result<()> {
        let costly = self.found.as_ref().filter(|found| found.parser.is_costly());
        let Some(recognized) = costly.cloned() else {
            return Ok(());
        };
        parse_rest(&recognized, lines, |batch| {
            let before = self.log.lines;
            for (number, line, why) in batch.malformed() {
                self.log.lines = before + number;
                self.malformed(line, why);
            }
            for (key, stated) in batch.requests() {
                self.recording.add(key, stated)?;
                self.log.requests += 1;
            }
            self.log.headers += batch.headers;
            self.log.lines = before + batch.lines;
            Ok(())
        })
    }

    fn decide(&mut self, parser: Parser, wrapper: Wrapper) {
        if parser.format().brings_key() && !self.is_key_chosen {
            self.key = KeyExpression::brought_along();
        }
        self.log.format = Some(parser.format());
        self.log.wrapper = wrapper;
        self.found = Some(Recognized::new(parser, wrapper, self.key.clone()));
    }

    fn malformed(&mut self, line: &[u8], why: Malformed) {
        self.log.malformed += 1;
        let Self { found, detector, log, .. } = self;
        let why = || match found {
            Some(Recognized { parser, .. }) => parser.why(why),
            None => detector.why(why),
        };
        self.recording.malformed.add(self.number, log.lines, line, why);
    }

    fn end(mut self) {
        if let Some(Recognized { parser, .. }) = &self.found
            && let Some(why) = parser.end()
        {
            // The line was counted as the beginning of another.
            self.log.headers -= 1;
            self.malformed(b"", why);
        }
        self.recording.logs.push(self.log);
    }
}

/// Checks that the log's lines can have the fields of the key.
fn check(parser: &Parser, key: &KeyExpression) -> io::Result<()> {
    let missing = key.fields().missing_in(parser.fields());
    let Some(first) = missing.first() else { return Ok(()) };
    let format = parser.format();
    let fix = if format.has_names() {
        format!("say where it is, as in --fields {first}=NAME, or leave it out of --key")
    } else {
        "leave it out of --key".to_owned()
    };
    let message =
        format!("the key needs `{first}`, which lines of the format {format} lack: {fix}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::lines::MAX_LINE;

    fn read(log: &[u8], format: Option<LogFormat>) -> Recording {
        LogReader { format, ..LogReader::new("log") }.read(log).unwrap()
    }

    const ACCESS: &[u8] = br#"h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1"#;
    const JSON: &[u8] = br#"{"time":1,"key":"k"}"#;

    #[test]
    fn the_first_well_formed_line_decides_the_format() {
        let log = |lines: [&[u8]; 4]| lines.join(&b'\n');
        let recording = read(&log([b"{", ACCESS, JSON, ACCESS]), None);
        assert_eq!((recording.format(), recording.requests()), (Some(LogFormat::Common), 2));
        let recording = read(&log([b"x", JSON, ACCESS, JSON]), None);
        assert_eq!((recording.format(), recording.requests()), (Some(LogFormat::Json), 2));
        let recording = read(&log([b"x", JSON, ACCESS, JSON]), Some(LogFormat::Common));
        assert_eq!((recording.requests(), recording.malformed.count()), (1, 3));
        let brace = [b"{".as_slice(), ACCESS].concat();
        let recording = read(&log([&brace, JSON, ACCESS, JSON]), None);
        assert_eq!((recording.format(), recording.requests()), (Some(LogFormat::Common), 2));
    }

    #[test]
    fn a_log_of_garbage_is_given_up_after_its_first_lines() {
        let recording = read(&b"garbage\n".repeat(5_000), None);
        assert_eq!(recording.lines(), FIRST_LINES);
        assert!(recording.unreadable().unwrap().contains("log:1: no known format"));
    }

    #[test]
    fn a_long_log_is_counted_line_by_line() {
        let mut log = Vec::new();
        for number in 0..30_000 {
            let line = match number {
                700 | 20_000 => "{\"time\":1}".to_owned(),
                25_000 => format!("{{\"time\":1,\"key\":\"{}\"}}", "k".repeat(MAX_LINE)),
                _ => format!("{{\"time\":{number},\"key\":\"{}\"}}", number % 9),
            };
            log.extend_from_slice(line.as_bytes());
            log.push(b'\n');
        }
        let recording = read(&log, None);
        assert_eq!((recording.lines(), recording.requests()), (30_000, 29_997));
        assert_eq!((recording.malformed(), recording.keys.len()), (3, 9));
        let lines: Vec<_> =
            recording.malformed.first().iter().map(|line| (line.line, &*line.why)).collect();
        let missing = "`key` is missing or empty, or neither text nor a number";
        let long = "it is longer than 65536 bytes";
        assert_eq!(lines, [(701, missing), (20_001, missing), (25_001, long)]);
    }

    #[test]
    fn a_quoted_field_that_never_ends_is_a_line_that_cannot_be_read() {
        let recording = read(b"time,key\n1,\"a\nb\"\n2,\"c\nd", None);
        assert_eq!((recording.lines(), recording.requests()), (5, 1));
        assert_eq!((recording.headers(), recording.malformed()), (3, 1));
    }

    /// Generates bytes that are almost valid lines.
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
            Just(b"#Fields: date time c-ip\n2024-01-01 00:00:00 h".to_vec()),
            Just(b"time,key\n1,\"a".to_vec()),
            Just(b"time=1 key=\"a".to_vec()),
            prop::sample::select(LogFormat::ALL.to_vec())
                .prop_map(|format| format.example().as_bytes().to_vec()),
        ];
        prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_are_requests_headers_or_malformed_lines(
            log in nearly_a_log(),
            key in prop::sample::subsequence(vec!["host", "user", "method", "path"], 1..4),
            format in prop::option::of(prop::sample::select(LogFormat::ALL.to_vec())),
        ) {
            let key = key.join("+").parse().unwrap();
            let reader = LogReader { format, ..LogReader::new("log").key(key) };
            let mut recording = reader.begin();
            // This test doesn't unpack, so input that looks packed is possible.
            match reader.add_lines(&mut recording, "log".to_owned(), &mut Lines::new(&log[..])) {
                Ok(()) => {}
                // Not every format has every field.
                Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
            }
            let recording = recording.finish().unwrap();
            let read = recording.requests() + recording.malformed.count() + recording.headers();
            if !recording.logs.is_empty() {
                prop_assert_eq!(read, recording.lines());
                let breaks = log.iter().filter(|&&byte| byte == b'\n').count() as u64;
                let is_torn = log.last().is_some_and(|&byte| byte != b'\n');
                prop_assert_eq!(recording.lines(), breaks + u64::from(is_torn));
            }
            let parts = recording.parts().map(|part| part.unwrap().times().count() as u64);
            prop_assert_eq!(parts.sum::<u64>(), recording.requests());
        }
    }
}
