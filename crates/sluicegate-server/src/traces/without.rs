//! Replaces traces in a program without the feature `otlp`.

use std::convert::Infallible;

use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Identity, Layer};

/// Traces that no program without the feature has.
pub(crate) struct Traces(Infallible);

impl Traces {
    /// Returns `None`.
    ///
    /// # Errors
    /// Returns a message if the variables of the process turn traces on.
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        let names = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
        match names.iter().find(|name| std::env::var_os(name).is_some_and(|it| !it.is_empty())) {
            Some(name) => Err(format!(
                "{name} is set, but this program sends no traces: unset it, or build it with the feature `otlp`"
            )),
            None => Ok(None),
        }
    }

    /// Returns a layer that does nothing.
    #[expect(clippy::unused_self, reason = "the signature of the type with the feature")]
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        Box::new(Identity::new())
    }

    /// Does nothing.
    #[expect(clippy::unused_async, reason = "the signature of the function with the feature")]
    pub(crate) async fn end(self) {
        match self.0 {}
    }
}
