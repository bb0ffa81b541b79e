//! Sends spans over HTTP.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::{Request, Response};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use tokio::runtime::Handle;

/// A client whose requests run in the service's runtime. Its caller is a thread without one.
#[derive(Debug)]
pub(super) struct Client {
    client: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    runtime: Handle,
    timeout: Duration,
}

impl Client {
    /// Maximum number of bytes of an answer.
    const MOST: usize = 64 * 1_024;

    /// # Errors
    /// Returns a message if the system's trusted authorities can't be read.
    pub(super) fn new(timeout: Duration) -> Result<Self, String> {
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let connector = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
        let connector = connector.map_err(|error| {
            format!(
                "traces can't be sent: the system's trusted authorities can't be read ({error})"
            )
        })?;
        let connector = connector.https_or_http().enable_http1().build();
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        Ok(Self { client: client.build(connector), runtime: Handle::current(), timeout })
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new));
        let sending = async {
            let (head, body) = answer.await?.into_parts();
            let body = Limited::new(body, Self::MOST).collect().await?.to_bytes();
            Ok::<_, HttpError>(Response::from_parts(head, body))
        };
        let timeout = self.timeout;
        let sending = async move { tokio::time::timeout(timeout, sending).await };
        self.runtime.spawn(sending).await??
    }
}
