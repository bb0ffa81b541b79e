//! Opens the registry that a command uses.

use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::StoreUrl;
use sluicegate::{Config, Registry};

use crate::cli::ToArgs;
use crate::output::Failure;

/// Minimum default deadline of a command's store, because the first call connects.
const PATIENCE: Duration = Duration::from_secs(1);

/// The behavior of a command on a store that only it uses, and that ends with the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OnFreshStore {
    /// The command decides about an unused key and prints the decision.
    Decides,
    /// The command fails: there is nothing to list, return or delete, and charging has no lasting
    /// effect.
    Refuses,
}

/// Opens the limits of the arguments in their store.
///
/// # Errors
/// Returns an error if the file or the URL is invalid, or if the command is useless on its store.
pub(super) fn open(to: &ToArgs, on_fresh: OnFreshStore) -> Result<(Registry, Config), Failure> {
    let mut config = to.setup.config()?;
    if config.store == StoreUrl::Memory && on_fresh == OnFreshStore::Refuses {
        return Err(Failure::usage(
            "`memory:` is a new, empty store: name a running service with --server, or a shared \
             one with --store redis://HOST:PORT or in the config file",
        ));
    }
    for limit in &mut config.limits {
        let limit = Arc::make_mut(limit);
        let deadline = to.deadline.map(Duration::from);
        limit.deadline = deadline.or_else(|| limit.deadline.max(Some(PATIENCE)));
    }
    let registry = Registry::open(&config).map_err(Failure::usage)?;
    Ok((registry, config))
}
