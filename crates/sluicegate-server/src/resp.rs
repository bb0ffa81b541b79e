//! Redis' protocol: commands on a listener of its own.
//!
//! [`Resp`] answers the connections of the listener. Each has a [`Talk`](talk::Talk), which reads pipelines of commands,
//! decides them in their order, and writes the answers. The crate `sluicegate-resp` has the protocol itself.

#[cfg(test)]
mod allocations;
mod problem;
mod question;
mod talk;
mod throttle_gates;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::http::Service;
use crate::serving::{Connected, Conversation};

use talk::Talk;
use throttle_gates::ThrottleGates;

/// The commands of a service in Redis' protocol.
pub(crate) struct Resp(Arc<Shared>);

/// The state that all connections share.
struct Shared {
    service: Arc<Service>,
    throttle_gates: ThrottleGates,
    /// The number of connections so far.
    connections: AtomicU64,
}

impl Resp {
    /// Makes the commands of a service.
    pub(crate) fn new(service: Arc<Service>) -> Self {
        ThrottleGates::count(&service);
        let throttle_gates = ThrottleGates::new(service.registry.clone());
        Self(Arc::new(Shared { service, throttle_gates, connections: AtomicU64::new(0) }))
    }
}

impl Conversation for Resp {
    fn converse(&self, connected: Connected) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let id = self.0.connections.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(Talk::new(Arc::clone(&self.0), id, connected).run())
    }
}
