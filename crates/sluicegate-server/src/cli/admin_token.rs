//! The admin token, as an argument.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use axum::http::HeaderValue;
use clap::Args;

use crate::output::Failure;

/// The arguments that give the admin token.
#[derive(Args, Clone)]
pub(crate) struct AdminTokenArgs {
    /// The admin token, and for a call of a service also that of a client; the variable keeps it out of lists of
    /// processes
    #[arg(long, value_name = "TOKEN", env = "SLUICEGATE_ADMIN_TOKEN", hide_env_values = true)]
    admin_token: Option<String>,

    /// A file with this token, read once; a line break at its end doesn't count
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
}

impl AdminTokenArgs {
    /// Reads the token, if one is given.
    ///
    /// # Errors
    /// Returns an error if both arguments are given or the file can't be read. Also if the token is
    /// empty, or invalid in an HTTP header field.
    pub(crate) fn read(&self) -> Result<Option<String>, Failure> {
        /// Name of the option and its variable in messages.
        const OPTION: &str = "--admin-token (or SLUICEGATE_ADMIN_TOKEN)";
        let (source, text) = match (&self.admin_token, &self.admin_token_file) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Failure::usage(format_args!(
                    "{OPTION} and --admin-token-file are both given: give one of them"
                )));
            }
            (Some(token), None) => (OPTION.to_owned(), token.clone()),
            (None, Some(path)) => {
                (format!("--admin-token-file {}", path.display()), read_file(path)?)
            }
        };
        let token = text.trim();
        if token.is_empty() {
            return Err(Failure::usage(format_args!(
                "{source} is empty: give a token, such as one of `openssl rand -hex 32`, or omit it"
            )));
        }
        if HeaderValue::from_str(token).is_err() || !token.is_ascii() {
            return Err(Failure::usage(format_args!(
                "{source} has several lines, or characters that a field of HTTP can't carry: give a token \
                 in one line of printable ASCII"
            )));
        }
        Ok(Some(token.to_owned()))
    }
}

/// Reads a file with a token.
fn read_file(path: &Path) -> Result<String, Failure> {
    /// Maximum size of a token file, in bytes.
    const MOST_BYTES: u64 = 4096;
    let failure = |why: &dyn fmt::Display| {
        Failure::usage(format_args!("--admin-token-file {}: {why}", path.display()))
    };
    let file = File::open(path).map_err(|error| failure(&error))?;
    let mut text = String::new();
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| failure(&error))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(failure(&format_args!(
            "has more than {MOST_BYTES} bytes: name a file that has the token and nothing else"
        )));
    }
    Ok(text)
}

/// Omits the token.
impl fmt::Debug for AdminTokenArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admin_token, admin_token_file } = self;
        f.debug_struct("AdminTokenArgs")
            .field("admin_token", &admin_token.is_some())
            .field("admin_token_file", admin_token_file)
            .finish()
    }
}
