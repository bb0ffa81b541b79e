//! A subscription to the rules of a control plane.

use super::push::TYPE;
use crate::protos::envoy::config::core::v3::Node;
use crate::protos::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use crate::protos::google::rpc::Status;

/// The requests of a subscription, and the version of the last push in force.
#[derive(Debug)]
pub(super) struct Subscription {
    node: Node,
    version: String,
}

impl Subscription {
    /// Makes a subscription of a node, without rules.
    pub(super) const fn new(node: Node) -> Self {
        Self { node, version: String::new() }
    }

    /// Returns the first request of a stream.
    ///
    /// It has no version, so every control plane sends the rules. One that has started again may have other rules under
    /// the former version.
    pub(super) fn first(&self) -> DiscoveryRequest {
        DiscoveryRequest {
            node: Some(self.node.clone()),
            type_url: TYPE.to_owned(),
            ..DiscoveryRequest::default()
        }
    }

    /// Returns the acknowledgement of a push that is in force.
    pub(super) fn accept(&mut self, push: &DiscoveryResponse) -> DiscoveryRequest {
        self.version.clone_from(&push.version_info);
        self.answer(push)
    }

    /// Returns the refusal of a push, with the reason.
    pub(super) fn refuse(&self, push: &DiscoveryResponse, reason: &str) -> DiscoveryRequest {
        /// The code `INVALID_ARGUMENT`.
        const INVALID: i32 = 3;
        let error_detail = Some(Status { code: INVALID, message: reason.to_owned() });
        DiscoveryRequest { error_detail, ..self.answer(push) }
    }

    /// Returns the answer to a push on the last version in force.
    fn answer(&self, push: &DiscoveryResponse) -> DiscoveryRequest {
        DiscoveryRequest {
            version_info: self.version.clone(),
            response_nonce: push.nonce.clone(),
            ..self.first()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(version: &str, nonce: &str) -> DiscoveryResponse {
        DiscoveryResponse {
            version_info: version.to_owned(),
            nonce: nonce.to_owned(),
            ..DiscoveryResponse::default()
        }
    }

    #[test]
    fn answers_have_the_last_good_version_and_the_nonce_of_the_push() {
        let node = Node { id: "one".to_owned(), metadata: None };
        let mut subscription = Subscription::new(node.clone());
        let shown = |request: &DiscoveryRequest| {
            assert_eq!((request.node.as_ref(), request.type_url.as_str()), (Some(&node), TYPE));
            let reason = request.error_detail.as_ref().map(|status| status.message.clone());
            (request.version_info.clone(), request.response_nonce.clone(), reason)
        };
        let answer = |version: &str, nonce: &str, reason: Option<&str>| {
            (version.to_owned(), nonce.to_owned(), reason.map(str::to_owned))
        };
        assert_eq!(shown(&subscription.first()), answer("", "", None));
        assert_eq!(shown(&subscription.refuse(&push("1", "a"), "no")), answer("", "a", Some("no")));
        assert_eq!(shown(&subscription.accept(&push("2", "b"))), answer("2", "b", None));
        assert_eq!(
            shown(&subscription.refuse(&push("3", "c"), "no")),
            answer("2", "c", Some("no"))
        );
        assert_eq!(shown(&subscription.first()), answer("", "", None));
    }
}
