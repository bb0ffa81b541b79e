//! Reads the lines of a log whose format is known.

use std::borrow::Cow;
use std::sync::Arc;

use regex::bytes::CaptureLocations;

use super::access::AccessLine;
use super::columns::{Columns, Csv, w3c};
use super::decisions::DecisionLines;
use super::json::Paths;
use super::names::{FieldNames, Named};
use super::pattern::Pattern;
use super::role::Role;
use super::values::{Assembler, Values};
use super::words::{self, Layout};
use super::{logfmt, names};
use crate::decision_counts::DecisionCounts;
use crate::lines::MAX_LINE;
use crate::log_format::LogFormat;
use crate::malformed::Malformed;
use crate::record::{Field, Fields, Moment, Record};
use crate::times::Times;

/// Reads lines of one format.
#[derive(Clone, Debug)]
pub(crate) struct Parser {
    format: LogFormat,
    wanted: Fields,
    assembler: Assembler,
    times: Times,
    lines: Lines,
    /// Possible names of parts, for formats with names.
    names: Vec<Named>,
}

/// The state that a format's parser needs between lines.
#[derive(Clone, Debug)]
enum Lines {
    Access {
        has_vhost: bool,
    },
    Words(Layout),
    Decisions(Box<DecisionLines>),
    /// `None` until a line has the required parts.
    Json(Option<Paths>),
    /// Chosen names; `None` until a line has the required parts.
    Logfmt(Option<Vec<Named>>),
    Csv {
        columns: Option<Columns>,
        csv: Box<Csv>,
        open: Vec<u8>,
    },
    W3c(Option<Columns>),
    Pattern(Pattern, CaptureLocations),
}

impl Parser {
    /// Returns a parser for the `wanted` parts. The user's names replace those of the format.
    pub(crate) fn new(format: LogFormat, user: Option<&FieldNames>, wanted: Fields) -> Self {
        let lines = match format {
            LogFormat::Common | LogFormat::Combined => Lines::Access { has_vhost: false },
            LogFormat::VhostCombined => Lines::Access { has_vhost: true },
            LogFormat::Alb => Lines::Words(words::ALB),
            LogFormat::Envoy => Lines::Words(words::ENVOY),
            LogFormat::Istio => Lines::Words(words::ISTIO),
            LogFormat::Haproxy => Lines::Words(words::HAPROXY),
            LogFormat::Sluicegate
            | LogFormat::Json
            | LogFormat::NginxJson
            | LogFormat::Caddy
            | LogFormat::Traefik
            | LogFormat::EnvoyJson
            // Patterns and decision logs have separate constructors.
            | LogFormat::Pattern => Lines::Json(None),
            LogFormat::Logfmt => Lines::Logfmt(None),
            LogFormat::Csv => {
                Lines::Csv { columns: None, csv: Box::new(Csv::new(b',')), open: Vec::new() }
            }
            LogFormat::W3c | LogFormat::Cloudfront => Lines::W3c(None),
        };
        let names = names::of(format, user);
        Self {
            format,
            wanted,
            assembler: Assembler::default(),
            times: Times::default(),
            lines,
            names,
        }
    }

    /// Returns a parser for lines that a pattern describes.
    pub(crate) fn pattern(pattern: &Pattern, wanted: Fields) -> Self {
        let locations = pattern.locations();
        Self {
            lines: Lines::Pattern(pattern.clone(), locations),
            ..Self::new(LogFormat::Pattern, None, wanted)
        }
    }

    /// Returns a parser for a decision log.
    pub(crate) fn decisions(counts: Arc<DecisionCounts>) -> Self {
        let lines = Lines::Decisions(Box::new(DecisionLines::new(counts)));
        Self { lines, ..Self::new(LogFormat::Sluicegate, None, Fields::default()) }
    }

    pub(crate) const fn format(&self) -> LogFormat {
        self.format
    }

    /// Returns `true` if a line can be read without its end.
    pub(crate) const fn reads_beginnings(&self) -> bool {
        matches!(self.lines, Lines::Access { .. } | Lines::Words(_) | Lines::Pattern(..))
    }

    /// Returns `true` if parsing a line takes longer than adding its request, and depends on no
    /// other line.
    pub(crate) const fn is_costly(&self) -> bool {
        matches!(
            self.lines,
            Lines::Decisions(_) | Lines::Json(_) | Lines::Logfmt(_) | Lines::Pattern(..)
        )
    }

    /// Returns the texts that the log's lines can have.
    pub(crate) fn fields(&self) -> Fields {
        match &self.lines {
            Lines::Access { .. } => Fields::ALL,
            Lines::Words(layout) => words::fields(layout),
            Lines::Csv { columns: Some(columns), .. } | Lines::W3c(Some(columns)) => {
                columns.fields()
            }
            Lines::Decisions(_) => Field::Host.into(),
            Lines::Pattern(pattern, _) => pattern.fields(),
            _ => self.names.iter().filter_map(|(role, ..)| role.field()).collect(),
        }
    }

    /// Reads a line that isn't blank, and returns the moment that its time states. Returns `None`
    /// for a header, or a line that the next one continues.
    pub(crate) fn read<'p>(
        &'p mut self,
        line: &'p [u8],
        record: &mut Record<'p>,
    ) -> Result<Option<Moment>, Malformed> {
        let mut values = Values::default();
        match &mut self.lines {
            Lines::Access { has_vhost } => {
                let line = if *has_vhost { AccessLine::after_vhost(line)? } else { line };
                AccessLine::read(line, &mut self.times)?.write(record, self.wanted);
                return Ok(Some(Moment::End));
            }
            Lines::Decisions(lines) => return lines.read(line, record),
            Lines::Words(layout) => values = words::read(layout, line)?,
            Lines::Json(paths) => {
                if paths.is_none() {
                    let names = choose(&self.names, |name| {
                        let mut values = Values::default();
                        Paths::new([name.clone()]).read(line, &mut values)?;
                        Ok(values.get(name.0).is_some())
                    })?;
                    *paths = Some(Paths::new(used(names, self.wanted)));
                }
                paths.as_ref().ok_or(Malformed::NotJson)?.read(line, &mut values)?;
            }
            Lines::Logfmt(chosen) => {
                if chosen.is_none() {
                    let names = choose(&self.names, |name| {
                        let values = logfmt::read(std::slice::from_ref(name), line);
                        values.map(|values| values.get(name.0).is_some())
                    })?;
                    *chosen = Some(used(names, self.wanted));
                }
                values = logfmt::read(chosen.as_deref().unwrap_or_default(), line)?;
            }
            Lines::Csv { columns: columns @ None, csv, .. } => {
                let (found, found_csv) = csv_header(&self.names, line)?;
                *columns = Some(found);
                **csv = found_csv;
                return Ok(None);
            }
            Lines::Csv { columns: Some(columns), csv, open } => {
                let is_whole = if open.is_empty() {
                    csv.split(line)
                } else {
                    open.push(b'\n');
                    open.extend_from_slice(line);
                    csv.split(open)
                };
                if !is_whole {
                    if open.is_empty() {
                        open.extend_from_slice(line);
                    } else if open.len() > MAX_LINE {
                        open.clear();
                        return Err(Malformed::Open);
                    }
                    return Ok(None);
                }
                open.clear();
                values = columns.read(csv.fields())?;
            }
            Lines::W3c(columns) => {
                if let Some(directive) = line.strip_prefix(b"#") {
                    if let Some(header) = directive.strip_prefix(b"Fields:") {
                        *columns = Some(w3c_header(&self.names, header)?);
                    }
                    return Ok(None);
                }
                values = columns.as_ref().ok_or(Malformed::NoHeader)?.read(w3c(line))?;
            }
            Lines::Pattern(pattern, locations) => values = pattern.read(locations, line)?,
        }
        self.assembler.write(&values, self.wanted, record).map(Some)
    }

    /// Returns why the log's last line is incomplete, if it is.
    pub(crate) fn end(&self) -> Option<Malformed> {
        let is_open = matches!(&self.lines, Lines::Csv { open, .. } if !open.is_empty());
        is_open.then_some(Malformed::Open)
    }

    /// Describes why a line isn't a request.
    pub(crate) fn why(&self, malformed: Malformed) -> String {
        let name = |role: Role| {
            let names = self.names.iter().filter(|(other, ..)| *other == role);
            match names.map(|(_, _, name)| &**name).collect::<Vec<_>>()[..] {
                [] => Cow::Borrowed(role.name()),
                [name] => Cow::Borrowed(name),
                [first, .., last] => Cow::Owned(format!("{first}` … `{last}")),
            }
            .into_owned()
        };
        malformed.why(name, self.format.example())
    }
}

/// Chooses the first name of each role that `is_there`. A role that isn't required gets its first
/// name, and may appear in a later line.
fn choose(
    names: &[Named],
    is_there: impl Fn(&Named) -> Result<bool, Malformed>,
) -> Result<Vec<Named>, Malformed> {
    let mut chosen: Vec<Named> = Vec::new();
    let mut missing = Vec::new();
    for name in names {
        if chosen.iter().any(|(role, ..)| *role == name.0) {
            continue;
        }
        if is_there(name)? {
            chosen.push(name.clone());
        } else {
            missing.push(name);
        }
    }
    check(|role| chosen.iter().any(|(other, ..)| *other == role))?;
    for name in missing {
        let is_time = matches!(name.0, Role::Time | Role::Start | Role::Date);
        if !is_time && chosen.iter().all(|(role, ..)| *role != name.0) {
            chosen.push(name.clone());
        }
    }
    Ok(chosen)
}

/// Checks that a log has the parts that every request needs.
fn check(has: impl Fn(Role) -> bool) -> Result<(), Malformed> {
    if !has(Role::Time) && !has(Role::Start) {
        return Err(Malformed::Missing(Role::Time));
    }
    if has(Role::Text(Field::Host)) {
        Ok(())
    } else {
        Err(Malformed::Missing(Role::Text(Field::Host)))
    }
}

/// Returns the names whose parts are used.
fn used(names: Vec<Named>, wanted: Fields) -> Vec<Named> {
    let is_used = |role: &Role| match role {
        Role::Text(Field::Host) => true,
        Role::Text(field) => wanted.has(*field),
        _ => true,
    };
    names.into_iter().filter(|(role, ..)| is_used(role)).collect()
}

/// Parses the header of a table, with the delimiter that yields the largest number of columns.
fn csv_header(names: &[Named], line: &[u8]) -> Result<(Columns, Csv), Malformed> {
    let tables = Csv::DELIMITERS.into_iter().filter_map(|delimiter| {
        let mut csv = Csv::new(delimiter);
        csv.split(line).then_some(csv)
    });
    let csv = tables.max_by_key(|csv| csv.fields().count()).ok_or(Malformed::Open)?;
    let header: Vec<_> = csv.fields().map(<[u8]>::trim_ascii).collect();
    let columns = Columns::new(names, &header);
    check(|role| columns.has(role))?;
    Ok((columns, csv))
}

fn w3c_header(names: &[Named], header: &[u8]) -> Result<Columns, Malformed> {
    let header: Vec<_> =
        header.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()).collect();
    /// A column that only CloudFront has.
    const EDGE: &[u8] = b"x-edge-location";
    // IIS and CloudFront use the same column name with different units.
    let is_cloudfront = header.contains(&EDGE);
    let mut names = names.to_vec();
    let taken = if is_cloudfront { names::CLOUDFRONT_TAKEN } else { names::IIS_TAKEN };
    names.push((taken.0, taken.1, taken.2.to_owned()));
    let columns = Columns::new(&names, &header);
    check(|role| columns.has(role))?;
    Ok(columns)
}
