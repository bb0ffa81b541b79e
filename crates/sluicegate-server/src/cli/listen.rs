//! The addresses of the listeners, as arguments.

use clap::Args;
use sluicegate::config::{ListenAddress, ListenerConfig, ListenersConfig};

/// The arguments that set the addresses of the listeners.
#[derive(Args, Clone, Debug)]
pub(crate) struct ListenArgs {
    /// The address of the HTTP API, `HOST:PORT`, `:PORT`, `unix:PATH` or `fd:NAME`; port 0 takes a free one
    /// [default: 127.0.0.1:8080, or the config file's]
    #[arg(long, value_name = "ADDR")]
    listen: Option<ListenAddress>,

    /// An address for gRPC: Envoy's rate limit service, health checks and reflection
    #[arg(long, value_name = "ADDR")]
    grpc: Option<ListenAddress>,

    /// An address for commands in Redis' protocol, such as SG.CHECK and CL.THROTTLE
    #[arg(long, value_name = "ADDR")]
    resp: Option<ListenAddress>,

    /// An address for operators; it has everything that --listen has, and the page, the metrics and all admin
    /// calls, which --listen then lacks
    #[arg(long, value_name = "ADDR")]
    admin: Option<ListenAddress>,

    /// An address for /metrics only
    #[arg(long, value_name = "ADDR")]
    metrics: Option<ListenAddress>,

    /// An address for /healthz and /readyz only, which answers even if the others are overloaded
    #[arg(long, value_name = "ADDR")]
    health: Option<ListenAddress>,
}

impl ListenArgs {
    /// Replaces the addresses of a configuration. A listener's TLS stays that of the file.
    pub(crate) fn apply(&self, listeners: &mut ListenersConfig) {
        if let Some(address) = &self.listen {
            listeners.http.address = address.clone();
        }
        for (address, listener) in [
            (&self.grpc, &mut listeners.grpc),
            (&self.resp, &mut listeners.resp),
            (&self.admin, &mut listeners.admin),
            (&self.metrics, &mut listeners.metrics),
            (&self.health, &mut listeners.health),
        ] {
            let Some(address) = address else { continue };
            match listener {
                Some(listener) => listener.address = address.clone(),
                None => *listener = Some(ListenerConfig::from(address.clone())),
            }
        }
    }
}
