//! The server programs with TLS.

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::server::Server;
use super::tls::Authority;

/// Returns the programs of [`available`] that were built with TLS.
///
/// # Errors
/// Returns an error if there is none, because TLS then can't be tested, and the errors of
/// [`Server::start`].
pub fn available_with_tls() -> Result<Vec<ServerBinary>, ServerError> {
    let authority = Authority::new()?;
    let certificate = authority.certificate("capability", &["localhost"])?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for binary in available()? {
        match Server::builder(&binary).tls(&certificate, None).start() {
            Ok(_) => with.push(binary),
            Err(ServerError::Start { log, .. }) if log.contains("Failed finding TLS support") => {
                without.push(binary.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    if with.is_empty() {
        let why = format!("no server here was built with TLS: {}", without.join(", "));
        return Err(ServerError::Start { why, log: String::new() });
    }
    Ok(with)
}
