//! Servers that the tests of one process share.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::server::Server;

/// Servers started so far. They are never dropped: they end with this process.
static STARTED: Mutex<Vec<&'static Server>> = Mutex::new(Vec::new());

/// The one server of this process for tests that only need keys of their own (see
/// [`fresh_prefix`]); started at the first call, with the first program of [`available`].
///
/// # Errors
/// As [`Server::start`]; a later call tries again.
pub fn shared() -> Result<&'static Server, ServerError> {
    let binaries = available()?;
    // `available` never answers an empty list.
    shared_of(binaries.first().ok_or(ServerError::NotRunning)?)
}

/// One shared server for each program of [`available`]: for what must hold on all of them.
///
/// # Errors
/// As [`Server::start`]; a later call tries again. No program is left out in silence.
pub fn shared_each() -> Result<Vec<&'static Server>, ServerError> {
    available()?.iter().map(shared_of).collect()
}

/// A key prefix that no other test uses: not in this process, nor in another one on the same
/// server. `label` is for people who read the keys.
#[must_use]
pub fn fresh_prefix(label: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{label}-{}-{}:", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn shared_of(binary: &ServerBinary) -> Result<&'static Server, ServerError> {
    // Held while the server starts: two tests at once must not start two.
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = started.iter().find(|server| server.binary() == binary) {
        return Ok(server);
    }
    let server: &'static Server = Box::leak(Box::new(Server::start_with(binary, &[])?));
    started.push(server);
    Ok(server)
}
