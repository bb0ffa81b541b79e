//! `config check`.

use sluicegate::Config;

use crate::cli::{ConfigArgs, ConfigCommand};
use crate::output::{Exit, Failure, complain, say};
use crate::setup::config_failure;

/// Checks a file.
///
/// # Errors
/// Every problem of the file.
pub(crate) fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    let ConfigCommand::Check { file } = &args.command;
    let config = Config::load(file).map_err(|errors| config_failure(&errors))?;
    for warning in config.warnings() {
        complain(format_args!("warning: {warning}"));
    }
    let count = config.limits.len();
    let limits = if count == 1 { "limit" } else { "limits" };
    say(format_args!("{}: {count} {limits}, no errors", file.display()));
    Ok(Exit::Allowed)
}
