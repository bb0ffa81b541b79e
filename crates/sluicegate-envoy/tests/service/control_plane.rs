//! A control plane on loopback, whose streams the test answers.

use std::net::SocketAddr;
use std::time::Duration;

use sluicegate_envoy::service::protos::aggregated_discovery_service_server::{
    AggregatedDiscoveryService, AggregatedDiscoveryServiceServer,
};
use sluicegate_envoy::service::protos::rules::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy,
};
use sluicegate_envoy::service::protos::{DiscoveryRequest, DiscoveryResponse};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

pub(crate) const TYPE: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Longer than any successful wait, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A control plane. It stops accepting streams when dropped.
pub(crate) struct ControlPlane {
    pub(crate) address: SocketAddr,
    streams: Receiver<Stream>,
    server: JoinHandle<()>,
}

/// A stream of a client. It ends when dropped.
pub(crate) struct Stream {
    pub(crate) metadata: MetadataMap,
    requests: Streaming<DiscoveryRequest>,
    pushes: Sender<Result<DiscoveryResponse, Status>>,
}

struct Ads(Sender<Stream>);

impl ControlPlane {
    /// Starts a control plane on an address; port 0 takes a free one.
    pub(crate) async fn start(address: impl Into<SocketAddr>) -> Self {
        Self::with(Server::builder(), address).await
    }

    /// Starts a control plane with settings of its server.
    pub(crate) async fn with(mut server: Server, address: impl Into<SocketAddr>) -> Self {
        let listener = TcpListener::bind(address.into()).await.expect("the address is free");
        let address = listener.local_addr().expect("it is bound");
        let (sender, streams) = mpsc::channel(16);
        let routes = server.add_service(AggregatedDiscoveryServiceServer::new(Ads(sender)));
        let server = tokio::spawn(async move {
            routes.serve_with_incoming(TcpIncoming::from(listener)).await.expect("it serves");
        });
        Self { address, streams, server }
    }

    /// Waits for the next stream.
    pub(crate) async fn stream(&mut self) -> Stream {
        let stream = tokio::time::timeout(PATIENCE, self.streams.recv()).await;
        stream.expect("a stream in time").expect("the server runs")
    }

    /// Stops, and frees the address.
    pub(crate) async fn stop(mut self) {
        self.server.abort();
        // The error says that the task was aborted.
        let _ = (&mut self.server).await;
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Stream {
    /// Waits for the next request.
    pub(crate) async fn request(&mut self) -> DiscoveryRequest {
        let request = tokio::time::timeout(PATIENCE, self.requests.message()).await;
        request.expect("a request in time").expect("a message").expect("another request")
    }

    /// Sends a push whose nonce is `n` and its version, and returns the answer.
    pub(crate) async fn push(
        &mut self,
        version: &str,
        resources: Vec<prost_types::Any>,
    ) -> DiscoveryRequest {
        let push = DiscoveryResponse {
            version_info: version.to_owned(),
            resources,
            type_url: TYPE.to_owned(),
            nonce: format!("n{version}"),
        };
        self.send(push).await;
        self.request().await
    }

    /// Sends a response as it is.
    pub(crate) async fn send(&mut self, response: DiscoveryResponse) {
        self.pushes.send(Ok(response)).await.expect("the client reads");
    }

    /// Ends the stream with an error.
    pub(crate) async fn fail(self, status: Status) {
        self.pushes.send(Err(status)).await.expect("the client reads");
    }
}

/// Returns a resource: a domain with limits per hour, each for a key.
pub(crate) fn domain(name: &str, limits: &[(&str, u32)]) -> prost_types::Any {
    const HOUR: i32 = 3;
    resource(name, limits, HOUR)
}

/// Returns a resource whose limits have a unit.
pub(crate) fn resource(name: &str, limits: &[(&str, u32)], unit: i32) -> prost_types::Any {
    let descriptor = |&(key, requests_per_unit): &(&str, u32)| RateLimitDescriptor {
        key: key.to_owned(),
        rate_limit: Some(RateLimitPolicy { unit, requests_per_unit, ..RateLimitPolicy::default() }),
        ..RateLimitDescriptor::default()
    };
    let config = RateLimitConfig {
        name: format!("{name}.config"),
        domain: name.to_owned(),
        descriptors: limits.iter().map(descriptor).collect(),
    };
    let value = prost::Message::encode_to_vec(&config);
    prost_types::Any { type_url: TYPE.to_owned(), value }
}

#[tonic::async_trait]
impl AggregatedDiscoveryService for Ads {
    type StreamAggregatedResourcesStream = ReceiverStream<Result<DiscoveryResponse, Status>>;

    async fn stream_aggregated_resources(
        &self,
        request: Request<Streaming<DiscoveryRequest>>,
    ) -> Result<Response<Self::StreamAggregatedResourcesStream>, Status> {
        let (pushes, receiver) = mpsc::channel(16);
        let metadata = request.metadata().clone();
        let stream = Stream { metadata, requests: request.into_inner(), pushes };
        self.0.send(stream).await.map_err(|_| Status::unavailable("the test is over"))?;
        Ok(Response::new(ReceiverStream::new(receiver)))
    }
}
