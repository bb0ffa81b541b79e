//! A deciding server: its address, or the sentinels that are asked for it at each connection.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::handshake::{self, Talk};
use super::problem::Problem;
use super::sentinels::Sentinels;
use crate::redis_url::Host;

/// A deciding server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(super) endpoint: Endpoint,
    /// The sentinels that watch the server and know its address, if there are any.
    sentinels: Option<Arc<Sentinels>>,
}

impl Server {
    /// Returns a server with a fixed address.
    pub(crate) const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, sentinels: None }
    }

    /// Returns the primary of some sentinels; `endpoint` has its access options.
    pub(crate) fn watched(endpoint: Endpoint, sentinels: Sentinels) -> Self {
        Self { endpoint: endpoint.watched(), sentinels: Some(Arc::new(sentinels)) }
    }

    /// Returns the same server, with connections to sentinels of its own.
    pub(super) fn apart(&self) -> Self {
        let sentinels = self.sentinels.as_ref().map(|sentinels| Arc::new(sentinels.apart()));
        Self { endpoint: self.endpoint.clone(), sentinels }
    }

    /// Connects, signs in and selects the database, if the server can decide. A primary with sentinels is
    /// looked up each time, because another one may have replaced it.
    pub(crate) async fn connect(&self) -> Result<Talk, Problem> {
        let Some(sentinels) = &self.sentinels else {
            return handshake::connect(&self.endpoint).await;
        };
        let named = self.endpoint.at(sentinels.primary().await?);
        handshake::connect(&named).await.map_err(|problem| problem.of_named(&named.address))
    }

    /// Returns once another server has replaced the one of a connection; without sentinels, never.
    pub(crate) async fn succeeded(&self, host: Option<Host>) {
        match (&self.sentinels, host) {
            (Some(sentinels), Some(host)) => sentinels.announce_another(host).await,
            _ => std::future::pending().await,
        }
    }
}
