//! `health`: says whether a service is ready.

use std::time::Duration;

use serde::Deserialize;
use sluicegate_client::{Method, RemoteStore};
use sluicegate_core::printable;

use crate::cli::HealthArgs;
use crate::output::{Exit, Failure, say};

/// Calls `/readyz` of a service, and prints the state of its store.
///
/// # Errors
/// Returns an error if the service isn't ready or can't be reached.
pub(crate) async fn health(args: HealthArgs) -> Result<Exit, Failure> {
    let HealthArgs { server, deadline } = args;
    let store = RemoteStore::at(server.clone()).deadline(deadline.into()).build();
    let reply = store.exchange(Method::GET, "/readyz", None, Duration::ZERO).await;
    // The call reads only, so the note on charging is irrelevant.
    let reply = reply
        .map_err(|error| Failure::denied(error.to_string().replace("; nothing was charged", "")))?;
    if !reply.status.is_success() {
        let error = reply.error().map(|error| error.message);
        let why = error.as_deref().unwrap_or("it doesn't say why");
        let why = printable(why);
        return Err(Failure::denied(format_args!("the service at {server} isn't ready: {why}")));
    }
    let Ok(Ready { store }) = serde_json::from_slice(&reply.body) else {
        return Err(Failure::denied(format_args!(
            "{server} doesn't answer as a Sluicegate service does: check the URL"
        )));
    };
    say(format_args!("ready, store {}", printable(&store)));
    Ok(Exit::Allowed)
}

/// The answer of a service that is ready.
#[derive(Deserialize)]
struct Ready {
    store: String,
}
