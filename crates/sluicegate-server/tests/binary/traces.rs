//! Tests the spans that collectors receive.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value as AnyValue;
use opentelemetry_proto::tonic::common::v1::{AnyValue as Any, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use rustix::process::Signal;
use serde_json::Value;
use sluicegate_envoy::service::protos::rate_limit_descriptor::Entry;
use sluicegate_envoy::service::protos::rate_limit_service_client::RateLimitServiceClient;
use sluicegate_envoy::service::protos::{RateLimitDescriptor, RateLimitRequest};
use sluicegate_testkit::servers::{Certificate, Server, shared};
use sluicegate_testkit::wait::until_async;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tonic::transport::Endpoint;
use tonic::{Request, Response, Status};

use crate::log_format::events_of_json;
use crate::support::{File, Service, binary, own_store};
use crate::tls::{Files, read};

const FREE: &str = "127.0.0.1:0";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

fn traceparent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{PARENT}-{flags}")
}

/// A collector, which keeps what it receives.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Received>>);

#[derive(Default)]
struct Received {
    spans: Vec<Span>,
    resource: HashMap<String, String>,
    /// The field `authorization` of the last request.
    authorization: Option<String>,
    /// Whether requests are refused.
    is_closed: bool,
}

impl Collector {
    fn add(&self, request: ExportTraceServiceRequest, authorization: Option<String>) {
        let mut received = self.0.lock().unwrap();
        received.authorization = authorization;
        for of_resource in request.resource_spans {
            received.resource = texts(&of_resource.resource.unwrap().attributes);
            let scopes = of_resource.scope_spans;
            received.spans.extend(scopes.into_iter().flat_map(|scope| scope.spans));
        }
    }

    /// Returns a router for OTLP over HTTP.
    fn router(&self) -> Router {
        async fn traces(
            State(to): State<Collector>,
            fields: HeaderMap,
            body: Bytes,
        ) -> Result<Vec<u8>, StatusCode> {
            assert_eq!(fields["content-type"], "application/x-protobuf");
            if to.0.lock().unwrap().is_closed {
                return Err(StatusCode::UNAUTHORIZED);
            }
            let authorization =
                fields.get("authorization").map(|it| it.to_str().unwrap().to_owned());
            to.add(ExportTraceServiceRequest::decode(body).unwrap(), authorization);
            Ok(ExportTraceServiceResponse::default().encode_to_vec())
        }
        Router::new().route("/v1/traces", post(traces)).with_state(self.clone())
    }

    /// Accepts OTLP over HTTP.
    async fn http(&self) -> SocketAddr {
        let (listener, router) = (TcpListener::bind(FREE).await.unwrap(), self.router());
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, router.clone()));
            }
        });
        address
    }

    /// Accepts OTLP over HTTPS.
    async fn https(&self, certificate: &Certificate) -> SocketAddr {
        let (listener, router) = (TcpListener::bind(FREE).await.unwrap(), self.router());
        let address = listener.local_addr().unwrap();
        let key = PrivateKeyDer::from_pem_file(certificate.key_file()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(read(certificate.certificate_file()), key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                // A client that doesn't trust the certificate ends the handshake.
                if let Ok(stream) = acceptor.accept(stream).await {
                    tokio::spawn(serve(stream, router.clone()));
                }
            }
        });
        address
    }

    /// Accepts OTLP over gRPC.
    async fn grpc(&self) -> SocketAddr {
        let listener = TcpListener::bind(FREE).await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let service = TraceServiceServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(incoming));
        address
    }

    async fn spans(&self, count: usize) -> Vec<Span> {
        until_async("the spans", async || {
            let spans = self.0.lock().unwrap().spans.clone();
            if spans.len() >= count { Ok(spans) } else { Err(spans.len()) }
        })
        .await
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let authorization = request.metadata().get("authorization");
        let authorization = authorization.map(|it| it.to_str().unwrap().to_owned());
        self.add(request.into_inner(), authorization);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Serves HTTP/1.1 on a connection.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, router: Router) {
    let service = hyper_util::service::TowerToHyperService::new(router);
    let io = hyper_util::rt::TokioIo::new(stream);
    // The service may end it at any time.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
}

/// Returns attributes as text.
fn texts(attributes: &[KeyValue]) -> HashMap<String, String> {
    let text = |value: &Option<Any>| match value.as_ref().and_then(|it| it.value.as_ref()).unwrap()
    {
        AnyValue::StringValue(text) => text.clone(),
        AnyValue::IntValue(number) => number.to_string(),
        AnyValue::BoolValue(is) => is.to_string(),
        other => panic!("{other:?}"),
    };
    attributes.iter().map(|it| (it.key.clone(), text(&it.value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the span with a name, and its attributes.
fn named<'s>(spans: &'s [Span], name: &str) -> (&'s Span, HashMap<String, String>) {
    let all = || spans.iter().map(|span| &span.name).collect::<Vec<_>>();
    let span = spans.iter().find(|span| span.name == name);
    let span = span.unwrap_or_else(|| panic!("no {name} in {:?}", all()));
    (span, texts(&span.attributes))
}

/// Starts a service that sends its spans to an address.
fn start(collector: SocketAddr, protocol: &str, more: &[&str]) -> Service {
    Service::of(command(collector, protocol, more))
}

fn command(collector: SocketAddr, protocol: &str, more: &[&str]) -> Command {
    let mut command = binary();
    command.args(["serve", "--listen", FREE, "--drain", "0s"]).args(more).envs([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{collector}").as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20token"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
    ]);
    command
}

fn check(service: &Service, limit: &str, traceparent: &str) -> u16 {
    let body = format!(r#"{{"limit":"{limit}","key":"alice"}}"#);
    let fields = [("traceparent", traceparent), ("tracestate", "vendor=1")];
    service.send("POST", "/v1/check", &fields, body.as_bytes()).status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_a_child_of_its_request_and_the_call_to_the_server_its_own() {
    let config = own_store(shared().unwrap().url())
        + "limits: {api: {policies: [gcra 1/h burst 1 as steady]}}";
    let file = File::new("limits.yaml", &config);
    for protocol in ["http/protobuf", "grpc"] {
        let collector = Collector::default();
        let address = match protocol {
            "grpc" => collector.grpc().await,
            _ => collector.http().await,
        };
        let service = start(address, protocol, &["--config", file.path()]);
        check(&service, "api", &traceparent(TRACE, "01"));
        let spans = collector.spans(3).await;
        let (request, attributes) = named(&spans, "POST /v1/check");
        assert_eq!(
            (hex(&request.trace_id), hex(&request.parent_span_id)),
            (TRACE.into(), PARENT.into())
        );
        assert_eq!((request.kind, request.trace_state.as_str()), (2, "vendor=1"));
        assert_eq!(attributes["http.route"], "/v1/check");
        assert_eq!(attributes["url.scheme"], "http");
        assert!(["200", "429"].contains(&attributes["http.response.status_code"].as_str()));
        let (decision, attributes) = named(&spans, "sluicegate.decision");
        assert_eq!(decision.parent_span_id, request.span_id);
        assert_eq!(
            (attributes["sluicegate.limit"].as_str(), attributes["sluicegate.operation"].as_str()),
            ("api", "check")
        );
        assert_eq!(attributes["sluicegate.source"], "store");
        let (call, attributes) = named(&spans, "EVALSHA");
        assert_eq!((&call.parent_span_id, call.kind), (&decision.span_id, 3));
        assert_eq!(attributes["db.system.name"], "redis");
        assert_eq!(attributes["server.address"], "127.0.0.1");
        assert!(attributes["server.port"].parse::<u16>().is_ok());
        assert!(spans.iter().all(|span| !format!("{span:?}").contains("alice")), "{spans:?}");
        let received = collector.0.lock().unwrap();
        assert_eq!(received.resource["service.name"], "sluicegate");
        assert_eq!(received.resource["service.version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(received.resource["deployment.environment.name"], "test");
        assert_eq!(received.authorization.as_deref(), Some("Bearer token"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_requests_whose_caller_records_a_trace_have_spans() {
    let collector = Collector::default();
    let mut service = start(collector.http().await, "http/protobuf", &[]);
    assert_eq!(check(&service, "demo", &traceparent(TRACE, "00")), 200);
    assert_eq!(check(&service, "demo", "00-broken"), 200);
    assert_eq!(service.post("/v1/check", r#"{"limit":"demo","key":"a"}"#).status, 200);
    let other = TRACE.replace('4', "5");
    assert_eq!(check(&service, "demo", &traceparent(&other, "01")), 200);
    // The last spans are sent before the process ends.
    service.signal(Signal::TERM);
    service.wait();
    let spans = collector.spans(2).await;
    assert!(spans.iter().all(|span| hex(&span.trace_id) == other), "{spans:?}");
    let (decision, attributes) = named(&spans, "sluicegate.decision");
    assert_eq!(attributes["sluicegate.allowed"], "true");
    assert_eq!(decision.parent_span_id, named(&spans, "POST /v1/check").0.span_id);
    assert_eq!(spans.len(), 2, "an embedded store makes no call: {spans:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_over_grpc_have_spans() {
    let collector = Collector::default();
    let config = "limits: {edge: {policies: [gcra 1/h]}}\nenvoy: {domains: {demo: [{match: {key: \"*\"}, limit: edge}]}}";
    let file = File::new("limits.yaml", config);
    let args = ["--grpc", FREE, "--config", file.path()];
    let service = start(collector.http().await, "http/protobuf", &args);
    let address = format!("http://{}", service.address_of("grpc"));
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let entry = Entry { key: "key".to_owned(), value: "alice".to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let mut request = Request::new(RateLimitRequest {
        domain: "demo".to_owned(),
        descriptors: vec![descriptor],
        ..RateLimitRequest::default()
    });
    request.metadata_mut().insert("traceparent", traceparent(TRACE, "01").parse().unwrap());
    let _ = RateLimitServiceClient::new(channel).should_rate_limit(request).await.unwrap();
    let spans = collector.spans(2).await;
    let name = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let (request, attributes) = named(&spans, name);
    assert_eq!(
        (hex(&request.trace_id), hex(&request.parent_span_id)),
        (TRACE.into(), PARENT.into())
    );
    assert_eq!(attributes["rpc.system"], "grpc");
    assert_eq!(attributes["rpc.method"], "ShouldRateLimit");
    let (decision, attributes) = named(&spans, "sluicegate.decision");
    assert_eq!(decision.parent_span_id, request.span_id);
    assert_eq!(attributes["sluicegate.limit"], "edge");
}

/// Waits until a log in JSON has an event whose message contains a text, and returns the event.
async fn logged(log: &Mutex<String>, text: &str) -> Value {
    until_async("the event", async || {
        let log = log.lock().unwrap().clone();
        let mut events = events_of_json(&log).into_iter();
        events.find(|event| event["message"].as_str().unwrap().contains(text)).ok_or(log)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_down_delays_no_decision_and_is_in_the_log() {
    for (protocol, url) in
        [("http/protobuf", "http://127.0.0.1:1/v1/traces"), ("grpc", "http://127.0.0.1:1")]
    {
        let address = "127.0.0.1:1".parse().unwrap();
        let mut command = command(address, protocol, &["--log-format", "json"]);
        command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "500");
        let mut service = Service::of(command);
        let log = service.follow_its_log();
        for _ in 0..20 {
            assert_eq!(check(&service, "demo", &traceparent(TRACE, "01")), 200);
        }
        let event = logged(&log, &format!("spans can't be sent to {url}: ")).await;
        assert_eq!(event["level"], "WARN");
        assert!(event["error"].as_str().unwrap().contains("Connection refused"), "{event}");
        assert_eq!(event["target"], "sluicegate_server::traces::exporter");
        assert!(!log.lock().unwrap().contains("\"target\":\"opentelemetry"), "{log:?}");
        service.signal(Signal::TERM);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_refuses_spans_is_in_the_log_until_it_accepts_them() {
    let collector = Collector::default();
    collector.0.lock().unwrap().is_closed = true;
    let address = collector.http().await;
    let mut service = start(address, "http/protobuf", &["--log-format", "json"]);
    let log = service.follow_its_log();
    check(&service, "demo", &traceparent(TRACE, "01"));
    let event = logged(&log, "spans can't be sent to").await;
    assert!(event["error"].as_str().unwrap().contains("401"), "{event}");
    collector.0.lock().unwrap().is_closed = false;
    check(&service, "demo", &traceparent(TRACE, "01"));
    logged(&log, &format!("spans are sent to http://{address}/v1/traces again")).await;
}

/// The authority of a collector is one that the system trusts, or that of `SSL_CERT_FILE`.
#[tokio::test(flavor = "multi_thread")]
async fn spans_of_https_requests_are_sent_over_https() {
    let (files, collector) = (Files::new(), Collector::default());
    let address = collector.https(&files.issue("collector")).await;
    let file = files.config("admin", "");
    let of_admin = |more: &[&str]| {
        let args = [&["--config", file.path()], more].concat();
        let mut command = command(address, "http/protobuf", &args);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("https://{address}"));
        command
    };
    let mut trusting = of_admin(&[]);
    trusting.env("SSL_CERT_FILE", files.authority.certificate_file());
    let service = Service::of(trusting);
    let mut stream = files.connect(service.address_of("admin"), &[], None).await.unwrap();
    let (body, trace) = (r#"{"limit":"demo","key":"alice"}"#, traceparent(TRACE, "01"));
    let length = body.len();
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nHost: x\r\ntraceparent: {trace}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let spans = collector.spans(2).await;
    assert_eq!(named(&spans, "POST /v1/check").1["url.scheme"], "https");

    let mut service = Service::of(of_admin(&["--log-format", "json"]));
    let log = service.follow_its_log();
    check(&service, "demo", &trace);
    let event = logged(&log, "spans can't be sent to https://").await;
    assert!(event["error"].as_str().unwrap().contains("UnknownIssuer"), "{event}");
}

#[test]
fn a_url_that_no_collector_has_is_an_error() {
    for variable in ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] {
        let mut command = binary();
        let output = command.args(["serve", "--listen", FREE]).env(variable, "ftp://x").output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&format!("error: {variable} is \"ftp://x\", ")), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_is_an_error_in_its_spans() {
    let server = Server::start().unwrap();
    let config = format!(
        "store: \"{}\"\nlimits: {{api: {{policies: [gcra 1/h], on_store_failure: error}}}}",
        server.url()
    );
    let file = File::new("limits.yaml", &config);
    let collector = Collector::default();
    let service = start(collector.http().await, "http/protobuf", &["--config", file.path()]);
    assert_eq!(check(&service, "api", &traceparent(TRACE, "00")), 200);
    drop(server);
    until_async("the failure", async || match check(&service, "api", &traceparent(TRACE, "00")) {
        503 => Ok(()),
        status => Err(status),
    })
    .await;
    assert_eq!(check(&service, "api", &traceparent(TRACE, "01")), 503);
    let spans = collector.spans(2).await;
    let (request, attributes) = named(&spans, "POST /v1/check");
    assert_eq!(attributes["http.response.status_code"], "503");
    assert_eq!(request.status.as_ref().unwrap().code, 2);
    let (decision, attributes) = named(&spans, "sluicegate.decision");
    assert_eq!(decision.status.as_ref().unwrap().code, 2);
    assert!(attributes.contains_key("error.type"), "{attributes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_has_the_trace_of_a_request_as_its_exemplar() {
    let service = Service::start(&[]);
    let scrape = |accept: &str| service.send("GET", "/metrics", &[("Accept", accept)], b"").body;
    let open_metrics = "application/openmetrics-text;version=1.0.0";
    check(&service, "demo", &traceparent(TRACE, "00"));
    assert!(!scrape(open_metrics).contains("trace_id"));
    check(&service, "demo", &traceparent(TRACE, "01"));
    let page = scrape(open_metrics);
    let exemplar = format!(" # {{trace_id=\"{TRACE}\"}} ");
    let lines: Vec<&str> = page.lines().filter(|line| line.contains(&exemplar)).collect();
    let [line] = lines[..] else { panic!("{page}") };
    assert!(line.starts_with("sluicegate_decision_seconds_bucket{le=\""), "{line}");
    assert!(!scrape("text/plain").contains(TRACE));
    let waited = TRACE.replace('4', "5");
    let body = br#"{"limit":"demo","key":"bob","within":"10s"}"#;
    let fields = [("traceparent", traceparent(&waited, "01"))];
    let fields = fields.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(service.send("POST", "/v1/acquire", &fields, body).status, 200);
    let page = scrape(open_metrics);
    let is_of = |line: &&str| {
        line.contains(&waited) && line.starts_with("sluicegate_wait_seconds_bucket{le=\"")
    };
    assert_eq!(page.lines().filter(is_of).count(), 1, "{page}");
}
