//! What a client is told that is turned away.

use http::Response;
use sluicegate_core::{Decision, Error};
use sluicegate_http::{GrpcStatus, Missing, Problem, ReadyFields, RequestView, is_grpc};

use crate::denied::Denied;
use crate::registry::MissingKey;

/// A request that is turned away, and what is said of it. On the heap, so that requests that are let
/// in needn't be moved about with room for it.
#[derive(Debug)]
pub(crate) struct Refusal {
    denied: Denied,
    missing: Option<Missing>,
    fields: ReadyFields,
}

impl Refusal {
    /// A policy refused, or a list, or the limit's answer to a failing store.
    #[cold]
    pub(super) fn denied(decision: Decision, fields: ReadyFields) -> Box<Self> {
        Box::new(Self { denied: Denied::from(decision), missing: None, fields })
    }

    /// There is nothing to ask about.
    #[cold]
    pub(super) fn without_key(missing: MissingKey) -> Box<Self> {
        let lacking = missing.missing().clone();
        let denied = Denied::from(missing);
        Box::new(Self { denied, missing: Some(lacking), fields: ReadyFields::default() })
    }

    /// There is no answer.
    #[cold]
    pub(super) fn failed(limit: &str, error: Error) -> Box<Self> {
        if !error.is_store_failure() {
            // No client can bring this about: limits that can't be decided together, mostly.
            tracing::error!(limit, %error, "a request can't be decided: it is refused");
        }
        let denied = Denied::failed(limit, error);
        Box::new(Self { denied, missing: None, fields: ReadyFields::default() })
    }

    pub(crate) const fn why(&self) -> &Denied {
        &self.denied
    }

    /// The answer unless somebody has a better one: a problem body, or for a call of gRPC a
    /// status.
    pub(crate) fn response(&self, request: &dyn RequestView) -> Response<String> {
        let mut response = if is_grpc(request) {
            self.status().into_response()
        } else {
            self.problem().into_response()
        };
        self.fields.clone().write(response.headers_mut());
        response
    }

    fn problem(&self) -> Problem {
        match &self.missing {
            Some(missing) => Problem::missing_key(missing),
            None => self.denied.problem(),
        }
    }

    fn status(&self) -> GrpcStatus {
        match &self.missing {
            Some(missing) => GrpcStatus::invalid_argument(missing),
            None => self.denied.grpc_status(),
        }
    }
}
