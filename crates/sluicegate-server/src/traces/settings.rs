//! The variables that turn traces on.

use std::time::Duration;

use opentelemetry_otlp::Protocol;

/// The settings that the exporter doesn't read itself.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) protocol: Protocol,
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
        let endpoint =
            of_traces("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT");
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
        let timeout = of_traces("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT");
        let timeout = timeout.and_then(|millis| millis.trim().parse().ok());
        let attributes = set("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        let mut attributes = attributes.split(',').filter_map(|it| it.split_once('='));
        let has_service_name = set("OTEL_SERVICE_NAME").is_some()
            || attributes.any(|(name, _)| name.trim() == "service.name");
        Ok(Some(Self {
            protocol,
            timeout: timeout.map_or(Self::TIMEOUT, Duration::from_millis),
            has_service_name,
        }))
    }
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

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318");

    #[test]
    fn traces_are_off_unless_the_variables_turn_them_on() {
        for variables in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[("OTEL_SERVICE_NAME", "limits")],
            &[("OTEL_TRACES_EXPORTER", "none"), ENDPOINT],
            &[("OTEL_SDK_DISABLED", "true"), ENDPOINT],
            &[("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "otlp")],
        ] {
            assert_eq!(read(variables), Ok(None), "{variables:?}");
        }
        for variables in [
            &[ENDPOINT][..],
            &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector/v1/traces")],
            &[("OTEL_TRACES_EXPORTER", "otlp")],
            &[("OTEL_SDK_DISABLED", "false"), ENDPOINT],
        ] {
            assert!(matches!(read(variables), Ok(Some(_))), "{variables:?}");
        }
    }

    #[test]
    fn a_variable_of_traces_takes_precedence() {
        let settings = read(&[
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2500"),
            ("OTEL_RESOURCE_ATTRIBUTES", "zone=a,service.name=limits"),
        ]);
        let timeout = Duration::from_millis(2_500);
        let expected = Settings { protocol: Protocol::Grpc, timeout, has_service_name: true };
        assert_eq!(settings, Ok(Some(expected)));
        let (protocol, timeout) = (Protocol::HttpBinary, Duration::from_secs(10));
        let default = Settings { protocol, timeout, has_service_name: false };
        assert_eq!(read(&[ENDPOINT]), Ok(Some(default)));
    }

    #[test]
    fn an_unknown_value_is_an_error_that_names_the_variable() {
        for (name, value) in
            [("OTEL_TRACES_EXPORTER", "zipkin"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]
        {
            let error = read(&[ENDPOINT, (name, value)]).unwrap_err();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
