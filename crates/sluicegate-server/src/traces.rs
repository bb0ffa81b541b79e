//! Traces: spans of requests and their decisions, sent by OTLP.
//!
//! A request has a span if its caller names a trace and records it. The library adds a span for each decision, and one for
//! each call to a server. Without the variables of OpenTelemetry that turn [`Traces`] on, no span is made.

mod exporter;
mod http_client;
mod settings;

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context as LayerContext, Filter, Layer};

use crate::serving::Client as Connected;
use crate::trace_context::TraceContext;
use exporter::Exporter;
use http_client::{Client, Reason};
use settings::Settings;

/// Sends spans to a collector.
pub(crate) struct Traces(SdkTracerProvider);

/// Target of the spans that are sent; also in the library and in its Redis store.
const TARGET: &str = "sluicegate::trace";

impl Traces {
    /// Maximum time for sending the last spans.
    const LAST: Duration = Duration::from_secs(2);

    /// Returns the traces that the variables of the process turn on; `None` if they don't. Must be called in a runtime,
    /// which sends the spans.
    ///
    /// # Errors
    /// Returns a message that names the variable and what to change.
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(settings) = Settings::read(variable)? else { return Ok(None) };
        let (endpoint, reason) = (&settings.endpoint, Reason::default());
        let exporter = match settings.protocol {
            Protocol::Grpc => {
                SpanExporter::builder().with_tonic().with_endpoint(endpoint.as_str()).build()
            }
            protocol => {
                let client = Client::new(settings.timeout, reason.clone())?;
                let builder = SpanExporter::builder().with_http().with_http_client(client);
                builder.with_protocol(protocol).with_endpoint(endpoint.as_str()).build()
            }
        };
        let exporter = exporter.map_err(|error| {
            format!("traces can't be sent: {error}; correct the variables OTEL_EXPORTER_OTLP_*")
        })?;
        let mut resource = Resource::builder();
        if !settings.has_service_name {
            resource = resource.with_service_name("sluicegate");
        }
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(Exporter::new(exporter, endpoint, reason))
            .with_resource(resource.with_attribute(version).build());
        Ok(Some(Self(provider.build())))
    }

    /// Returns the layer that makes spans of those of `tracing`.
    pub(crate) fn layer(&self) -> Box<dyn Layer<Registry> + Send + Sync> {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("sluicegate"))
            .with_location(false)
            .with_threads(false)
            .with_level(false)
            .with_target(false)
            .with_tracked_inactivity(false);
        Box::new(layer.with_filter(OfTracedRequests))
    }

    /// Sends the last spans, for at most two seconds.
    pub(crate) async fn end(self) {
        let ending = move || self.0.shutdown_with_timeout(Self::LAST);
        match tokio::task::spawn_blocking(ending).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the last spans were not sent"),
            Err(_) => tracing::warn!("the last spans were not sent"),
        }
    }
}

/// Returns the span of a request, in a task whose trace is the current one. It is disabled if traces are off, or the
/// caller doesn't record the trace.
pub(crate) fn of_request(context: &TraceContext, request: &Request<Body>) -> Span {
    if LevelFilter::current() < LevelFilter::DEBUG {
        return Span::none();
    }
    let (method, path) = (request.method().as_str(), request.uri().path());
    let headers = request.headers();
    let rpc = rpc(path);
    let route = route(path);
    let name = match (rpc, route) {
        (Some((service, call)), _) => format!("{service}/{call}"),
        (None, Some(route)) => format!("{method} {route}"),
        (None, None) => method.to_owned(),
    };
    let span = tracing::debug_span!(
        target: TARGET,
        "sluicegate.request",
        otel.name = name,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route.filter(|_| rpc.is_none()),
        http.response.status_code = Empty,
        url.scheme = request.extensions().get().map(Connected::scheme),
        rpc.system = rpc.map(|_| "grpc"),
        rpc.service = rpc.map(|(service, _)| service),
        rpc.method = rpc.map(|(_, call)| call),
        rpc.grpc.status_code = Empty,
    );
    if !span.is_disabled() {
        // A span that has begun keeps its parent.
        let _ = span.set_parent(parent(context, headers));
    }
    span
}

/// Records the answer to a request in its span.
pub(crate) fn answered(span: &Span, response: &Response<Body>) {
    if span.is_disabled() {
        return;
    }
    let status = response.status();
    span.record("http.response.status_code", status.as_u16());
    let grpc = response.headers().get("grpc-status");
    if let Some(code) = grpc.and_then(|code| code.to_str().ok()?.parse::<u8>().ok()) {
        span.record("rpc.grpc.status_code", code);
    }
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
}

/// Returns the caller's span, as the parent of a request's span.
fn parent(context: &TraceContext, headers: &HeaderMap) -> Context {
    let state = headers.get("tracestate").and_then(|state| state.to_str().ok()?.parse().ok());
    let flags = if context.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let span = SpanContext::new(
        TraceId::from(context.trace_id.0),
        SpanId::from(context.parent_id),
        flags,
        true,
        state.unwrap_or(TraceState::NONE),
    );
    Context::new().with_remote_span_context(span)
}

/// Returns the service and the call of a path of gRPC; `None` for a service that doesn't exist here, because clients
/// choose paths.
fn rpc(path: &str) -> Option<(&str, &str)> {
    const SERVICES: [&str; 6] = [
        "envoy.service.auth.v3.Authorization",
        "envoy.service.rate_limit_quota.v3.RateLimitQuotaService",
        "envoy.service.ratelimit.v3.RateLimitService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    ];
    let (service, call) = path.strip_prefix('/')?.split_once('/')?;
    let is_call = call.len() <= 32 && call.bytes().all(|byte| byte.is_ascii_alphabetic());
    (SERVICES.contains(&service) && is_call).then_some((service, call))
}

/// Returns the path of a request without the parts that clients choose; `None` for a path that doesn't exist.
fn route(path: &str) -> Option<&'static str> {
    const PLAIN: [&str; 37] = [
        "/",
        "/healthcheck",
        "/healthz",
        "/json",
        "/metrics",
        "/readyz",
        "/rlconfig",
        "/stats",
        "/v1/acquire",
        "/v1/audit",
        "/v1/ban",
        "/v1/bans",
        "/v1/cancel",
        "/v1/charge",
        "/v1/check",
        "/v1/config",
        "/v1/explain",
        "/v1/fleet",
        "/v1/holders",
        "/v1/keys",
        "/v1/limits",
        "/v1/openapi.json",
        "/v1/pause",
        "/v1/peek",
        "/v1/recent",
        "/v1/refund",
        "/v1/release",
        "/v1/renew",
        "/v1/reserve",
        "/v1/reset",
        "/v1/resume",
        "/v1/revoke",
        "/v1/settle",
        "/v1/simulate",
        "/v1/stream",
        "/v1/take",
        "/v1/unban",
    ];
    if let Some(plain) = PLAIN.iter().find(|plain| **plain == path) {
        return Some(plain);
    }
    if path.starts_with("/v1/authz/") {
        return Some("/v1/authz/{limit}/{path}");
    }
    if path.starts_with("/v1/auth/") {
        return Some("/v1/auth/{limit}");
    }
    if path.starts_with("/page/") {
        return Some("/page/{file}");
    }
    let (_, below) = path.strip_prefix("/v1/limits/")?.split_once('/')?;
    match below.split('/').next()? {
        "override" => Some("/v1/limits/{limit}/override"),
        "overrides" if below == "overrides" => Some("/v1/limits/{limit}/overrides"),
        "overrides" => Some("/v1/limits/{limit}/overrides/{key}"),
        "top" => Some("/v1/limits/{limit}/top"),
        _ => None,
    }
}

/// Selects the spans of requests whose callers record a trace.
struct OfTracedRequests;

impl<S> Filter<S> for OfTracedRequests {
    fn enabled(&self, metadata: &Metadata<'_>, _: &LayerContext<'_, S>) -> bool {
        metadata.is_span()
            && metadata.target() == TARGET
            && TraceContext::current().is_some_and(|context| context.is_sampled)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match metadata.is_span() && metadata.target() == TARGET {
            true => Interest::sometimes(),
            false => Interest::never(),
        }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_no_part_that_a_client_chooses() {
        for (path, expected) in [
            ("/v1/check", Some("/v1/check")),
            ("/metrics", Some("/metrics")),
            ("/json", Some("/json")),
            ("/", Some("/")),
            ("/page/main.js", Some("/page/{file}")),
            ("/v1/auth/login", Some("/v1/auth/{limit}")),
            ("/v1/authz/login/a/b", Some("/v1/authz/{limit}/{path}")),
            ("/v1/check/x", None),
            ("/v1/abcdefghijklmnopqrst", None),
            ("*", None),
        ] {
            assert_eq!(route(path), expected, "{path}");
        }
    }
}
