//! The client of a control plane.

use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use super::endpoint::{XdsError, endpoint, headers, with_causes};
use super::event::XdsEvent;
use super::pauses::Pauses;
use super::push::{self, shown};
use super::subscription::Subscription;
use crate::incumbent::ControlPlane;
use crate::protos::envoy::config::core::v3::Node;
use crate::protos::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
use crate::protos::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use crate::service::messages::fields;
use crate::service::rate_limits::RateLimits;

/// A client that takes the rules from a control plane.
#[derive(Debug)]
pub struct XdsClient {
    plane: ControlPlane,
    headers: MetadataMap,
    merge_domains: bool,
}

/// The reason why there is no stream.
enum Ended {
    /// There was no connection.
    Unconnected(String),
    /// The stream has ended, or wasn't accepted.
    Closed(String),
}

impl XdsClient {
    /// Makes the client of a control plane. With `merge_domains`, several resources may have the same domain.
    ///
    /// # Errors
    /// Returns an error if the address, a header or a file for TLS can't be used.
    pub fn new(plane: ControlPlane, merge_domains: bool) -> Result<Self, XdsError> {
        endpoint(&plane)?;
        let headers = headers(&plane)?;
        Ok(Self { plane, headers, merge_domains })
    }

    /// Keeps rules up to date, and never returns. `observe` gets each event.
    ///
    /// A push replaces all rules, or is refused as a whole. A stream that ends is opened again after a pause.
    pub async fn follow(self, limits: RateLimits, mut observe: impl FnMut(&XdsEvent) + Send) {
        let node = Node {
            id: self.plane.node_id.clone(),
            metadata: Some(fields(self.plane.node_metadata.clone())),
        };
        let mut subscription = Subscription::new(node);
        let mut pauses = Pauses::new(&self.plane.backoff);
        loop {
            let ended = self.stream(subscription.first(), |push| {
                pauses.reset();
                let event = self.load(push, &limits);
                observe(&event);
                match &event {
                    XdsEvent::Refused { why, .. } => subscription.refuse(push, why),
                    _ => subscription.accept(push),
                }
            });
            let (why, pause) = match ended.await {
                Ended::Unconnected(why) => {
                    let pause = pauses.next(fastrand::f64());
                    let most = self.plane.connect_pause;
                    (why, if most.is_zero() { pause } else { pause.min(most) })
                }
                Ended::Closed(why) => (why, pauses.next(fastrand::f64())),
            };
            observe(&XdsEvent::Disconnected { why, pause });
            tokio::time::sleep(pause).await;
        }
    }

    /// Opens a stream, and sends the answer to each push until it ends.
    async fn stream(
        &self,
        first: DiscoveryRequest,
        mut answer: impl FnMut(&DiscoveryResponse) -> DiscoveryRequest + Send,
    ) -> Ended {
        // Files for TLS may have changed.
        let endpoint = match endpoint(&self.plane) {
            Ok(endpoint) => endpoint,
            Err(error) => return Ended::Unconnected(error.to_string()),
        };
        let channel = match endpoint.connect().await {
            Ok(channel) => channel,
            Err(error) => return Ended::Unconnected(with_causes(&error)),
        };
        let (requests, receiver) = mpsc::channel(1);
        if requests.send(first).await.is_err() {
            return Ended::Closed(ENDED.to_owned());
        }
        let mut request = Request::new(ReceiverStream::new(receiver));
        *request.metadata_mut() = self.headers.clone();
        let mut client = AggregatedDiscoveryServiceClient::new(channel)
            .max_decoding_message_size(self.plane.max_message_bytes);
        let mut pushes = match client.stream_aggregated_resources(request).await {
            Ok(response) => response.into_inner(),
            Err(status) => return Ended::Closed(reason(&status)),
        };
        loop {
            let push = match pushes.message().await {
                Ok(Some(push)) => push,
                Ok(None) => return Ended::Closed(ENDED.to_owned()),
                Err(status) => return Ended::Closed(reason(&status)),
            };
            if requests.send(answer(&push)).await.is_err() {
                return Ended::Closed(ENDED.to_owned());
            }
        }
    }

    /// Puts the rules of a push in force, or none of them.
    fn load(&self, push: &DiscoveryResponse, limits: &RateLimits) -> XdsEvent {
        let version = shown(&push.version_info);
        let loaded = push::rules(push, self.merge_domains)
            .and_then(|rules| limits.load(rules).map_err(|error| error.to_string()));
        match loaded {
            Ok(changes) => XdsEvent::Applied { version, changes },
            Err(why) => XdsEvent::Refused { version, why },
        }
    }
}

const ENDED: &str = "the stream has ended";

fn reason(status: &Status) -> String {
    format!("{:?}: {}", status.code(), shown(status.message()))
}
