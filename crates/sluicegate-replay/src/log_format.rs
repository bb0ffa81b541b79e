//! The formats of logs.

use std::fmt;
use std::str::FromStr;

/// A format of a log's lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum LogFormat {
    /// `HOST IDENT USER [TIME] "REQUEST" STATUS BYTES`.
    Common,
    /// Common with `"REFERER" "AGENT"`.
    Combined,
    /// Combined after the name of a virtual host.
    VhostCombined,
    /// JSON lines with `time`, `key` and optional `cost`, or with the paths of field names.
    Json,
    /// The decision log of a Sluicegate service.
    Sluicegate,
    /// JSON lines with variables of nginx.
    NginxJson,
    /// Caddy's JSON.
    Caddy,
    /// Traefik's JSON.
    Traefik,
    /// Envoy's JSON.
    EnvoyJson,
    /// Envoy's default format.
    Envoy,
    /// Istio's default format.
    Istio,
    /// AWS Application Load Balancer.
    Alb,
    /// AWS CloudFront's standard logs.
    Cloudfront,
    /// HAProxy's `option httplog`.
    Haproxy,
    /// W3C extended logs, as IIS writes them.
    W3c,
    /// `name=value` pairs.
    Logfmt,
    /// CSV with a header.
    Csv,
    /// Lines that a [`Pattern`](crate::Pattern) describes.
    Pattern,
}

impl LogFormat {
    /// Every format that can be chosen by name, in the order of recognition.
    pub const ALL: [Self; 17] = [
        Self::Combined,
        Self::Common,
        Self::VhostCombined,
        Self::Caddy,
        Self::Traefik,
        Self::EnvoyJson,
        Self::Sluicegate,
        Self::Json,
        Self::NginxJson,
        Self::Alb,
        Self::Envoy,
        Self::Istio,
        Self::Haproxy,
        Self::Cloudfront,
        Self::W3c,
        Self::Logfmt,
        Self::Csv,
    ];

    /// Returns the format's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Common => "common",
            Self::Combined => "combined",
            Self::VhostCombined => "vhost-combined",
            Self::Sluicegate => "sluicegate",
            Self::Json => "json",
            Self::NginxJson => "nginx-json",
            Self::Caddy => "caddy",
            Self::Traefik => "traefik",
            Self::EnvoyJson => "envoy-json",
            Self::Envoy => "envoy",
            Self::Istio => "istio",
            Self::Alb => "alb",
            Self::Cloudfront => "cloudfront",
            Self::Haproxy => "haproxy",
            Self::W3c => "w3c",
            Self::Logfmt => "logfmt",
            Self::Csv => "csv",
            Self::Pattern => "pattern",
        }
    }

    /// Returns `true` if the log names the parts of its lines, so that [`FieldNames`] can choose
    /// among them.
    ///
    /// [`FieldNames`]: crate::FieldNames
    #[must_use]
    pub const fn has_names(self) -> bool {
        matches!(
            self,
            Self::Json
                | Self::NginxJson
                | Self::Caddy
                | Self::Traefik
                | Self::EnvoyJson
                | Self::Cloudfront
                | Self::W3c
                | Self::Logfmt
                | Self::Csv
        )
    }

    /// Returns `true` if the lines have the key of their request.
    pub(crate) const fn brings_key(self) -> bool {
        matches!(self, Self::Json | Self::Sluicegate)
    }

    /// Returns the beginning of a line, for messages.
    pub(crate) const fn example(self) -> &'static str {
        match self {
            Self::Common | Self::Combined => {
                r#"192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 2326"#
            }
            Self::VhostCombined => {
                r#"example.org:443 192.0.2.1 - - [10/Oct/2024:13:55:36 +0200] "GET / HTTP/1.1" 200 12"#
            }
            Self::Json => r#"{"time":"2026-01-01T00:00:00Z","key":"alice","cost":3}"#,
            Self::Sluicegate => {
                r#"{"time":"2026-01-01T00:00:00Z","op":"check","limit":"demo","key":"alice",…"#
            }
            Self::NginxJson => r#"{"time":"2026-01-01T00:00:00+00:00","remote_addr":"192.0.2.1"}"#,
            Self::Caddy => r#"{"ts":1646861401.52,"request":{"client_ip":"192.0.2.1"}}"#,
            Self::Traefik => r#"{"ClientHost":"192.0.2.1","StartUTC":"2026-01-01T00:00:00.5Z"}"#,
            Self::EnvoyJson => {
                r#"{"start_time":"2026-01-01T00:00:00.5Z","downstream_remote_address":"192.0.2.1:40000"}"#
            }
            Self::Envoy | Self::Istio => {
                r#"[2024-04-15T20:17:00.310Z] "GET / HTTP/1.1" 200 - 154 0 226 …"#
            }
            Self::Alb => "https 2018-07-02T22:23:00.186641Z app/lb/50dc 192.0.2.1:2817 …",
            Self::Cloudfront | Self::W3c => {
                "#Fields: date time c-ip cs-method cs-uri-stem sc-status"
            }
            Self::Haproxy => {
                "192.0.2.1:33317 [06/Feb/2009:12:14:14.655] web app/srv1 10/0/30/69/109 200 2750 …"
            }
            Self::Logfmt => "time=2026-01-01T00:00:00Z key=alice cost=3",
            Self::Csv => "time,key,cost",
            Self::Pattern => r"^(?<time>\S+) (?<key>\S+)",
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for LogFormat {
    type Err = UnknownLogFormat;

    fn from_str(name: &str) -> Result<Self, UnknownLogFormat> {
        let format = Self::ALL.into_iter().find(|format| format.as_str() == name);
        format.ok_or_else(|| UnknownLogFormat(name.to_owned()))
    }
}

/// A name that isn't a format's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnknownLogFormat(String);

impl fmt::Display for UnknownLogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = LogFormat::ALL.map(LogFormat::as_str).join(", ");
        write!(f, "`{}` isn't a format: write one of {names}", self.0.escape_debug())
    }
}

impl std::error::Error for UnknownLogFormat {}
