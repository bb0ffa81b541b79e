//! `completions` and `man`: texts that are made of the definition of the command line.

use std::io::Write as _;
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::{Exit, Failure};

/// Prints the completions for a shell.
///
/// # Errors
/// Returns an error if standard output can't be written.
pub(crate) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "sluicegate", &mut script);
    std::io::stdout().write_all(&script).map_err(Failure::usage)?;
    Ok(Exit::Allowed)
}

/// Writes a page of the manual for each command into a folder.
///
/// # Errors
/// Returns an error if a page can't be written.
pub(crate) fn man(folder: &Path) -> Result<Exit, Failure> {
    let made = std::fs::create_dir_all(folder);
    let made = made.and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    made.map_err(|error| {
        Failure::usage(format_args!("can't write pages into {}: {error}", folder.display()))
    })?;
    Ok(Exit::Allowed)
}
