//! What a server is shown to let us in: a user with a password, and certificates.

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
    /// A user, and the password: any text, where a user needs none.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// The password of the user that everybody is who names none.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// A user (or, with `None`, the default user) whose password is all that a file holds, but for
    /// line breaks at its end.
    ///
    /// # Errors
    /// If the file can't be read, is empty or is not UTF-8; the error names it, and says what to
    /// change.
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

    /// The user; `None` for the default user.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether the password isn't empty.
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

/// Why there are no [`Credentials`]: what is wrong, and what to change. It never holds a password.
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

/// Who answers what a server is signed in to with, once for each connection.
pub(crate) type AskCredentials =
    dyn Fn() -> Result<Credentials, Box<dyn Error + Send + Sync>> + Send + Sync;

/// Where credentials come from.
#[derive(Clone)]
pub(crate) enum CredentialsSource {
    Fixed(Option<Credentials>),
    Asked(Arc<AskCredentials>),
}

impl CredentialsSource {
    /// What to sign in with now, or why nothing is known.
    pub(crate) async fn read(&self) -> Result<Option<Credentials>, String> {
        let ask = match self {
            Self::Fixed(credentials) => return Ok(credentials.clone()),
            Self::Asked(ask) => Arc::clone(ask),
        };
        // It may read a file.
        match tokio::task::spawn_blocking(move || ask()).await {
            Ok(Ok(credentials)) => Ok(Some(credentials)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("the function that answers them panicked".to_owned()),
        }
    }
}

/// Whom to trust, and what to show, where a store is reached over TLS. Files are read for each
/// connection, so that a certificate that was renewed is the one that is used.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// A file with certificates, in PEM: of the authorities one of which has to have signed the
    /// server's. Default: those that the system trusts.
    pub ca: Option<PathBuf>,
    /// A file with the certificate that is shown to servers that ask for one, in PEM, with those of
    /// the authorities in between; with [`key`](Self::key).
    pub cert: Option<PathBuf>,
    /// A file with the private key of [`cert`](Self::cert), in PEM.
    pub key: Option<PathBuf>,
    /// The host name or IP address that the server's certificate has to be for; of a cluster, that of
    /// every node. Default: the host that is connected to, which is one of the URL, or the one that
    /// sentinels or nodes tell.
    pub server_name: Option<String>,
}

impl TlsOptions {
    /// What the options are called in URLs and configurations.
    pub const NAMES: [&str; 4] = ["ca", "cert", "key", "server_name"];

    /// What is wrong with them, beginning with the name of an option.
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
