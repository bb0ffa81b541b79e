//! The service from its start to its stop, for any routes of its listeners.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::collector::Collector;
use sluicegate::config::{RegistryBuilder, ServiceConfig, StoreUrl, Watch};
use sluicegate::store::Store as _;
use sluicegate::{Config, Registry};
use tokio::sync::watch::Sender;
use tokio::time::MissedTickBehavior;

use crate::http::observing;
use crate::http::{Bounds, Readiness, Secrets, Service, Turns, Waiting};
use crate::listening::{Opened, most_per_listener, states};
use crate::output::{Exit, Failure, complain};
use crate::serving::stop::{self, Patience, Stopped};
use crate::serving::{Listeners, Stage, Stages};
use crate::signals::StopSignals;
use crate::supervisor;

/// A service that hasn't begun to listen.
pub(crate) struct Running {
    pub(crate) service: Arc<Service>,
    stage: Sender<Stage>,
    signals: StopSignals,
}

impl Running {
    /// Makes the state of a service, and starts its work in the background. From now on, a signal stops it gracefully.
    ///
    /// # Errors
    /// Returns an error if the process can't wait for signals. An unreachable store isn't an error, because it may
    /// become reachable later.
    #[expect(clippy::too_many_arguments, reason = "each is a part of the service")]
    pub(crate) async fn new(
        name: Option<String>,
        registry: RegistryBuilder,
        config: &Config,
        secrets: Secrets,
        readiness: Arc<Readiness>,
        opened: &[Opened],
        more_metrics: Vec<Box<dyn Collector>>,
        watch: impl FnOnce(&Registry) -> Option<Watch>,
    ) -> Result<Self, Failure> {
        let ServiceConfig {
            max_connections,
            max_connections_per_address: per_address,
            max_requests,
            max_waiting,
            ..
        } = config.service;
        let (stage, stages) = Stages::new();
        let most = most_per_listener(max_connections, opened);
        let waiting = Waiting::new(max_waiting.get(), most);
        let bounds = Bounds { turns: Turns::new(max_requests), waiting };
        let states = |registry: &Registry| states(opened, most, per_address, registry);
        let mut service =
            Service::new(name, registry, secrets, bounds, readiness, stages, states, watch);
        more_metrics.into_iter().for_each(|collector| service.add_metrics(collector));
        let service = Arc::new(service);
        // Ping before the first probe, so a reachable store is reported.
        service.readiness.ping(&service.registry).await;
        tokio::spawn(Arc::clone(&service.readiness).watch(service.registry.clone()));
        // Before the first request, so that it is decided by the overrides that there are.
        let overrides = service.registry.overrides();
        let _ = overrides.refresh().await;
        tokio::spawn(async move { overrides.follow().await });
        let of_fleet = Arc::clone(&service);
        tokio::spawn(async move { of_fleet.fleet.take_part().await });
        tokio::spawn(sweep(service.registry.clone()));
        service.overview.set_store_kind(match config.store {
            StoreUrl::Memory => "memory",
            StoreUrl::Redis(_) => "redis",
            _ => "other",
        });
        tokio::spawn(observing::observe(Arc::clone(&service)));
        tokio::spawn(supervisor::feed_watchdog());
        tokio::spawn(Arc::clone(&service.top_keys).sweep());
        let signals = StopSignals::new().map_err(|error| no_signals(&error))?;
        Ok(Self { service, stage, signals })
    }

    /// Serves until a signal stops the service, and returns the exit status: 0, or that of a second signal. `last` is
    /// awaited at the end of a stop, unless a second signal ends it.
    pub(crate) async fn serve(
        self,
        listeners: Listeners,
        patience: Patience,
        last: impl Future<Output = ()>,
    ) -> Exit {
        let Self { service, stage, signals } = self;
        let opened = listeners.all_opened();
        tokio::spawn(async move {
            opened.await;
            supervisor::ready("Serving");
        });
        let store = service.registry.store();
        let farewell = async {
            // Other processes get the leased units immediately, and don't count this one any more.
            let leaving = async { tokio::join!(store.return_leases(), service.fleet.leave()) };
            if tokio::time::timeout(FAREWELL, leaving).await.is_err() {
                complain(
                    "note: stopped before the store took all leases back; they end by themselves",
                );
            }
            last.await;
        };
        match stop::run(listeners, stage, signals, patience, farewell).await {
            Stopped::InOrder => Exit::Allowed,
            Stopped::AtOnce(signal) => Exit::Signal(signal),
        }
    }
}

/// Time limit of the store's part in a stop.
const FAREWELL: Duration = Duration::from_secs(1);

/// Returns the failure of a process that can't wait for signals.
pub(crate) fn no_signals(error: &io::Error) -> Failure {
    Failure::usage(format_args!("can't wait for signals: {error}"))
}

/// Makes an idle embedded store release memory in small steps, so no request waits for it.
async fn sweep(registry: Registry) {
    let store = registry.store();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        store.maintain();
    }
}
