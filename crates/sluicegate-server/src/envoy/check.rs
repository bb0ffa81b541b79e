//! `envoy check`.

use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{LoadOptions, Rules, Settings};
use sluicegate_envoy::service::{LoadError, RateLimits};

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
    let options = LoadOptions { merge_domains: args.merge_domains, strict: args.strict_compat };
    let rules = Rules::load(files, options).map_err(|errors| Failure::usages(errors.problems()))?;
    let mut base = Config::default();
    base.limits.clear();
    let registry = Registry::builder(MemoryStore::new()).build();
    let limits = RateLimits::new(registry, base, Settings::default());
    limits.load(rules).map_err(|error| match error {
        LoadError::Blocks(errors) => Failure::usages(errors.problems()),
        other => Failure::usage(other),
    })?;
    for warning in limits.warnings() {
        complain(format_args!("warning: {warning}"));
    }
    for line in limits.lines() {
        say(line);
    }
    Ok(Exit::Allowed)
}
