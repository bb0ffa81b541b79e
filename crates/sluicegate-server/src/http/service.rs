//! The state that all requests share.

use std::sync::Arc;

use sluicegate::metrics::Metrics;
use sluicegate::{Registry, RegistryBuilder, Watch};

use super::guard::Guard;
use super::metrics::ServiceMetrics;
use super::recent::Recent;
use super::unreadable::Unreadable;

pub(super) struct Service {
    pub(super) registry: Registry,
    /// `None` when there is no config file.
    pub(super) watch: Option<Arc<Watch>>,
    pub(super) guard: Guard,
    pub(super) metrics: ServiceMetrics,
    pub(super) recent: Arc<Recent>,
}

impl Service {
    /// `watch` starts following the config file, if there is one.
    pub(super) fn new(
        registry: RegistryBuilder,
        guard: Guard,
        watch: impl FnOnce(&Registry) -> Option<Watch>,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let recent = Arc::new(Recent::default());
        let registry = registry
            .observer(metrics.clone())
            .observer(recent.clone())
            .observer(Arc::new(Unreadable::default()))
            .build();
        let watch = watch(&registry).map(Arc::new);
        let metrics = ServiceMetrics::new(metrics, registry.clone(), watch.clone());
        Self { registry, watch, guard, metrics, recent }
    }
}
