//! Spans of calls, for programs whose `tracing` subscriber collects them.

use sluicegate_core::StoreError;
use tracing::Span;
use tracing::field::{Empty, debug};

use super::endpoint::Endpoint;
use crate::call::Call;

/// Returns the span of a call. Its attributes are those that OpenTelemetry has for databases.
pub(super) fn call(call: &Call, endpoint: &Endpoint) -> Span {
    let operation = match call {
        Call::Script(_) => "EVALSHA",
        Call::Command(_) | Call::Asking(_) => "COMMAND",
    };
    let host = endpoint.host();
    tracing::debug_span!(
        target: "sluicegate::trace",
        "sluicegate.store_call",
        otel.kind = "client",
        otel.name = operation,
        db.system.name = "redis",
        db.operation.name = operation,
        server.address = host.map(|host| host.name.as_str()),
        server.port = host.map(|host| host.port),
        error.type = Empty,
        otel.status_code = Empty,
    )
}

/// Records the failure of the call whose span is the current one.
#[cold]
pub(super) fn failed(error: &StoreError) {
    let span = Span::current();
    span.record("error.type", debug(error.kind())).record("otel.status_code", "ERROR");
}
