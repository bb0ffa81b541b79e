//! Servers that the tests of one process share.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::binary::{ServerBinary, available};
use super::error::ServerError;
use super::server::Server;

/// Servers started so far. They are never dropped: they end with this process.
static STARTED: Mutex<Vec<&'static Server>> = Mutex::new(Vec::new());

/// Returns this process's shared server, for tests that only need their own keys (see
/// [`fresh_prefix`]).
///
/// The first call starts it with the first program of [`available`].
///
/// # Errors
/// Returns the errors of [`Server::start`]; a later call tries again.
pub fn shared() -> Result<&'static Server, ServerError> {
    let binaries = available()?;
    // `available` never returns an empty list.
    shared_of(binaries.first().ok_or(ServerError::NotRunning)?)
}

/// Returns one shared server for each program of [`available`], for tests that must pass on all of
/// them.
///
/// # Errors
/// Returns the errors of [`Server::start`]; a later call tries again. No program is skipped
/// silently.
pub fn shared_each() -> Result<Vec<&'static Server>, ServerError> {
    available()?.iter().map(shared_of).collect()
}

/// Returns a key prefix that no other test uses, in this process or in another one on the same
/// server. `label` is for people who read the keys.
#[must_use]
pub fn fresh_prefix(label: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{label}-{}-{}:", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn shared_of(binary: &ServerBinary) -> Result<&'static Server, ServerError> {
    // Held while the server starts, so that two concurrent tests don't start two.
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = started.iter().find(|server| server.binary() == binary) {
        return Ok(server);
    }
    let server: &'static Server = Box::leak(Box::new(Server::start_with(binary, &[])?));
    started.push(server);
    Ok(server)
}
