//! `config check`.

use sluicegate::Config;

use crate::cli::{ConfigArgs, ConfigCommand};
use crate::output::{Exit, Failure, complain, counted, say};
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
    let limits = counted(config.limits.len() as u64, "limit");
    let warnings = match config.warnings().len() {
        0 => String::new(),
        count => format!(", {}", counted(count as u64, "warning")),
    };
    say(format_args!("{}: {limits}, no errors{warnings}", file.display()));
    Ok(Exit::Allowed)
}
