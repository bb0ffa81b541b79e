//! `sluicegate envoy`: takes the place of envoyproxy/ratelimit.

mod check;
mod cli;
mod counters;
mod files;
mod folder;
mod listeners;
mod loads;
mod per_second;
mod plane;
mod pushes;
mod routes;
mod run;
mod stores;

pub(crate) use cli::EnvoyArgs;

use crate::output::{Exit, Failure};
use crate::serving::PassedSockets;
use cli::EnvoyCommand;

/// Runs the service until a signal stops it, or checks files.
///
/// # Errors
/// Returns an error if the files are refused or the service can't start.
pub(crate) async fn envoy(args: EnvoyArgs, passed: PassedSockets) -> Result<Exit, Failure> {
    match args.command {
        Some(EnvoyCommand::Check(args)) => check::check(&args),
        None => run::run(args.run, passed).await,
    }
}
