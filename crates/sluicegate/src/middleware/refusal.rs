//! What a client is told that is turned away.

use http::Response;
use sluicegate_core::{Decision, Error};
use sluicegate_http::{GrpcStatus, Missing, Problem, ReadyFields, RequestView, is_grpc};

use crate::denied::Denied;
use crate::registry::MissingKey;

/// A request that is turned away, and what its client is told.
#[derive(Debug)]
#[must_use]
// On the heap, so that requests that are let in needn't be moved about with room for it.
pub struct Refusal(Box<Inner>);

#[derive(Debug)]
struct Inner {
    denied: Denied,
    missing: Option<Missing>,
    fields: ReadyFields,
}

impl Refusal {
    /// Why it is turned away.
    #[must_use]
    pub const fn denied(&self) -> &Denied {
        &self.0.denied
    }

    /// What the client is sent unless the application has a better answer: a problem body
    /// (RFC 9457), or a status for calls of gRPC, with the response fields. `request` is the one
    /// that was turned away.
    pub fn response(&self, request: &dyn RequestView) -> Response<String> {
        let mut response = if is_grpc(request) {
            self.status().into_response()
        } else {
            self.problem().into_response()
        };
        self.0.fields.clone().write(response.headers_mut());
        response
    }

    /// A policy refused, or a list, or the limit's answer to a failing store.
    #[cold]
    pub(super) fn of_decision(decision: Decision, fields: ReadyFields) -> Self {
        Self::new(Denied::from(decision), None, fields)
    }

    /// There is nothing to ask about.
    #[cold]
    pub(super) fn without_key(missing: MissingKey) -> Self {
        let lacking = missing.missing().clone();
        let denied = Denied::from(missing);
        Self::new(denied, Some(lacking), ReadyFields::default())
    }

    /// There is no answer.
    #[cold]
    pub(super) fn failed(limit: &str, error: Error) -> Self {
        if !error.is_store_failure() {
            // No client can bring this about: limits that can't be decided together, mostly.
            tracing::error!(limit, %error, "a request can't be decided: it is refused");
        }
        Self::new(Denied::failed(limit, error), None, ReadyFields::default())
    }

    fn new(denied: Denied, missing: Option<Missing>, fields: ReadyFields) -> Self {
        Self(Box::new(Inner { denied, missing, fields }))
    }

    fn problem(&self) -> Problem {
        match &self.0.missing {
            Some(missing) => Problem::missing_key(missing),
            None => self.0.denied.problem(),
        }
    }

    fn status(&self) -> GrpcStatus {
        match &self.0.missing {
            Some(missing) => GrpcStatus::invalid_argument(missing),
            None => self.0.denied.grpc_status(),
        }
    }
}
