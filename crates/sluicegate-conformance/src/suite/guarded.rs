//! A store with the values that must outlive it.

use sluicegate_core::{BoxFuture, Limit, OpenOptions, Store, StoreError, StoreId};

/// A store with the values that must outlive it, such as its server or a folder.
#[derive(Clone, Debug)]
pub struct Guarded<S, G> {
    store: S,
    _guard: G,
}

impl<S, G> Guarded<S, G> {
    /// Wraps `store`, which is dropped before `guard`.
    pub const fn new(store: S, guard: G) -> Self {
        Self { store, _guard: guard }
    }
}

impl<S: Store, G: Send + Sync + 'static> Store for Guarded<S, G> {
    type Opened = S::Opened;

    fn inner(&self) -> Option<&dyn Store> {
        Some(&self.store)
    }

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> S::Opened {
        self.store.open(limit, options)
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.store.ping()
    }
}
