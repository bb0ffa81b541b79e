//! Finds the format of a log from its first lines.

use std::sync::Arc;

use super::names::FieldNames;
use super::parser::Parser;
use super::pattern::Pattern;
use super::wrapper::Wrapper;
use crate::decision_counts::DecisionCounts;
use crate::log_format::LogFormat;
use crate::malformed::Malformed;
use crate::record::{Field, Fields, Record};

/// The possible formats of a log.
#[derive(Clone, Debug)]
pub(crate) struct Detector<'d> {
    /// Format, if it is known.
    pub(crate) format: Option<LogFormat>,
    pub(crate) fields: Option<&'d FieldNames>,
    pub(crate) pattern: Option<&'d Pattern>,
    pub(crate) wanted: Fields,
    /// The counts of decision logs.
    pub(crate) decisions: &'d Arc<DecisionCounts>,
}

/// Beginnings of W3C directives that precede the names of the columns.
const DIRECTIVES: [&[u8]; 6] =
    [b"#Version:", b"#Software:", b"#Date:", b"#Start-Date:", b"#End-Date:", b"#Remark:"];

impl Detector<'_> {
    /// Returns `true` if a line is not a request and doesn't identify the format.
    pub(crate) fn is_directive(line: &[u8]) -> bool {
        DIRECTIVES.iter().any(|directive| line.starts_with(directive))
    }

    /// Returns a parser that can read a line, and the line's wrapper. Otherwise returns why no
    /// parser can.
    pub(crate) fn detect(&self, line: &[u8]) -> Result<(Parser, Wrapper), Malformed> {
        let is_known = self.format.is_some()
            || self.pattern.is_some()
            || self.fields.is_some_and(FieldNames::is_complete);
        let mut worst = if is_known { None } else { Some(Malformed::Unknown) };
        let mut buffer = Vec::new();
        for wrapper in Wrapper::ALL {
            let Some(inside) = wrapper.inside(line, &mut buffer) else { continue };
            for format in self.candidates(inside) {
                let parser = |counts: &Arc<DecisionCounts>| match (format, self.pattern) {
                    (LogFormat::Sluicegate, _) => Parser::decisions(Arc::clone(counts)),
                    (LogFormat::Pattern, Some(pattern)) => Parser::pattern(pattern, self.wanted),
                    _ => Parser::new(format, self.fields, self.wanted),
                };
                match Self::reads(&mut parser(&Arc::default()), inside) {
                    Ok(_) if self.fits(format, inside) => {
                        return Ok((parser(self.decisions), wrapper));
                    }
                    Ok(_) => {}
                    Err(why) if worst.is_none_or(|worst| why.weight() > worst.weight()) => {
                        worst = Some(why);
                    }
                    Err(_) => {}
                }
            }
        }
        Err(worst.unwrap_or(Malformed::Unknown))
    }

    /// Describes why a line isn't a request, before the format is known.
    pub(crate) fn why(&self, malformed: Malformed) -> String {
        let format = self.format.unwrap_or(LogFormat::Json);
        Parser::new(format, self.fields, self.wanted).why(malformed)
    }

    fn candidates(&self, line: &[u8]) -> impl Iterator<Item = LogFormat> {
        let is_object = line.trim_ascii_start().starts_with(b"{");
        let is_header = line.starts_with(b"#Fields:");
        let (one, fields) = (self.format, self.fields);
        let may_be = move |format: &LogFormat| match format {
            LogFormat::Json => is_object,
            LogFormat::Sluicegate => is_object && fields.is_none(),
            LogFormat::NginxJson | LogFormat::Caddy | LogFormat::Traefik | LogFormat::EnvoyJson => {
                is_object && !fields.is_some_and(FieldNames::is_complete)
            }
            LogFormat::W3c | LogFormat::Cloudfront => is_header,
            _ => fields.is_none() || format.has_names(),
        };
        let all = if self.pattern.is_some() { vec![LogFormat::Pattern] } else { Vec::new() };
        let all = if let Some(format) = one { vec![format] } else { all };
        let is_given = !all.is_empty();
        let all = if is_given { all } else { LogFormat::ALL.to_vec() };
        all.into_iter().filter(move |format| is_given || may_be(format))
    }

    fn reads(parser: &mut Parser, line: &[u8]) -> Result<(), Malformed> {
        parser.read(line, &mut Record::default()).map(drop)
    }

    /// Returns `true` if a format that can read a line is also the right one.
    fn fits(&self, format: LogFormat, line: &[u8]) -> bool {
        match format {
            _ if self.format.is_some() => true,
            // The common format lacks the agent.
            LogFormat::Combined => {
                let mut record = Record::default();
                let mut parser = Parser::new(format, None, Fields::ALL);
                parser.read(line, &mut record).is_ok() && !record.text(Field::Agent).is_empty()
            }
            LogFormat::Cloudfront => memchr::memmem::find(line, b"x-edge-location").is_some(),
            _ => true,
        }
    }
}
