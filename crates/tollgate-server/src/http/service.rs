//! What all requests share.

use std::sync::atomic::{AtomicBool, Ordering};

use tollgate::{Registry, StoreError};

use super::guard::Guard;
use super::metrics::Metrics;
use super::recent::Recent;
use crate::fields::LimitFields;
use crate::output::complain;

pub(super) struct Service {
    pub(super) registry: Registry,
    /// In the order of the registry.
    pub(super) fields: Vec<LimitFields>,
    pub(super) guard: Guard,
    pub(super) metrics: Metrics,
    pub(super) recent: Recent,
    failing: AtomicBool,
}

impl Service {
    pub(super) fn new(registry: Registry, guard: Guard) -> Self {
        let fields = registry.limits().map(LimitFields::new).collect();
        let store = registry.iter().next().map(|(_, limiter)| limiter.store().as_ref().clone());
        Self {
            registry,
            fields,
            guard,
            metrics: Metrics::new(store),
            recent: Recent::default(),
            failing: AtomicBool::new(false),
        }
    }

    /// Tells the operator once when the store begins to fail, not once a request.
    pub(super) fn store_failed(&self, error: &StoreError) {
        self.metrics.failed(error);
        if !self.failing.swap(true, Ordering::Relaxed) {
            complain(format_args!("error: the store fails: {error}"));
        }
    }

    /// And once when it answers again.
    pub(super) fn store_answered(&self) {
        if self.failing.load(Ordering::Relaxed) && self.failing.swap(false, Ordering::Relaxed) {
            complain("note: the store answers again");
        }
    }
}
