//! The registry that a command asks.

use std::sync::Arc;

use sluicegate::config::StoreUrl;
use sluicegate::store::Span;
use sluicegate::{Config, Registry};

use crate::cli::ToArgs;
use crate::output::Failure;

/// The least that a command waits for its store unless told: it connects first.
const PATIENCE: Span = Span::SECOND;

/// Whether a command makes sense on a store that no other process has and that ends with the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum OnFreshStore {
    /// It decides about a key that is unused, and says so.
    Decides,
    /// There is nothing to list, give back or forget, and no use in charging: an error.
    Refuses,
}

/// Opens the limits of the arguments in their store.
///
/// # Errors
/// Returns an error if the file or the URL can't be used, or if the command makes no sense on its store.
pub(super) fn open(to: &ToArgs, on_fresh: OnFreshStore) -> Result<(Registry, Config), Failure> {
    let mut config = to.setup.config()?;
    if config.store == StoreUrl::Memory && on_fresh == OnFreshStore::Refuses {
        return Err(Failure::usage(
            "memory: is a fresh store of this command alone, so there is nothing to change or list: name a \
             running service with --server, or a shared store with --store redis://HOST:PORT or in the \
             config file",
        ));
    }
    for limit in &mut config.limits {
        let limit = Arc::make_mut(limit);
        limit.deadline = to.deadline.or_else(|| limit.deadline.max(Some(PATIENCE)));
    }
    let registry = Registry::open(&config).map_err(Failure::usage)?;
    Ok((registry, config))
}
