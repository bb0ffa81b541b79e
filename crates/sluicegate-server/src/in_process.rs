//! A service in the process of its test.

use std::future::pending;
use std::sync::Arc;

use sluicegate::config::{RegistryBuilder, ServiceConfig};
use tokio::sync::watch::Sender;

use crate::access::Tokens;
use crate::http::{Bounds, Readiness, Seal, Secrets, Service, Turns, Waiting};
use crate::serving::{
    Answering, ConnectionAge, Connections, Listener, PassedSockets, Reserved, Served, Stage, Stages,
};

/// A service without tokens, as `sluicegate serve` makes it.
pub(crate) struct InProcess {
    pub(crate) service: Arc<Service>,
    stage: Sender<Stage>,
}

impl InProcess {
    pub(crate) fn new(registry: RegistryBuilder) -> Self {
        let secrets = Secrets { tokens: Tokens::new(None).unwrap(), seal: Seal::random().unwrap() };
        let turns = Turns::new(ServiceConfig::default().max_requests);
        let bounds = Bounds { turns, waiting: Waiting::new(1, 2) };
        let (stage, stages) = Stages::new();
        let readiness = Readiness::new(false);
        let none = |_: &_| Vec::new();
        let service =
            Service::new(None, registry, secrets, bounds, readiness, stages, none, |_| None);
        Self { service: Arc::new(service), stage }
    }

    /// Answers on a free port, as long as the runtime exists. Returns the address.
    pub(crate) async fn listen(self, answering: Answering) -> String {
        let free_port = "127.0.0.1:0".parse().unwrap();
        let reserved = Reserved::new(&free_port, &mut PassedSockets::take()).await.unwrap();
        let bound = reserved.listen().unwrap();
        let address = bound.to_string();
        let stages = self.service.stages.clone();
        let served = Served { answering, stages, tls: None, age: ConnectionAge::default() };
        let listener = Listener { bound, connections: Connections::new(64, None), served };
        tokio::spawn(async move {
            listener.accept(pending::<()>()).await;
            drop(self.stage);
        });
        address
    }
}
