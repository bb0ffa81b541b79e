//! The logs that the command line names.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use indicatif::ProgressBar;
use sluicegate::http::ClientAddress;
use sluicegate_core::printable;
use sluicegate_replay::{FieldNames, KeyExpression, LogFormat, LogReader, Pattern, Recording};

use crate::output::{Failure, complain};

/// The logs and how they are read.
#[derive(Args, Clone, Debug)]
pub(super) struct LogArgs {
    /// Recorded logs: files, globs, or `-` for standard input; may be repeated.
    ///
    /// Files may be packed by gzip, zstd, bzip2 or xz, in any order: the requests of all logs are
    /// played in order of time. A file is read up to the size that it has at the start.
    #[arg(long, value_name = "FILE", num_args = 1.., required = true)]
    log: Vec<PathBuf>,

    /// The logs' format; `auto` recognizes it from the first lines of each log.
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = log_format())]
    log_format: ChosenFormat,

    /// The names of a request's parts in JSON, logfmt, CSV and W3C logs: `time=ts,key=client.ip`.
    ///
    /// A JSON name is a path joined by dots. Parts are time (the end of the request), start (its
    /// start), date (the day, if time is the time of day), key and cost. Further parts are duration
    /// (in seconds; duration_ms, duration_us, duration_ns), user, method, path, status and agent. A
    /// time is RFC 3339, or a number of seconds, milliseconds, microseconds or nanoseconds since
    /// 1970, quoted or not.
    #[arg(long, value_name = "PART=NAME,…")]
    fields: Option<FieldNames>,

    /// A regular expression for any other log; its named groups are the parts of a request.
    ///
    /// The groups have the names of --fields: `^(?<key>\S+) \[(?<time>[^]]+)\]`.
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["fields", "log_format"])]
    pattern: Option<Pattern>,

    /// Let each allowed decision of a sampled decision log stand for all that it was drawn from.
    ///
    /// They are spread evenly over the time since the previous one of their key, so all numbers are estimates.
    #[arg(long)]
    scale: bool,
}

/// The value of `--log-format`; `None` is `auto`.
#[derive(Clone, Copy, Debug)]
struct ChosenFormat(Option<LogFormat>);

fn log_format() -> impl clap::builder::TypedValueParser<Value = ChosenFormat> {
    let names = LogFormat::ALL.map(LogFormat::as_str);
    PossibleValuesParser::new(["auto"].into_iter().chain(names))
        .map(|name| ChosenFormat(name.parse().ok()))
}

impl LogArgs {
    /// Reads the logs. Keeps the durations of requests if the policies need them.
    pub(super) fn read(
        &self,
        key: Option<KeyExpression>,
        limit: Option<&str>,
        address: ClientAddress,
        needs_durations: bool,
    ) -> Result<Recording, Failure> {
        let mut reader = LogReader::new("").client_address(address);
        if !needs_durations {
            reader = reader.forget_durations();
        }
        if let Some(limit) = limit {
            reader = reader.limit(limit);
        }
        if self.scale {
            reader = reader.scaled();
        }
        if let Some(key) = key {
            reader = reader.key(key);
        }
        if let ChosenFormat(Some(format)) = self.log_format {
            if self.fields.is_some() && !format.has_names() {
                return Err(Failure::usage(format_args!(
                    "--fields names parts of JSON, logfmt, CSV and W3C logs: leave it out, because \
                     the parts of {format} have fixed places"
                )));
            }
            reader = reader.format(format);
        }
        if let Some(fields) = &self.fields {
            reader = reader.fields(fields.clone());
        }
        if let Some(pattern) = &self.pattern {
            reader = reader.pattern(pattern.clone());
        }
        let recording = self.read_with(&reader)?;
        if self.pattern.is_none() && self.log_format.0.is_none() {
            for recognized in recording.recognized() {
                complain(format_args!("note: recognized the format of {recognized}"));
            }
        }
        recording.unreadable().map_or(Ok(recording), |error| Err(Failure::usage(error)))
    }

    fn read_with(&self, reader: &LogReader) -> Result<Recording, Failure> {
        let bar = super::progress("reading", 0);
        let mut recording = reader.begin();
        for path in self.paths()? {
            let name = path.display().to_string();
            let unreadable = |error: io::Error| {
                let name = if name.is_empty() { "(empty)".to_owned() } else { printable(&name) };
                Failure::usage(format_args!("{name} can't be read: {error}"))
            };
            let log = open_log(&path, &bar).map_err(unreadable)?;
            reader.add(&mut recording, &*name, log).map_err(unreadable)?;
        }
        bar.finish_and_clear();
        let unwritable = |error: io::Error| {
            Failure::usage(format_args!("a temporary file of the logs can't be written: {error}"))
        };
        recording.finish().map_err(unwritable)
    }

    /// Returns the files to read. Matches of a glob are sorted by name. The name of an existing
    /// file isn't a glob.
    fn paths(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut paths = Vec::new();
        for path in &self.log {
            match path.to_str() {
                Some(pattern) if pattern.contains(['*', '?', '[']) && !path.exists() => {
                    let invalid = |error: &dyn std::fmt::Display| {
                        let pattern = printable(pattern);
                        Failure::usage(format_args!("--log: `{pattern}` isn't a glob: {error}"))
                    };
                    let before = paths.len();
                    for found in glob::glob(pattern).map_err(|error| invalid(&error))? {
                        let found = found.map_err(|error| invalid(&error))?;
                        if !found.is_dir() {
                            paths.push(found);
                        }
                    }
                    if paths.len() == before {
                        let pattern = printable(pattern);
                        return Err(Failure::usage(format_args!(
                            "--log: no file matches `{pattern}`"
                        )));
                    }
                }
                _ => paths.push(path.clone()),
            }
        }
        // Read a file once, even if it is named twice: repeating its requests would double the
        // load.
        let mut seen: Vec<PathBuf> = Vec::new();
        for path in &paths {
            let place = path.canonicalize().unwrap_or_else(|_| path.clone());
            if seen.contains(&place) {
                let path = printable(&path.display().to_string());
                return Err(Failure::usage(format_args!("--log: {path} is given twice")));
            }
            seen.push(place);
        }
        Ok(paths)
    }
}

/// Opens a file, or standard input for the path `-`. `bar` counts the bytes read from the file,
/// before decompression.
fn open_log(path: &Path, bar: &ProgressBar) -> io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a directory: name the files in it, as in --log 'DIR/*.log'",
        ));
    }
    // Don't read beyond the current size of a log that is being written. Special files have no
    // length.
    let length = if about.is_file() && about.len() > 0 { about.len() } else { u64::MAX };
    bar.inc_length(about.len());
    Ok(Box::new(bar.wrap_read(file.take(length))))
}
