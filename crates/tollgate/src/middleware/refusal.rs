//! What a client is told that is turned away.

use http::Response;
use tollgate_core::StoreError;
use tollgate_http::{GrpcStatus, Missing, Problem, ReadyFields, RequestView, is_grpc};

use crate::denied::Denied;
use crate::registry::MissingKey;
use crate::ruling::Ruling;

/// A request that is turned away, and what is said of it.
#[derive(Debug)]
pub(crate) struct Refusal {
    denied: Denied,
    missing: Option<Missing>,
    fields: ReadyFields,
}

impl Refusal {
    /// A policy refused, or a list, or the limit's answer to a failing store.
    pub(super) fn denied(ruling: Ruling, fields: ReadyFields) -> Self {
        Self { denied: Denied::from(ruling), missing: None, fields }
    }

    /// There is nothing to ask about.
    pub(super) fn without_key(missing: MissingKey) -> Self {
        let lacking = missing.missing().clone();
        let denied = Denied::from(missing);
        Self { denied, missing: Some(lacking), fields: ReadyFields::default() }
    }

    /// There is no answer.
    #[cold]
    pub(super) fn failed(limit: &str, error: StoreError) -> Self {
        if !error.is_store_failure() {
            // No client can bring this about: limits that can't be decided together, mostly.
            tracing::error!(limit, %error, "a request can't be decided: it is refused");
        }
        let denied = Denied::failed(limit, error);
        Self { denied, missing: None, fields: ReadyFields::default() }
    }

    pub(crate) const fn why(&self) -> &Denied {
        &self.denied
    }

    /// The answer unless somebody has a better one: a problem body, or for a call of gRPC a
    /// status.
    pub(crate) fn response(&mut self, request: &dyn RequestView) -> Response<String> {
        let mut response = if is_grpc(request) {
            self.status().into_response()
        } else {
            self.problem().into_response()
        };
        std::mem::take(&mut self.fields).write(response.headers_mut());
        response
    }

    fn problem(&self) -> Problem {
        match (self.denied.ruling(), &self.missing) {
            (Some(ruling), _) => match ruling.limit() {
                Some(limit) => Problem::of_denial(limit, ruling.decision()),
                None => Problem::blocked(),
            },
            (None, Some(missing)) => Problem::missing_key(missing),
            (None, None) => Problem::temporary_reduced_capacity(),
        }
    }

    fn status(&self) -> GrpcStatus {
        match (self.denied.ruling(), &self.missing) {
            (Some(ruling), _) => match ruling.limit() {
                Some(limit) => GrpcStatus::of_denial(limit, ruling.decision()),
                None => GrpcStatus::permission_denied(),
            },
            (None, Some(missing)) => GrpcStatus::invalid_argument(missing),
            (None, None) => GrpcStatus::unavailable(),
        }
    }
}
