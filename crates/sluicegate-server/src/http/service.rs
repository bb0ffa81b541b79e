//! The state that all requests share.

use std::sync::Arc;

use sluicegate::Registry;
use sluicegate::config::{RegistryBuilder, Watch};
use sluicegate::metrics::Metrics;

use super::connections::Connections;
use super::decision_lines::DecisionLines;
use super::gates::Gates;
use super::metrics::ServiceMetrics;
use super::readiness::Readiness;
use super::recent::Recent;
use super::seal::Seal;
use super::stage::Stages;
use super::turns::Turns;
use super::unreadable::Unreadable;
use super::waiting::Waiting;
use crate::access::{Access, Tokens};

pub(super) struct Service {
    pub(super) registry: Registry,
    pub(super) gates: Gates,
    /// Watch of the config file; `None` if there is none.
    pub(super) watch: Option<Arc<Watch>>,
    pub(super) access: Arc<Access>,
    pub(super) seal: Seal,
    pub(super) metrics: ServiceMetrics,
    pub(super) recent: Arc<Recent>,
    pub(super) turns: Turns,
    pub(super) waiting: Arc<Waiting>,
    pub(super) readiness: Arc<Readiness>,
    pub(super) stages: Stages,
    pub(super) connections: Arc<Connections>,
}

/// The recognition of tokens: those of clients, and those of holds.
pub(super) struct Secrets {
    pub(super) tokens: Tokens,
    pub(super) seal: Seal,
}

/// Bounds on concurrent requests.
pub(super) struct Bounds {
    pub(super) turns: Turns,
    pub(super) waiting: Waiting,
}

impl Service {
    /// `watch` starts following the config file, if there is one.
    pub(super) fn new(
        registry: RegistryBuilder,
        secrets: Secrets,
        bounds: Bounds,
        readiness: Arc<Readiness>,
        stages: Stages,
        connections: impl FnOnce(&Registry) -> Arc<Connections>,
        watch: impl FnOnce(&Registry) -> Option<Watch>,
    ) -> Self {
        // Labels come from the configuration, even if requests name their own limits.
        let metrics = Arc::new(Metrics::new().only_of_registries());
        let recent = Arc::new(Recent::default());
        let registry = registry
            .observer(metrics.clone())
            .observer(recent.clone())
            .observer(Arc::new(DecisionLines))
            .observer(readiness.clone())
            .observer(Arc::new(Unreadable::default()))
            .build();
        metrics.add_store(registry.store());
        let watch = watch(&registry).map(Arc::new);
        let connections = connections(&registry);
        let Bounds { turns, waiting } = bounds;
        let waiting = Arc::new(waiting);
        let Secrets { tokens, seal } = secrets;
        let access = Arc::new(Access::new(tokens, registry.clone()));
        let metrics = ServiceMetrics::new(
            metrics,
            &registry,
            watch.clone(),
            &connections,
            &waiting,
            &readiness,
            &access,
        );
        let gates = Gates::new(registry.clone());
        Self {
            registry,
            gates,
            watch,
            access,
            seal,
            metrics,
            recent,
            turns,
            waiting,
            readiness,
            stages,
            connections,
        }
    }
}
