//! The variables that turn traces on.

use std::time::Duration;

use axum::http::Uri;
use opentelemetry_otlp::Protocol;
use sluicegate::Config;

/// The settings of the exporter that its variables don't set directly.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) protocol: Protocol,
    /// The URL to which spans are sent.
    pub(super) endpoint: String,
    pub(super) timeout: Duration,
    /// Whether the variables name the service.
    pub(super) has_service_name: bool,
}

impl Settings {
    /// Maximum time for sending spans, if no variable has another one.
    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Reads the variables. Returns `None` if they don't turn traces on: `OTEL_TRACES_EXPORTER=otlp` or an endpoint does,
    /// unless `OTEL_SDK_DISABLED=true` or `OTEL_TRACES_EXPORTER=none`.
    ///
    /// # Errors
    /// Returns a message that names the variable and what to change.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let of_traces = |traces: &str, all: &str| set(traces).or_else(|| set(all));
        if set("OTEL_SDK_DISABLED").is_some_and(|value| value.trim().eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let endpoint = [ENDPOINT_OF_TRACES, ENDPOINT]
            .into_iter()
            .find_map(|name| Some((name, set(name)?.trim().to_owned())));
        match set("OTEL_TRACES_EXPORTER").as_deref().map(str::trim) {
            None if endpoint.is_none() => return Ok(None),
            Some("none") => return Ok(None),
            None | Some("otlp") => {}
            Some(other) => {
                return Err(format!(
                    "OTEL_TRACES_EXPORTER is {other:?}, which isn't supported: set it to otlp or none"
                ));
            }
        }
        let protocol =
            of_traces("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL");
        let protocol = match protocol.as_deref().map(str::trim) {
            None | Some("http/protobuf") => Protocol::HttpBinary,
            Some("grpc") => Protocol::Grpc,
            Some(other) => {
                return Err(format!(
                    "OTEL_EXPORTER_OTLP_PROTOCOL is {other:?}, which isn't supported: set it to http/protobuf or grpc"
                ));
            }
        };
        let endpoint = endpoint_of(protocol, endpoint)?;
        let timeout = of_traces("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
        let timeout = timeout.and_then(|millis| millis.trim().parse().ok());
        let attributes = set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let mut attributes = attributes.split(',').filter_map(|it| it.split_once('='));
        let has_service_name = set("OTEL_SERVICE_NAME").is_some()
            || attributes.any(|(name, _)| name.trim() == "service.name");
        Ok(Some(Self {
            protocol,
            endpoint,
            timeout: timeout.map_or(Self::TIMEOUT, Duration::from_millis),
            has_service_name,
        }))
    }
}

/// The whole URL for spans.
const ENDPOINT_OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
/// The URL of the collector, without the path of spans.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Returns the URL to which spans are sent, of the variable that has one.
///
/// # Errors
/// Returns a message that names the variable if its URL can't be one of a collector.
fn endpoint_of(protocol: Protocol, variable: Option<(&str, String)>) -> Result<String, String> {
    let is_grpc = protocol == Protocol::Grpc;
    let port = if is_grpc { 4317 } else { 4318 };
    let default = || (ENDPOINT, format!("http://localhost:{port}"));
    let (name, url) = variable.unwrap_or_else(default);
    let parsed = url.parse::<Uri>().ok();
    let is_http = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
    if !parsed.is_some_and(|url| is_http(&url) && url.host().is_some_and(|it| !it.is_empty())) {
        return Err(format!(
            "{name} is {:?}, which isn't the URL of a collector: write http:// or https://, its host and its port, \
             such as http://collector:{port}",
            Config::without_passwords(&url)
        ));
    }
    let has_path = is_grpc || name == ENDPOINT_OF_TRACES;
    Ok(if has_path { url } else { format!("{}/v1/traces", url.trim_end_matches('/')) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        Settings::read(|name| {
            let (_, value) = variables.iter().find(|(known, _)| *known == name)?;
            Some((*value).to_owned())
        })
    }

    const COLLECTOR: (&str, &str) = (ENDPOINT, "http://127.0.0.1:4318");

    #[test]
    fn traces_are_off_unless_the_variables_turn_them_on() {
        for variables in [
            &[][..],
            &[(ENDPOINT, " ")],
            &[("OTEL_SERVICE_NAME", "limits")],
            &[("OTEL_TRACES_EXPORTER", "none"), COLLECTOR],
            &[("OTEL_SDK_DISABLED", "true"), COLLECTOR],
            &[("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "otlp")],
        ] {
            assert_eq!(read(variables), Ok(None), "{variables:?}");
        }
        for variables in [
            &[COLLECTOR][..],
            &[(ENDPOINT_OF_TRACES, "http://collector/v1/traces")],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[("OTEL_SDK_DISABLED", "false"), COLLECTOR],
        ] {
            assert!(matches!(read(variables), Ok(Some(_))), "{variables:?}");
        }
    }

    #[test]
    fn a_variable_of_traces_takes_precedence() {
        let settings = read(&[
            COLLECTOR,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "zone=a,service.name=limits"),
        ]);
        let timeout = Duration::from_millis(2_500);
        let endpoint = COLLECTOR.1.to_owned();
        let protocol = Protocol::Grpc;
        let expected = Settings { protocol, endpoint, timeout, has_service_name: true };
        assert_eq!(settings, Ok(Some(expected)));
        let (protocol, timeout) = (Protocol::HttpBinary, Duration::from_secs(10));
        let endpoint = "http://127.0.0.1:4318/v1/traces".to_owned();
        let default = Settings { protocol, endpoint, timeout, has_service_name: false };
        assert_eq!(read(&[COLLECTOR]), Ok(Some(default)));
    }

    #[test]
    fn the_url_is_that_of_the_variable_or_a_collector_on_this_machine() {
        let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let on = ("OTEL_TRACES_EXPORTER", "otlp");
        for (variables, expected) in [
            (&[on][..], "http://localhost:4318/v1/traces"),
            (&[on, grpc], "http://localhost:4317"),
            (&[(ENDPOINT, " https://c/a/ ")], "https://c/a/v1/traces"),
            (&[(ENDPOINT, "http://c:4317"), grpc], "http://c:4317"),
            (&[COLLECTOR, (ENDPOINT_OF_TRACES, "HTTP://c/spans")], "HTTP://c/spans"),
        ] {
            assert_eq!(read(variables).unwrap().unwrap().endpoint, expected, "{variables:?}");
        }
        for name in [ENDPOINT, ENDPOINT_OF_TRACES] {
            for url in ["ftp://x", "collector:4318", "/v1/traces", "http://", "http:// x"] {
                let error = read(&[(name, url)]).unwrap_err();
                assert!(error.starts_with(&format!("{name} is {url:?}, ")), "{error}");
            }
        }
        let error = read(&[(ENDPOINT, "ftp://me:secret@x")]).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn an_unknown_value_is_an_error_that_names_the_variable() {
        for (name, value) in
            [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
        {
            let error = read(&[COLLECTOR, (name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
