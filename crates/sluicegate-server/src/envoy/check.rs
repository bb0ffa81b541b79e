//! `envoy check`.

use sluicegate_envoy::incumbent::{LoadOptions, Rules};

use super::cli::CheckArgs;
use super::folder::Folder;
use crate::output::{Exit, Failure, complain, say};

/// Loads the files as the service does, and prints a line for each rule.
///
/// # Errors
/// Returns an error that lists every problem of the files.
pub(super) fn check(args: &CheckArgs) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for path in &args.paths {
        let folder = Folder { path, ignores_dotfiles: args.ignore_dotfiles };
        files.extend(folder.read().map_err(Failure::usage)?);
    }
    let rules = Rules::load(files, load_options(args.merge_domains))
        .map_err(|errors| Failure::usages(errors.problems()))?;
    for warning in rules.warnings() {
        complain(format_args!("warning: {warning}"));
    }
    for line in rules.lines() {
        say(line);
    }
    Ok(Exit::Allowed)
}

/// Returns the settings of a load. `x_sluicegate` blocks are refused: they aren't applied yet, and a block without effect
/// would be an unlimited limit.
pub(super) const fn load_options(merge_domains: bool) -> LoadOptions {
    LoadOptions { merge_domains, strict: true }
}
