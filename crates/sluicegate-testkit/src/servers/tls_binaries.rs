//! The server programs that have TLS.

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::server::Server;
use super::tls::Authority;

/// The programs of [`available`] that were built with TLS.
///
/// # Errors
/// When there is none, without which nothing of TLS can be tested; and as [`Server::start`].
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
