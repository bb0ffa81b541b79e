//! The client of a control plane.

use std::convert::Infallible;

use tonic::metadata::MetadataMap;

use super::endpoint::{XdsError, endpoint, headers};
use super::event::XdsEvent;
use super::pauses::Pauses;
use super::push::{self, shown};
use super::stream::{Ended, Stream};
use super::subscription::Subscription;
use crate::incumbent::ControlPlane;
use crate::protos::envoy::config::core::v3::Node;
use crate::protos::envoy::service::discovery::v3::DiscoveryResponse;
use crate::service::messages::fields;
use crate::service::rate_limits::RateLimits;

/// A client that takes the rules from a control plane.
#[derive(Debug)]
pub struct XdsClient {
    plane: ControlPlane,
    headers: MetadataMap,
    merge_domains: bool,
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
            let Err(ended) =
                self.stream(&mut subscription, &mut pauses, &limits, &mut observe).await;
            let (why, pause) = match ended {
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

    /// Puts the rules of a push in force, or none of them, as [`follow`](Self::follow) does.
    #[must_use = "the push may be refused"]
    pub fn load(&self, push: &DiscoveryResponse, limits: &RateLimits) -> XdsEvent {
        let version = shown(&push.version_info);
        let loaded = push::rules(push, self.merge_domains)
            .and_then(|rules| limits.load(rules).map_err(|error| format!("{error:#}")));
        match loaded {
            Ok(changes) => XdsEvent::Applied { version, changes },
            Err(why) => XdsEvent::Refused { version, why },
        }
    }

    /// Opens a stream, and answers each push until it ends.
    async fn stream(
        &self,
        subscription: &mut Subscription,
        pauses: &mut Pauses,
        limits: &RateLimits,
        observe: &mut (impl FnMut(&XdsEvent) + Send),
    ) -> Result<Infallible, Ended> {
        let mut stream = Stream::open(&self.plane, &self.headers, subscription.first()).await?;
        observe(&XdsEvent::Connected);
        loop {
            let push = stream.push().await?;
            pauses.reset();
            let event = self.load(&push, limits);
            observe(&event);
            let answer = match &event {
                XdsEvent::Refused { why, .. } => subscription.refuse(&push, why),
                _ => subscription.accept(&push),
            };
            stream.answer(answer).await?;
        }
    }
}
