//! Refused requests.

use http::header::CONTENT_TYPE;
use http::{Response, StatusCode};
use sluicegate_core::{Decision, Error};
use sluicegate_http::{AuthTerms, PreparedFields, RequestView};

use crate::denied::{Denied, DeniedReason};
use crate::registry::MissingKey;

/// A refused request, and the response for its client.
#[derive(Debug)]
#[must_use]
// Boxed, so that admitted requests don't carry space for it.
pub struct Refusal(Box<Inner>);

#[derive(Debug)]
struct Inner {
    denied: Denied,
    fields: PreparedFields,
}

impl Refusal {
    /// Returns why the request is refused.
    #[must_use]
    pub const fn denied(&self) -> &Denied {
        &self.0.denied
    }

    /// Returns the default response: a problem body (RFC 9457), or a status for a gRPC call (with the feature
    /// `grpc`), with the response fields. `request` is the refused one.
    #[cfg_attr(not(feature = "grpc"), expect(unused_variables, reason = "it tells a gRPC call"))]
    pub fn response(&self, request: &dyn RequestView) -> Response<String> {
        let denied = &self.0.denied;
        let mut response = denied.problem().into_response();
        #[cfg(feature = "grpc")]
        if sluicegate_http::is_grpc(request) {
            response = denied.grpc_status().into_response();
        }
        self.0.fields.clone().write(response.headers_mut());
        response
    }

    /// Returns the response with this status, with a problem body unless it is a success. The client of the refused
    /// request may use any protocol.
    pub fn response_with(&self, status: StatusCode) -> Response<String> {
        let mut response = self.0.denied.problem().with_status(status).into_response();
        if status.is_success() {
            response.headers_mut().remove(CONTENT_TYPE);
            *response.body_mut() = String::new();
        }
        self.0.fields.clone().write(response.headers_mut());
        response
    }

    /// Returns the status for a proxy that asked on these terms. `None` if the store failed, and the terms have no status
    /// for that.
    ///
    /// The terms' status of denials is for those that a policy, a ban or a pause causes. A blocked key, and a request
    /// without its key, always get 403.
    #[must_use]
    pub fn status(&self, terms: &AuthTerms) -> Option<StatusCode> {
        let own = || self.denied().problem().status();
        match self.denied().reason() {
            DeniedReason::StoreFailed => terms.failed(),
            DeniedReason::Blocked | DeniedReason::NoKey => Some(StatusCode::FORBIDDEN),
            DeniedReason::Conflict | DeniedReason::Misconfigured => Some(own()),
            _ => Some(terms.denied().unwrap_or_else(own)),
        }
    }

    /// Makes a refusal by a policy, by a block list, or because the store failed.
    #[cold]
    pub(super) fn of_decision(decision: Decision, fields: PreparedFields) -> Self {
        Self::new(Denied::from(decision), fields)
    }

    /// Makes a refusal of a request that lacks the key.
    #[cold]
    pub(super) fn without_key(missing: MissingKey) -> Self {
        Self::new(Denied::from(missing), PreparedFields::default())
    }

    /// Makes a refusal because there is no answer.
    #[cold]
    pub(super) fn failed(limit: &str, error: Error) -> Self {
        let denied = Denied::failed(limit, error);
        denied.tell_mistake();
        Self::new(denied, PreparedFields::default())
    }

    /// Makes a refusal because the limits of the request can't be chosen.
    #[cold]
    pub(super) fn unchosen(error: Error) -> Self {
        Self::new(Denied::from(error), PreparedFields::default())
    }

    fn new(denied: Denied, fields: PreparedFields) -> Self {
        Self(Box::new(Inner { denied, fields }))
    }
}
