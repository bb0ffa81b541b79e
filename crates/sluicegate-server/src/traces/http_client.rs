//! Sends spans over HTTP.

use std::error::Error;
use std::iter::successors;
use std::sync::{Arc, Mutex, PoisonError};
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
    reason: Reason,
}

/// The cause of the last failed request; empty if the last one was answered. Errors of the exporter lack it.
#[derive(Clone, Debug, Default)]
pub(super) struct Reason(Arc<Mutex<Option<String>>>);

impl Reason {
    /// Returns the cause, and empties it.
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Replaces the cause by an error and those behind it.
    fn set(&self, error: Option<&HttpError>) {
        let reason = error.map(|error| {
            let first: &(dyn Error + 'static) = &**error;
            let causes = successors(Some(first), |error| (*error).source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason;
    }
}

impl Client {
    /// Maximum number of bytes of an answer.
    const MOST: usize = 64 * 1_024;

    /// # Errors
    /// Returns a message if the system's trusted authorities can't be read.
    pub(super) fn new(timeout: Duration, reason: Reason) -> Result<Self, String> {
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let connector = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
        let connector = connector.map_err(|error| {
            format!(
                "traces can't be sent: the system's trusted authorities can't be read ({error})"
            )
        })?;
        let connector = connector.https_or_http().enable_http1().build();
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
        Ok(Self { client: client.build(connector), runtime: Handle::current(), timeout, reason })
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
        let sent = async { self.runtime.spawn(sending).await?? }.await;
        self.reason.set(sent.as_ref().err());
        sent
    }
}
