//! A service on loopback, and its client.

use std::sync::Arc;
use std::sync::Mutex;

use serde_json::Value;
use sluicegate::config::Changes;
use sluicegate::testing::{Clock, ManualClock, Timestamp};
use sluicegate::{Config, MemoryStore, Registry};
use sluicegate_envoy::incumbent::{LoadOptions, Rules};
use sluicegate_envoy::service::protos::rate_limit_service_client::RateLimitServiceClient;
use sluicegate_envoy::service::protos::{RateLimitRequest, RateLimitResponse};
use sluicegate_envoy::service::{Decided, LoadError, RateLimits, Unguarded, routes};
use sluicegate_testkit::servers::Server;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{self, Channel, Endpoint};

use crate::recorded::{self, NOW};

/// A service on loopback.
pub(crate) struct Running {
    pub(crate) limits: RateLimits,
    pub(crate) registry: Registry,
    pub(crate) channel: Channel,
    pub(crate) decided: Arc<Mutex<Vec<Decided>>>,
}

impl Running {
    /// Starts a service with the variables and files of a case, over the embedded store at [`NOW`].
    pub(crate) async fn embedded(case: &Value) -> Self {
        Self::driven(case).await.0
    }

    /// Starts a service with the variables and files of a case, over the embedded store. Also returns its clock.
    pub(crate) async fn driven(case: &Value) -> (Self, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_micros_clamped(NOW)));
        let store = MemoryStore::builder().clock(Arc::clone(&clock)).build();
        let registry = Registry::builder(store).build();
        (Self::start(case, registry, Arc::clone(&clock)).await, clock)
    }

    /// Replaces the rules by those of a file.
    pub(crate) fn load(&self, file: &str) -> Result<Changes, LoadError> {
        let rules = Rules::load([("d.yaml", file)], LoadOptions::default());
        self.limits.load(rules.expect("it is valid"))
    }

    /// Starts a service with the variables and files of a case.
    pub(crate) async fn start(
        case: &Value,
        registry: Registry,
        clock: impl Clock + 'static,
    ) -> Self {
        Self::configured(case, registry, Config::default(), clock).await
    }

    /// Starts a service over a registry of this configuration, whose limits are left out.
    pub(crate) async fn configured(
        case: &Value,
        registry: Registry,
        mut base: Config,
        clock: impl Clock + 'static,
    ) -> Self {
        let (settings, rules) = recorded::server_of(case);
        base.limits.clear();
        let decided = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&decided);
        let limits = RateLimits::with(registry.clone(), base, settings, clock, move |it| {
            seen.lock().expect("no test panics here").push(it.clone());
        });
        limits.load(rules).expect("the rules are limits");
        let channel = serve(limits.clone()).await;
        Self { limits, registry, channel, decided }
    }

    /// Sends a request.
    pub(crate) async fn ask(
        &self,
        request: impl tonic::IntoRequest<RateLimitRequest>,
    ) -> Result<RateLimitResponse, tonic::Status> {
        let mut client = RateLimitServiceClient::new(self.channel.clone());
        Ok(client.should_rate_limit(request).await?.into_inner())
    }
}

async fn serve(limits: RateLimits) -> Channel {
    serve_routes(routes(limits, Unguarded).await.expect("the descriptors are valid").routes).await
}

/// Serves on a free port of loopback, and connects.
pub(crate) async fn serve_routes(routes: Routes) -> Channel {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let incoming = TcpIncoming::from(listener);
    tokio::spawn(transport::Server::builder().add_routes(routes).serve_with_incoming(incoming));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect().await.expect("it listens")
}

/// Returns the number of script calls that a server has answered.
pub(crate) fn script_calls(server: &Server) -> usize {
    let stats = server.cli(&["INFO", "commandstats"]).expect("the server answers");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let calls = line.and_then(|line| line.split(',').next()).map_or(Ok(0), str::parse);
    calls.expect("a number")
}
