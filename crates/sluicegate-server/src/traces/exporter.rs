//! Sends spans, and logs when a failure begins and ends.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use sluicegate::Config;

use super::http_client::Reason;

/// An exporter whose failures are in the log. The events of the SDK name neither the collector nor a remedy.
#[derive(Debug)]
pub(super) struct Exporter<E> {
    exporter: E,
    /// The URL of the collector, as the log shows it.
    endpoint: String,
    /// The cause of a failure over HTTP.
    reason: Reason,
    /// The failure that was logged last; `None` while the collector accepts spans.
    logged: Mutex<Option<String>>,
}

impl<E> Exporter<E> {
    pub(super) fn new(exporter: E, endpoint: &str, reason: Reason) -> Self {
        let endpoint = Config::without_passwords(endpoint);
        Self { exporter, endpoint, reason, logged: Mutex::default() }
    }

    /// Logs a result, unless it is that of the batch before.
    fn log(&self, result: &OTelSdkResult) {
        let endpoint = &self.endpoint;
        let error = result.as_ref().err();
        let error = error.map(|error| self.reason.take().unwrap_or_else(|| error.to_string()));
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        match &error {
            Some(error) if logged.as_ref() != Some(error) => tracing::warn!(
                %error,
                "spans can't be sent to {endpoint}: look whether a collector runs there and accepts \
                 them. Decisions don't wait for it, and spans are lost until it does"
            ),
            None if logged.is_some() => tracing::info!("spans are sent to {endpoint} again"),
            _ => {}
        }
        *logged = error;
    }
}

impl<E: SpanExporter> SpanExporter for Exporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        self.log(&result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
