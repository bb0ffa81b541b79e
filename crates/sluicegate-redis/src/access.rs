//! Access to servers: a user with a password, and TLS certificates.

use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A user of a server, and the password. It prints without the password.
///
/// ```
/// use sluicegate_redis::Credentials;
///
/// assert!(!format!("{:?}", Credentials::new("limiter", "secret")).contains("secret"));
/// ```
#[derive(Clone, Eq, PartialEq)]
pub struct Credentials {
    user: Option<String>,
    password: String,
}

impl Credentials {
    /// Returns credentials of a user. If the user needs no password, any text works.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// Returns credentials of the default user, which the server assumes if none is named.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Reads the password of a user from a file; `None` stands for the default user. The password is the whole
    /// file, without line breaks at its end.
    ///
    /// # Errors
    /// Returns an error if the file can't be read, is empty or isn't UTF-8. The error names the file, and
    /// says what to change.
    pub fn from_file(user: Option<&str>, file: impl AsRef<Path>) -> Result<Self, CredentialsError> {
        let file = file.as_ref();
        let failed = |why: &str, cause: Option<io::Error>| CredentialsError {
            text: format!(
                "the password file {} {why}: write the password, and nothing else, into it",
                file.display()
            ),
            cause: cause.map(Arc::new),
        };
        let text = fs::read_to_string(file)
            .map_err(|error| failed(&format!("can't be read ({error})"), Some(error)))?;
        match text.trim_end_matches(['\r', '\n']) {
            "" => Err(failed("is empty", None)),
            password => Ok(Self { user: user.map(str::to_owned), password: password.to_owned() }),
        }
    }

    /// Returns the user; `None` for the default user.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns whether the password isn't empty.
    #[must_use]
    pub const fn has_password(&self) -> bool {
        !self.password.is_empty()
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A problem with a source of [`Credentials`], and its fix. It never contains a password.
#[derive(Clone, Debug)]
pub struct CredentialsError {
    text: String,
    cause: Option<Arc<io::Error>>,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for CredentialsError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}

/// A function that returns the credentials, called once for each connection.
pub(crate) type AskCredentials =
    dyn Fn() -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync;

/// The source of credentials.
#[derive(Clone)]
pub(crate) enum CredentialsSource {
    Fixed(Option<Credentials>),
    Asked(Arc<AskCredentials>),
}

impl CredentialsSource {
    /// Returns the current credentials, or why there are none.
    pub(crate) async fn read(&self) -> Result<Option<Credentials>, String> {
        let ask = match self {
            Self::Fixed(credentials) => return Ok(credentials.clone()),
            Self::Asked(ask) => Arc::clone(ask),
        };
        // `ask` may read a file.
        match tokio::task::spawn_blocking(move || ask()).await {
            Ok(Ok(credentials)) => Ok(Some(credentials)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the function that answers them panicked".to_owned()),
        }
    }
}

/// The trusted authorities and the client certificate of TLS connections. Files are read for each connection,
/// so a renewed certificate is used from the next connection on.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// A PEM file with the trusted authorities, one of which must have signed the server's certificate. The
    /// default is the system's trusted authorities.
    pub ca: Option<PathBuf>,
    /// A PEM file with the client certificate and its intermediate certificates, for servers that request
    /// one. Requires [`key`](Self::key).
    pub cert: Option<PathBuf>,
    /// A file with the private key of [`cert`](Self::cert), in PEM.
    pub key: Option<PathBuf>,
    /// The host name or IP address that the server's certificate must be valid for; in a cluster, every
    /// node's. The default is the host of the connection, from the URL, the sentinels or the nodes.
    pub server_name: Option<String>,
}

impl TlsOptions {
    /// The names of the options in URLs and configurations.
    pub const NAMES: [&str; 4] = ["ca", "cert", "key", "server_name"];

    /// Returns the problem of inconsistent options, starting with the name of an option.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let lacks = match (&self.cert, &self.key) {
            (Some(_), None) => Some(("cert", "key")),
            (None, Some(_)) => Some(("key", "cert")),
            _ => None,
        };
        if let Some((given, lacking)) = lacks {
            return Some(format!("`{given}` needs `{lacking}`: give both files, or none"));
        }
        let name = self.server_name.as_deref()?;
        let is_host = name.parse::<IpAddr>().is_ok()
            || (1..=253).contains(&name.len())
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        (!is_host).then(|| {
            format!(
                "`server_name` must be a host name or an IP address, but is `{}`",
                sluicegate_core::printable(name)
            )
        })
    }
}
