//! The control plane of the incumbent's environment.

use std::fmt;
use std::time::Duration;

use super::metadata::{Metadata, MetadataValue};
use super::metadata_reader;
use super::settings::Variables;
use super::yaml::read::read;
use super::yaml::walk;

/// The control plane that sends the rules, if `CONFIG_TYPE` is `GRPC_XDS_SOTW`.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ControlPlane {
    /// `CONFIG_GRPC_XDS_SERVER_URL`: the address, as gRPC writes it. Default: `localhost:18000`.
    pub target: String,
    /// `CONFIG_GRPC_XDS_NODE_ID`: the name of this service at the control plane. Default: `default`.
    pub node_id: String,
    /// `CONFIG_GRPC_XDS_NODE_METADATA`: facts about this service, `key=value,…` or an object in JSON. Default: none.
    pub node_metadata: Metadata,
    /// `CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS`: headers of each stream, `key:value,…`. Default: none.
    pub headers: Vec<(String, String)>,
    /// `CONFIG_GRPC_XDS_SERVER_USE_TLS` and the related variables. Default: no TLS.
    pub tls: Option<ControlPlaneTls>,
    /// `XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES`: the maximum size of a push. Default: 4 MiB.
    pub max_message_bytes: usize,
    /// `CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL`: the maximum pause after a connection that failed. Default: 3 s.
    pub connect_pause: Duration,
    /// The pauses after a stream that ended.
    pub backoff: Backoff,
    /// `FORCE_START_WITHOUT_INITIAL_CONFIG`: whether requests are answered before the first push. Default: false.
    pub starts_without_rules: bool,
}

/// The files for TLS to a control plane.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ControlPlaneTls {
    /// `CONFIG_GRPC_XDS_SERVER_TLS_CACERT`: the certificate authority. Default: those of the system.
    pub ca: Option<String>,
    /// `CONFIG_GRPC_XDS_CLIENT_TLS_CERT` and `CONFIG_GRPC_XDS_CLIENT_TLS_KEY`: the certificate of this service and its
    /// key. Default: none.
    pub identity: Option<(String, String)>,
    /// `CONFIG_GRPC_XDS_SERVER_TLS_SAN`: the name in the server's certificate. Default: the host of the address.
    pub server_name: Option<String>,
}

/// Pauses that grow from one attempt to the next.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Backoff {
    /// `XDS_CLIENT_BACKOFF_INITIAL_INTERVAL`: the first pause, and the minimum of all. Default: 10 s.
    pub initial: Duration,
    /// `XDS_CLIENT_BACKOFF_MAX_INTERVAL`: the maximum pause. Default: 60 s.
    pub max: Duration,
    /// `XDS_CLIENT_BACKOFF_RANDOM_FACTOR`: the factor from one pause to the next, 0 to 1,000. Up to 1, all are the
    /// first one. Default: 0.5.
    pub factor: f64,
    /// `XDS_CLIENT_BACKOFF_JITTER`: whether a pause is a random one, from the first pause up to its length. Default:
    /// true.
    pub has_jitter: bool,
}

/// Omits the values of headers, which may be secret.
impl fmt::Debug for ControlPlane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControlPlane")
            .field("target", &self.target)
            .field("node_id", &self.node_id)
            .finish_non_exhaustive()
    }
}

impl<L: Fn(&str) -> Option<String>> Variables<L> {
    /// Returns the control plane that the variables name.
    pub(crate) fn control_plane(&mut self) -> ControlPlane {
        let text = |read: &Self, name, default: &str| {
            read.text(name).unwrap_or_else(|| default.to_owned())
        };
        let target = text(self, "CONFIG_GRPC_XDS_SERVER_URL", "localhost:18000");
        let node_id = text(self, "CONFIG_GRPC_XDS_NODE_ID", "default");
        let max = self.number("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", 0);
        let max_message_bytes = if max == 0 { 4 << 20 } else { max };
        ControlPlane {
            target,
            node_id,
            node_metadata: self.node_metadata(),
            headers: self.headers(),
            tls: self.tls(),
            max_message_bytes: usize::try_from(max_message_bytes).unwrap_or(usize::MAX),
            connect_pause: self
                .duration("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", Duration::from_secs(3)),
            backoff: self.backoff(),
            starts_without_rules: self.switch("FORCE_START_WITHOUT_INITIAL_CONFIG"),
        }
    }

    fn node_metadata(&mut self) -> Metadata {
        const NAME: &str = "CONFIG_GRPC_XDS_NODE_METADATA";
        let mut metadata = Metadata::new();
        let Some(written) = self.text(NAME) else { return metadata };
        if written.trim_start().starts_with('{') {
            if object(&written, &mut metadata).is_none() {
                self.add(NAME, "must be key=value,… or an object in JSON", &written);
            }
            return metadata;
        }
        // The incumbent skips the other parts too.
        for (key, value) in written.split(',').filter_map(|part| part.split_once('=')) {
            metadata.insert(key.to_owned(), MetadataValue::Text(value.to_owned()));
        }
        metadata
    }

    fn headers(&mut self) -> Vec<(String, String)> {
        const NAME: &str = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";
        let written = self.text(NAME).filter(|written| !written.trim().is_empty());
        let Some(written) = written else { return Vec::new() };
        let header = |part: &str| {
            part.split_once(':').map(|(key, value)| (key.to_owned(), value.to_owned()))
        };
        let headers: Option<Vec<_>> = written.split(',').map(header).collect();
        if headers.is_none() {
            self.add_without_value(NAME, "must be key:value,…");
        }
        headers.unwrap_or_default()
    }

    fn tls(&mut self) -> Option<ControlPlaneTls> {
        if !self.switch("CONFIG_GRPC_XDS_SERVER_USE_TLS") {
            return None;
        }
        let cert = self.text("CONFIG_GRPC_XDS_CLIENT_TLS_CERT");
        let key = self.text("CONFIG_GRPC_XDS_CLIENT_TLS_KEY");
        if cert.is_some() != key.is_some() {
            self.add_without_value(
                "CONFIG_GRPC_XDS_CLIENT_TLS_CERT and CONFIG_GRPC_XDS_CLIENT_TLS_KEY",
                "must both be set, or neither",
            );
        }
        Some(ControlPlaneTls {
            ca: self.text("CONFIG_GRPC_XDS_SERVER_TLS_CACERT"),
            identity: cert.zip(key),
            server_name: self.text("CONFIG_GRPC_XDS_SERVER_TLS_SAN"),
        })
    }

    fn backoff(&mut self) -> Backoff {
        const FACTOR: &str = "XDS_CLIENT_BACKOFF_RANDOM_FACTOR";
        let (initial, max) = (Duration::from_secs(10), Duration::from_secs(60));
        let mut factor = 0.5;
        if let Some(written) = self.text(FACTOR) {
            match written.parse() {
                Ok(number) if (0.0..=1_000.0).contains(&number) => factor = number,
                _ => self.add(FACTOR, "must be a number from 0 to 1000", &written),
            }
        }
        Backoff {
            initial: self.duration("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", initial),
            max: self.duration("XDS_CLIENT_BACKOFF_MAX_INTERVAL", max),
            factor,
            has_jitter: self.switch_or("XDS_CLIENT_BACKOFF_JITTER", true),
        }
    }
}

/// Reads an object in JSON, which is also YAML.
fn object(text: &str, metadata: &mut Metadata) -> Option<()> {
    const MOST: usize = 10_000;
    let document = read(text, MOST).ok()?;
    walk::check(&document, MOST as u64).ok()?;
    metadata_reader::read(&document, document.root?, metadata).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane(variables: &[(&str, &str)]) -> Result<ControlPlane, Vec<String>> {
        let mut read = Variables::new(|name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let plane = read.control_plane();
        read.finish(plane).map_err(|errors| errors.problems().to_vec())
    }

    #[test]
    fn no_variables_are_the_incumbents_defaults() {
        let plane = plane(&[]).unwrap();
        assert_eq!((plane.target.as_str(), plane.node_id.as_str()), ("localhost:18000", "default"));
        assert!(plane.node_metadata.is_empty() && plane.headers.is_empty() && plane.tls.is_none());
        let seconds = [plane.backoff.initial, plane.backoff.max, plane.connect_pause];
        assert_eq!(seconds.map(|pause| pause.as_secs()), [10, 60, 3]);
        assert!(plane.backoff.has_jitter && !plane.starts_without_rules);
        assert_eq!(
            (plane.backoff.factor.to_string(), plane.max_message_bytes),
            ("0.5".into(), 4 << 20)
        );
    }

    #[test]
    fn metadata_is_pairs_or_json_and_headers_are_pairs() {
        const METADATA: &str = "CONFIG_GRPC_XDS_NODE_METADATA";
        let text = |text: &str| MetadataValue::Text(text.to_owned());
        let found = plane(&[(METADATA, "zone=a,rack=b=c,none")]).unwrap().node_metadata;
        let expected = [("rack".to_owned(), text("b=c")), ("zone".to_owned(), text("a"))];
        assert_eq!(found, Metadata::from(expected));
        let found = plane(&[(METADATA, r#"{"zone": "a", "ports": [1, true]}"#)]).unwrap();
        let ports = vec![MetadataValue::Number(1.0), MetadataValue::Bool(true)];
        let expected =
            [("zone".to_owned(), text("a")), ("ports".to_owned(), MetadataValue::List(ports))];
        assert_eq!(found.node_metadata, Metadata::from(expected));
        let headers = [("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "a:1,b:x:y")];
        let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        assert_eq!(plane(&headers).unwrap().headers, [("a", "1"), ("b", "x:y")].map(own));
    }

    #[test]
    fn each_wrong_value_has_a_sentence_and_headers_stay_secret() {
        let wrong = plane(&[
            ("CONFIG_GRPC_XDS_NODE_METADATA", "{a"),
            ("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "secret"),
            ("CONFIG_GRPC_XDS_SERVER_USE_TLS", "true"),
            ("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "key.pem"),
            ("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "3"),
            ("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "NaN"),
            ("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "-1s"),
        ]);
        assert_eq!(
            wrong.unwrap_err(),
            [
                "CONFIG_GRPC_XDS_NODE_METADATA must be key=value,… or an object in JSON, but is `{a`",
                "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS must be key:value,…",
                "CONFIG_GRPC_XDS_CLIENT_TLS_CERT and CONFIG_GRPC_XDS_CLIENT_TLS_KEY must both be set, or neither",
                "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL must be a duration, such as 10s, but is `3`",
                "XDS_CLIENT_BACKOFF_RANDOM_FACTOR must be a number from 0 to 1000, but is `NaN`",
                "XDS_CLIENT_BACKOFF_MAX_INTERVAL must be a duration, such as 10s, but is `-1s`",
            ]
        );
    }
}
