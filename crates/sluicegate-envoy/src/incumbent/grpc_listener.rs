//! The gRPC listener of the incumbent's environment.

use std::time::Duration;

use super::settings::Variables;

/// The listener of the rate limit service.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct GrpcListener {
    /// `GRPC_HOST` and `GRPC_PORT`, or `GRPC_UDS`: its address. Default: all addresses, port 8081.
    pub address: String,
    /// `GRPC_SERVER_USE_TLS` and the related variables. Default: no TLS.
    pub tls: Option<GrpcTls>,
    /// `GRPC_MAX_CONNECTION_AGE`: the age at which a connection's client has to open another one; 0 for no bound.
    /// Default: 24 h.
    pub max_connection_age: Duration,
    /// `GRPC_MAX_CONNECTION_AGE_GRACE`: the time for the requests in progress then; 0 for no bound. Default: 1 h.
    pub max_connection_age_grace: Duration,
}

/// The files for TLS of the rate limit service.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct GrpcTls {
    /// `GRPC_SERVER_TLS_CERT`: the certificate of the service.
    pub cert: String,
    /// `GRPC_SERVER_TLS_KEY`: its key.
    pub key: String,
    /// `GRPC_CLIENT_TLS_CACERT`: the authority that has signed the certificates of clients. Default: clients need none.
    pub client_ca: Option<String>,
    /// `GRPC_CLIENT_TLS_SAN`: the DNS name or address in the certificates of clients. Default: any.
    pub client_name: Option<String>,
}

impl<L: Fn(&str) -> Option<String>> Variables<L> {
    /// Returns the listener that the variables describe.
    pub(crate) fn grpc_listener(&mut self) -> GrpcListener {
        const HOUR: Duration = Duration::from_secs(3_600);
        GrpcListener {
            address: match self.text("GRPC_UDS") {
                Some(path) => format!("unix:{path}"),
                None => self.address("GRPC_HOST", "GRPC_PORT", 8081),
            },
            tls: self.grpc_tls(),
            max_connection_age: self.duration("GRPC_MAX_CONNECTION_AGE", 24 * HOUR),
            max_connection_age_grace: self.duration("GRPC_MAX_CONNECTION_AGE_GRACE", HOUR),
        }
    }

    fn grpc_tls(&mut self) -> Option<GrpcTls> {
        if !self.switch("GRPC_SERVER_USE_TLS") {
            return None;
        }
        let files = self.text("GRPC_SERVER_TLS_CERT").zip(self.text("GRPC_SERVER_TLS_KEY"));
        let Some((cert, key)) = files else {
            self.add_without_value(
                "GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY",
                "must both be set for GRPC_SERVER_USE_TLS",
            );
            return None;
        };
        Some(GrpcTls {
            cert,
            key,
            client_ca: self.text("GRPC_CLIENT_TLS_CACERT"),
            client_name: self.text("GRPC_CLIENT_TLS_SAN"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(variables: &[(&str, &str)]) -> Result<GrpcListener, Vec<String>> {
        let mut read = Variables::new(|name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        let listener = read.grpc_listener();
        read.finish(listener).map_err(|errors| errors.problems().to_vec())
    }

    #[test]
    fn no_variables_are_the_incumbents_defaults() {
        let found = listener(&[]).unwrap();
        assert_eq!((found.address.as_str(), found.tls), (":8081", None));
        let ages = [found.max_connection_age, found.max_connection_age_grace];
        assert_eq!(ages.map(|age| age.as_secs()), [86_400, 3_600]);
    }

    #[test]
    fn addresses_files_and_ages_are_those_of_the_variables() {
        let found = listener(&[
            ("GRPC_HOST", "::1"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "cert.pem"),
            ("GRPC_SERVER_TLS_KEY", "key.pem"),
            ("GRPC_CLIENT_TLS_CACERT", "ca.pem"),
            ("GRPC_MAX_CONNECTION_AGE", "0"),
            ("GRPC_MAX_CONNECTION_AGE_GRACE", "1m30s"),
        ]);
        let tls = GrpcTls {
            cert: "cert.pem".to_owned(),
            key: "key.pem".to_owned(),
            client_ca: Some("ca.pem".to_owned()),
            client_name: None,
        };
        let expected = GrpcListener {
            address: "[::1]:8081".to_owned(),
            tls: Some(tls),
            max_connection_age: Duration::ZERO,
            max_connection_age_grace: Duration::from_secs(90),
        };
        assert_eq!(found, Ok(expected));
        let unix = listener(&[("GRPC_UDS", "/run/rls.sock"), ("GRPC_PORT", "9")]).unwrap();
        assert_eq!(unix.address, "unix:/run/rls.sock");
    }

    #[test]
    fn each_wrong_value_has_a_sentence() {
        let wrong = listener(&[
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "cert.pem"),
            ("GRPC_MAX_CONNECTION_AGE", "1 day"),
        ]);
        assert_eq!(
            wrong.unwrap_err(),
            [
                "GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY must both be set for GRPC_SERVER_USE_TLS",
                "GRPC_MAX_CONNECTION_AGE must be a duration, such as 10s, but is `1 day`",
            ]
        );
    }
}
