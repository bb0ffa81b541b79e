//! A store with what has to live as long.

use std::future::Future;

use sluicegate_core::{Limit, OpenOptions, Store, StoreError, StoreId, StoreStats};

/// A store with what has to live as long as it does: the server that it talks to, a folder.
#[derive(Clone, Debug)]
pub struct Guarded<S, G> {
    store: S,
    _guard: G,
}

impl<S, G> Guarded<S, G> {
    /// `store`, which is dropped before `guard`.
    pub const fn new(store: S, guard: G) -> Self {
        Self { store, _guard: guard }
    }
}

impl<S: Store, G: Send + Sync + 'static> Store for Guarded<S, G> {
    type Opened = S::Opened;

    fn id(&self) -> StoreId {
        self.store.id()
    }

    fn open(&self, limit: Limit, options: OpenOptions) -> S::Opened {
        self.store.open(limit, options)
    }

    fn ping(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.store.ping()
    }

    fn rehearse(
        &self,
        limits: Vec<(Limit, OpenOptions)>,
    ) -> impl Future<Output = Result<Vec<String>, StoreError>> + Send {
        self.store.rehearse(limits)
    }

    fn maintain(&self) {
        self.store.maintain();
    }

    fn stats(&self) -> StoreStats {
        self.store.stats()
    }
}
