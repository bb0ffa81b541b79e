//! The settings of a listener's TLS, for messages.

use super::kind::Kind;

/// The names of the settings with a listener's files.
#[derive(Clone, Debug)]
pub(crate) struct TlsNames {
    /// The setting that turns TLS on.
    pub(crate) tls: String,
    pub(crate) cert: &'static str,
    pub(crate) key: &'static str,
    pub(crate) client_ca: &'static str,
}

impl TlsNames {
    /// Returns the names in a config file.
    pub(crate) fn in_file(kind: Kind) -> Self {
        let tls = format!("listeners.{kind}.tls");
        Self { tls, cert: "cert", key: "key", client_ca: "client_ca" }
    }
}
