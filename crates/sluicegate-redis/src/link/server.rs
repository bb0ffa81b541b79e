//! A server that decides: where it is, or the sentinels that are asked for that at each connection.

use std::sync::Arc;

use super::endpoint::Endpoint;
use super::handshake::{self, Talk};
use super::problem::Problem;
use super::sentinels::Sentinels;
use crate::redis_url::Host;

/// A server that decides.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(super) endpoint: Endpoint,
    /// Those that watch it, if any do: they know where it is.
    sentinels: Option<Arc<Sentinels>>,
}

impl Server {
    /// A server that has a place of its own.
    pub(crate) const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, sentinels: None }
    }

    /// The primary of some sentinels; `endpoint` says how it is reached.
    pub(crate) fn watched(endpoint: Endpoint, sentinels: Sentinels) -> Self {
        Self { endpoint: endpoint.watched(), sentinels: Some(Arc::new(sentinels)) }
    }

    /// Connects, signs in and turns to the database, if the server is one that can decide. A primary that
    /// has sentinels is looked for each time: another one may have taken its place.
    pub(crate) async fn connect(&self) -> Result<Talk, Problem> {
        let Some(sentinels) = &self.sentinels else {
            return handshake::connect(&self.endpoint).await;
        };
        let named = self.endpoint.at(sentinels.primary().await?);
        handshake::connect(&named).await.map_err(|problem| problem.of_named(&named.address))
    }

    /// Returns once the server of a connection is no longer the one to ask; for most, never.
    pub(crate) async fn succeeded(&self, host: Option<Host>) {
        match (&self.sentinels, host) {
            (Some(sentinels), Some(host)) => sentinels.announce_another(host).await,
            _ => std::future::pending().await,
        }
    }
}
