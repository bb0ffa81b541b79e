//! The state that all requests share.

use std::sync::Arc;

use prometheus_client::collector::Collector;
#[cfg(feature = "resp")]
use sluicegate::Limit;
use sluicegate::Registry;
use sluicegate::config::{RegistryBuilder, Watch};
use sluicegate::metrics::Metrics;

use super::gates::Gates;
use super::metrics::ServiceMetrics;
use super::overview::Overview;
use super::readiness::Readiness;
use super::seal::Seal;
use super::turns::Turns;
use super::unreadable::Unreadable;
use super::waiting::Waiting;
use crate::access::{Access, Tokens};
use crate::activity::Activity;
use crate::decisions::{DebugLines, Recent, TopKeys};
use crate::fleet::{Fleet, FleetCollector, Rate};
use crate::serving::{ListenerState, Stages};
use crate::simulate::Simulator;
use crate::trace_context::TraceContext;

pub(crate) struct Service {
    pub(crate) registry: Registry,
    pub(crate) gates: Gates,
    /// Watch of the config file; `None` if there is none.
    pub(crate) watch: Option<Arc<Watch>>,
    pub(crate) access: Arc<Access>,
    pub(crate) seal: Seal,
    pub(super) metrics: ServiceMetrics,
    pub(super) recent: Arc<Recent>,
    pub(crate) top_keys: Arc<TopKeys>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) overview: Overview,
    pub(crate) turns: Turns,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) readiness: Arc<Readiness>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) simulator: Simulator,
    pub(crate) stages: Stages,
    pub(crate) listeners: Vec<ListenerState>,
    /// The shares of limits that Envoys have.
    #[cfg(feature = "envoy")]
    pub(crate) quotas: sluicegate_envoy::service::Quotas,
}

/// The recognition of tokens: those of clients, and those of holds.
pub(crate) struct Secrets {
    pub(crate) tokens: Tokens,
    pub(crate) seal: Seal,
}

/// Bounds on concurrent requests.
pub(crate) struct Bounds {
    pub(crate) turns: Turns,
    pub(crate) waiting: Waiting,
}

impl Service {
    /// `name` is the name of this process in its fleet. `listeners` makes the state of the listeners. `watch` starts following the config file, if there is one.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the state")]
    pub(crate) fn new(
        name: Option<String>,
        registry: RegistryBuilder,
        secrets: Secrets,
        bounds: Bounds,
        readiness: Arc<Readiness>,
        stages: Stages,
        listeners: impl FnOnce(&Registry) -> Vec<ListenerState>,
        watch: impl FnOnce(&Registry) -> Option<Watch>,
    ) -> Self {
        // Labels come from the configuration, even if requests name their own limits.
        let metrics = Metrics::new().only_of_registries();
        let metrics = Arc::new(metrics.with_traces(TraceContext::current_sampled));
        let recent = Arc::new(Recent::new());
        let rate = Arc::<Rate>::default();
        let top_keys = Arc::new(TopKeys::new());
        let activity = Arc::new(Activity::new());
        let registry = registry
            .observer(metrics.clone())
            .observer(activity.clone())
            .observer(recent.clone())
            .observer(rate.clone())
            .observer(top_keys.clone())
            .observer(Arc::new(DebugLines))
            .observer(readiness.clone())
            .observer(Arc::new(Unreadable::default()))
            .build();
        metrics.add_store(registry.store());
        let watch = watch(&registry).map(Arc::new);
        let fleet = Arc::new(Fleet::new(name, &registry, watch.clone(), rate));
        let listeners = listeners(&registry);
        let Bounds { turns, waiting } = bounds;
        let waiting = Arc::new(waiting);
        let Secrets { tokens, seal } = secrets;
        let access = Arc::new(Access::new(tokens, registry.clone()));
        #[cfg(feature = "envoy")]
        let quotas = sluicegate_envoy::service::Quotas::new(registry.clone());
        let mut metrics = ServiceMetrics::new(
            metrics,
            &registry,
            watch.clone(),
            &listeners,
            &waiting,
            &readiness,
            &access,
        );
        metrics.add(Box::new(FleetCollector(Arc::clone(&fleet))));
        #[cfg(feature = "envoy")]
        metrics.add(Box::new(super::quota_metrics::QuotaCollector(quotas.clone())));
        let gates = Gates::new(registry.clone());
        Self {
            registry,
            gates,
            watch,
            access,
            seal,
            metrics,
            recent,
            top_keys,
            activity,
            overview: Overview::new(),
            turns,
            waiting,
            readiness,
            fleet,
            simulator: Simulator::default(),
            stages,
            listeners,
            #[cfg(feature = "envoy")]
            quotas,
        }
    }

    /// Returns `true` while the current content of the config file isn't in force.
    pub(super) fn is_stale(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.last_error().is_some())
    }

    /// Counts a limit under its own name in the metrics and lists of keys, although no configuration has it.
    #[cfg(feature = "resp")]
    pub(crate) fn count_limit(&self, limit: &Limit) {
        self.metrics.count_limit(limit);
        for name in limit.parts() {
            self.top_keys.know(name);
            self.activity.know(name);
        }
    }

    /// Adds metrics to the page.
    pub(crate) fn add_metrics(&mut self, collector: Box<dyn Collector>) {
        self.metrics.add(collector);
    }
}
