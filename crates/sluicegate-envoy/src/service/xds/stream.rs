//! A stream to a control plane.

use tokio::sync::mpsc::{self, Sender};
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status, Streaming};

use super::endpoint::{endpoint, with_causes};
use super::push::shown;
use crate::incumbent::ControlPlane;
use crate::protos::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use crate::protos::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};

/// A stream that the control plane has accepted.
#[derive(Debug)]
pub(super) struct Stream {
    requests: Sender<DiscoveryRequest>,
    pushes: Streaming<DiscoveryResponse>,
}

/// The reason why there is no stream.
pub(super) enum Ended {
    /// There was no connection.
    Unconnected(String),
    /// The stream has ended, or wasn't accepted.
    Closed(String),
}

impl Stream {
    /// Connects, and sends the first request.
    pub(super) async fn open(
        plane: &ControlPlane,
        headers: &MetadataMap,
        first: DiscoveryRequest,
    ) -> Result<Self, Ended> {
        // Files for TLS may have changed.
        let endpoint = endpoint(plane).map_err(|error| Ended::Unconnected(error.to_string()))?;
        let channel = endpoint.connect().await;
        let channel = channel.map_err(|error| Ended::Unconnected(with_causes(&error)))?;
        let (requests, receiver) = mpsc::channel(1);
        requests.send(first).await.map_err(|_| ended())?;
        let mut request = Request::new(ReceiverStream::new(receiver));
        *request.metadata_mut() = headers.clone();
        let mut client = AggregatedDiscoveryServiceClient::new(channel)
            .max_decoding_message_size(plane.max_message_bytes);
        let accepted = client.stream_aggregated_resources(request).await;
        let pushes = accepted.map_err(|status| failed(&status))?.into_inner();
        Ok(Self { requests, pushes })
    }

    /// Waits for the next push.
    pub(super) async fn push(&mut self) -> Result<DiscoveryResponse, Ended> {
        self.pushes.message().await.map_err(|status| failed(&status))?.ok_or_else(ended)
    }

    /// Sends the answer to a push.
    pub(super) async fn answer(&self, answer: DiscoveryRequest) -> Result<(), Ended> {
        self.requests.send(answer).await.map_err(|_| ended())
    }
}

fn ended() -> Ended {
    Ended::Closed("the stream has ended".to_owned())
}

fn failed(status: &Status) -> Ended {
    Ended::Closed(format!("{:?}: {}", status.code(), shown(status.message())))
}
