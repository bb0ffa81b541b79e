//! The registry that a command asks.

use sluicegate::{Config, Registry, Span};

use crate::cli::ToArgs;
use crate::output::Failure;

/// The least that a command waits for its store unless told: it connects first.
const PATIENCE: Span = Span::SECOND;

/// Opens the limits of the arguments in their store.
///
/// # Errors
/// When the file or the URL can't be used.
pub(super) fn open(to: &ToArgs) -> Result<(Registry, Config), Failure> {
    let mut config = to.setup.config()?;
    for limit in &mut config.limits {
        limit.deadline = to.deadline.or_else(|| limit.deadline.max(Some(PATIENCE)));
    }
    let registry = Registry::open(&config).map_err(Failure::usage)?;
    Ok((registry, config))
}
