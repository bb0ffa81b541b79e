//! The policies that the command line names.

use std::fmt;
use std::path::Path;

use sluicegate::config::LimitConfig;
use sluicegate::config::Switch;
use sluicegate::http::ClientAddress;
use sluicegate_core::{Limit, SpecError};
use sluicegate_replay::PolicySpec;

use crate::output::{Failure, complain};
use crate::setup::CapArgs;

/// Parses the argument of `--policy`.
pub(super) fn policy_spec(text: &str) -> Result<PolicySpec, PolicySpecError> {
    text.parse().map_err(|error| {
        let text = text.trim();
        PolicySpecError { is_one_word: !text.is_empty() && !text.contains(' '), error }
    })
}

/// Returns a config file's limit and client address, with a note on the settings that a replay
/// ignores.
pub(super) fn limit_of(
    file: &Path,
    caps: CapArgs,
    name: &str,
) -> Result<(Limit, ClientAddress), Failure> {
    let config = caps.load(file)?;
    if let Some(found) = config.limit(name) {
        let left_out = left_out(found);
        if !left_out.is_empty() {
            complain(format_args!(
                "note: only the policies of limit `{name}` are played, without its {}",
                left_out.join(", ")
            ));
        }
        return Ok((found.limit.clone(), config.http.client_address.clone()));
    }
    let names: Vec<_> = config.limits.iter().map(|config| config.limit.name().as_str()).collect();
    Err(Failure::usage(format_args!(
        "{} has no limit `{}`: it has {}",
        file.display(),
        name.escape_debug(),
        names.join(", ")
    )))
}

/// An error for an invalid spec.
#[derive(Clone, Debug)]
pub(super) struct PolicySpecError {
    error: SpecError,
    is_one_word: bool,
}

impl fmt::Display for PolicySpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)?;
        if self.is_one_word {
            f.write_str("\nA policy is one argument: quote it, as in --policy \"gcra 5/min\"")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicySpecError {}

/// Returns the settings of a limit that a replay ignores, for some keys or for the whole limit.
fn left_out(config: &LimitConfig) -> Vec<&'static str> {
    [
        ("`enabled: false`", config.enabled == Switch::Off),
        ("`allow`", !config.allow.is_empty()),
        ("`block`", !config.block.is_empty()),
        ("`overrides`", !config.overrides.is_empty()),
    ]
    .into_iter()
    .filter_map(|(field, is_told)| is_told.then_some(field))
    .collect()
}
