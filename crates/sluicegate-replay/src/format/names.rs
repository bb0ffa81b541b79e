//! The names that formats use for the parts of their lines.

use std::fmt;
use std::str::FromStr;

use super::role::{self, Form, Role};
use crate::log_format::LogFormat;
use crate::record::Field;

/// A name that a role's part may have. If a role has several names, the first one in the log is
/// used.
pub(crate) type Name = (Role, Form, &'static str);

const HOST: Role = Role::Text(Field::Host);
const USER: Role = Role::Text(Field::User);
const METHOD: Role = Role::Text(Field::Method);
const PATH: Role = Role::Text(Field::Path);
const STATUS: Role = Role::Text(Field::Status);
const AGENT: Role = Role::Text(Field::Agent);

/// Names in lines that were written for replay. The time is that of the decision.
pub(crate) const OWN: &[Name] = &[
    (Role::Start, Form::Plain, "time"),
    (HOST, Form::Plain, "key"),
    (Role::Cost, Form::Plain, "cost"),
];

/// The variables of nginx, under their usual names in log formats.
pub(crate) const NGINX: &[Name] = &[
    (Role::Time, Form::Plain, "time"),
    (Role::Time, Form::Plain, "time_iso8601"),
    (Role::Time, Form::Plain, "msec"),
    (Role::Time, Form::Plain, "time_local"),
    (Role::Time, Form::Plain, "@timestamp"),
    (Role::Time, Form::Plain, "timestamp"),
    (Role::Time, Form::Plain, "ts"),
    (HOST, Form::Plain, "remote_addr"),
    (HOST, Form::Plain, "remote_ip"),
    (HOST, Form::Plain, "client_ip"),
    (HOST, Form::Plain, "clientip"),
    (HOST, Form::Plain, "client"),
    (HOST, Form::Plain, "ip"),
    (USER, Form::Plain, "remote_user"),
    (METHOD, Form::Plain, "request_method"),
    (METHOD, Form::Plain, "method"),
    (METHOD, Form::Method, "request"),
    (PATH, Form::Plain, "request_uri"),
    (PATH, Form::Plain, "uri"),
    (PATH, Form::Path, "request"),
    (STATUS, Form::Plain, "status"),
    (AGENT, Form::Plain, "http_user_agent"),
    (AGENT, Form::Plain, "user_agent"),
    (Role::Duration, Form::Seconds, "request_time"),
];

/// The encoder `json` of Caddy's access logs.
pub(crate) const CADDY: &[Name] = &[
    (Role::Time, Form::Plain, "ts"),
    (HOST, Form::Plain, "request.client_ip"),
    (HOST, Form::Plain, "request.remote_ip"),
    (HOST, Form::WithPort, "request.remote_addr"),
    (USER, Form::Plain, "user_id"),
    (METHOD, Form::Plain, "request.method"),
    (PATH, Form::Plain, "request.uri"),
    (STATUS, Form::Plain, "status"),
    (AGENT, Form::Plain, "request.headers.User-Agent.0"),
    (Role::Duration, Form::Seconds, "duration"),
];

/// Traefik's access log of `format: json`.
pub(crate) const TRAEFIK: &[Name] = &[
    (Role::Start, Form::Plain, "StartUTC"),
    (Role::Start, Form::Plain, "StartLocal"),
    (HOST, Form::Plain, "ClientHost"),
    (HOST, Form::WithPort, "ClientAddr"),
    (USER, Form::Plain, "ClientUsername"),
    (METHOD, Form::Plain, "RequestMethod"),
    (PATH, Form::Plain, "RequestPath"),
    (STATUS, Form::Plain, "DownstreamStatus"),
    (AGENT, Form::Plain, "request_User-Agent"),
    (Role::Duration, Form::Nanos, "Duration"),
];

/// Envoy's access log as JSON, with the names of its documentation and of Istio.
pub(crate) const ENVOY: &[Name] = &[
    (Role::Start, Form::Plain, "start_time"),
    (HOST, Form::Plain, "downstream_remote_address_without_port"),
    (HOST, Form::WithPort, "downstream_remote_address"),
    (HOST, Form::Forwarded, "x_forwarded_for"),
    (METHOD, Form::Plain, "method"),
    (PATH, Form::Plain, "path"),
    (STATUS, Form::Plain, "response_code"),
    (AGENT, Form::Plain, "user_agent"),
    (Role::Duration, Form::Millis, "duration"),
];

/// The columns of W3C logs, as IIS and CloudFront write them.
pub(crate) const W3C: &[Name] = &[
    (Role::Date, Form::Plain, "date"),
    (Role::Time, Form::Plain, "time"),
    (HOST, Form::Plain, "c-ip"),
    (USER, Form::Plain, "cs-username"),
    (METHOD, Form::Plain, "cs-method"),
    (PATH, Form::Plain, "cs-uri-stem"),
    (STATUS, Form::Plain, "sc-status"),
    (AGENT, Form::Plain, "cs(User-Agent)"),
];

/// IIS writes `time-taken` in milliseconds.
pub(crate) const IIS_TAKEN: Name = (Role::Duration, Form::Millis, "time-taken");

/// CloudFront writes `time-taken` in seconds.
pub(crate) const CLOUDFRONT_TAKEN: Name = (Role::Duration, Form::Seconds, "time-taken");

/// The usual names in logfmt and CSV, after those of lines written for replay.
pub(crate) const USUAL: &[Name] = &[
    (Role::Time, Form::Plain, "time"),
    (Role::Time, Form::Plain, "ts"),
    (Role::Time, Form::Plain, "t"),
    (Role::Time, Form::Plain, "timestamp"),
    (Role::Time, Form::Plain, "@timestamp"),
    (Role::Time, Form::Plain, "datetime"),
    (HOST, Form::Plain, "key"),
    (HOST, Form::Plain, "remote_addr"),
    (HOST, Form::Plain, "remote_ip"),
    (HOST, Form::Plain, "client_ip"),
    (HOST, Form::Plain, "clientip"),
    (HOST, Form::Plain, "client"),
    (HOST, Form::Plain, "ip"),
    (HOST, Form::Plain, "host"),
    (USER, Form::Plain, "user"),
    (METHOD, Form::Plain, "method"),
    (PATH, Form::Plain, "path"),
    (PATH, Form::Plain, "uri"),
    (STATUS, Form::Plain, "status"),
    (AGENT, Form::Plain, "user_agent"),
    (AGENT, Form::Plain, "agent"),
    (Role::Cost, Form::Plain, "cost"),
    (Role::Duration, Form::Seconds, "duration"),
];

/// A name that a role's part may have in a log.
pub(crate) type Named = (Role, Form, String);

/// The names that a user gives to the parts of a log's lines: `time=ts,key=request.client_ip`.
///
/// A name is a path of JSON members joined by dots, a logfmt name, or a column of a table. The
/// parts are:
///
/// - `time` (the end of the request), `start` (its start), `date` (the day, if `time` is the time
///   of day)
/// - `key`, `cost`, and `duration` (in seconds, or `duration_ms`, `duration_us`, `duration_ns`)
/// - `user`, `method`, `path`, `status` and `agent`
///
/// ```
/// use sluicegate_replay::FieldNames;
///
/// assert!("time=ts,key=request.client_ip".parse::<FieldNames>().is_ok());
/// let error = "time=ts,kay=ip".parse::<FieldNames>().unwrap_err();
/// assert!(error.to_string().contains("`kay`"));
/// ```
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FieldNames(Vec<Named>);

impl FieldNames {
    /// Returns `true` if there are names for the time and the key.
    pub(crate) fn is_complete(&self) -> bool {
        let has = |role: Role| self.0.iter().any(|(other, ..)| *other == role);
        (has(Role::Time) || has(Role::Start)) && has(HOST)
    }
}

/// Returns the names of a format's parts. The user's names replace those of the format.
pub(crate) fn of(format: LogFormat, user: Option<&FieldNames>) -> Vec<Named> {
    let names = match format {
        LogFormat::Json => OWN,
        LogFormat::NginxJson => NGINX,
        LogFormat::Caddy => CADDY,
        LogFormat::Traefik => TRAEFIK,
        LogFormat::EnvoyJson => ENVOY,
        LogFormat::W3c | LogFormat::Cloudfront => W3C,
        LogFormat::Logfmt | LogFormat::Csv => USUAL,
        _ => &[],
    };
    let mut all = user.map_or_else(Vec::new, |user| user.0.clone());
    let is_time = |role: Role| matches!(role, Role::Time | Role::Start | Role::Date);
    let has_time = all.iter().any(|(role, ..)| is_time(*role));
    let given: Vec<_> = all.iter().map(|(role, ..)| *role).collect();
    let own =
        names.iter().filter(|(role, ..)| !(given.contains(role) || has_time && is_time(*role)));
    all.extend(own.map(|(role, form, name)| (*role, *form, (*name).to_owned())));
    all
}

impl FromStr for FieldNames {
    type Err = FieldNamesError;

    fn from_str(text: &str) -> Result<Self, FieldNamesError> {
        let mut names: Vec<Named> = Vec::new();
        for part in text.split(',') {
            let (name, path) =
                part.split_once('=').ok_or_else(|| FieldNamesError::Shape(part.to_owned()))?;
            let (name, path) = (name.trim(), path.trim());
            let (role, form) =
                role::named(name).ok_or_else(|| FieldNamesError::Unknown(name.to_owned()))?;
            if path.is_empty() {
                return Err(FieldNamesError::Shape(part.to_owned()));
            }
            if names.iter().any(|(other, ..)| *other == role) {
                return Err(FieldNamesError::Twice(name.to_owned()));
            }
            names.push((role, form, path.to_owned()));
        }
        Ok(Self(names))
    }
}

/// Field names that can't be parsed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum FieldNamesError {
    /// A part that isn't `PART=NAME`.
    Shape(String),
    /// A part that is named more than once.
    Twice(String),
    /// An unknown part.
    Unknown(String),
}

impl fmt::Display for FieldNamesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(part) => write!(
                f,
                "`{}` isn't PART=NAME: write the parts as in time=ts,key=request.client_ip",
                part.escape_debug()
            ),
            Self::Twice(part) => write!(f, "`{part}` is named twice: give each part one name"),
            Self::Unknown(part) => write!(
                f,
                "`{}` isn't a part of a request: name some of {}",
                part.escape_debug(),
                role::names()
            ),
        }
    }
}

impl std::error::Error for FieldNamesError {}
