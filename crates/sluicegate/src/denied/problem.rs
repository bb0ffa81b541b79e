//! Denials as HTTP and gRPC responses.

use sluicegate_core::{Clock as _, Error, RequestErrorKind, Source};
#[cfg(feature = "grpc")]
use sluicegate_http::GrpcStatus;
use sluicegate_http::{FieldFormat, LimitFields, Problem};
use sluicegate_memory::SystemClock;

use super::{Denied, Why, is_conflict, is_unfit_key};

impl Denied {
    /// Returns the problem body (RFC 9457) for an HTTP client.
    ///
    /// Its status depends on the reason:
    ///
    /// - 429 for an exceeded quota,
    /// - 403 for a block list,
    /// - 400 for a key that is missing or that the limit doesn't count,
    /// - 409 for an id that was used for another request,
    /// - 503 for a failed store,
    /// - 500 for a mistake in the program.
    ///
    /// ```
    /// use sluicegate::Denied;
    /// use sluicegate::error::{StoreError, StoreErrorKind};
    ///
    /// let denied = Denied::failed("sms", StoreError::new(StoreErrorKind::Timeout, "too slow"));
    /// assert_eq!(denied.problem().status(), 503);
    /// assert_eq!(Denied::no_key("sms").problem().status(), 400);
    /// ```
    pub fn problem(&self) -> Problem {
        match &self.why {
            Why::Decided(decision) => match decision.source() {
                Source::Bypass => Problem::blocked(),
                _ => Problem::from_denial(decision),
            },
            Why::NoKey { missing, .. } => Problem::missing_key(missing),
            Why::Failed { error, .. } if error.is_store_failure() => {
                Problem::temporary_reduced_capacity()
            }
            Why::Failed { error, .. } if is_conflict(error) => Problem::conflict(),
            Why::Failed { error, .. } if is_unfit_key(error) => Problem::unfit_key(),
            Why::Failed { .. } => Problem::misconfigured(),
        }
    }

    /// Returns the status for a gRPC client.
    ///
    /// ```
    /// use sluicegate::{Denied, http::GrpcCode};
    ///
    /// assert_eq!(Denied::no_key("sms").grpc_status().code(), GrpcCode::InvalidArgument);
    /// ```
    #[cfg(feature = "grpc")]
    pub fn grpc_status(&self) -> GrpcStatus {
        match &self.why {
            Why::Decided(decision) => match decision.source() {
                Source::Bypass => GrpcStatus::permission_denied(),
                _ => GrpcStatus::from_denial(decision),
            },
            Why::NoKey { missing, .. } => GrpcStatus::invalid_argument(missing),
            Why::Failed { error, .. } if error.is_store_failure() => GrpcStatus::unavailable(),
            Why::Failed { error, .. } if is_conflict(error) => GrpcStatus::already_exists(),
            Why::Failed { error, .. } if is_unfit_key(error) => GrpcStatus::unfit_key(),
            Why::Failed { .. } => GrpcStatus::internal(),
        }
    }

    /// Returns the response that middleware would send: the [problem](Self::problem), and response fields about the
    /// limit.
    ///
    /// It is for handlers. The adapters for web frameworks wrap this type in one that handlers return as their error. A
    /// mistake in the program is logged, and the client gets no details of it.
    ///
    /// ```
    /// use sluicegate::{Denied, Limiter, MemoryStore, http::FieldFormat};
    ///
    /// let limit = sluicegate::Limit::new("sms", ["fixed_window 1/min"])?;
    /// let limiter = Limiter::new(MemoryStore::new(), limit);
    /// assert!(Denied::unless_allowed(limiter.check("alice").now()?).is_ok());
    /// let denied = Denied::unless_allowed(limiter.check("alice").now()?).unwrap_err();
    /// let response: http::Response<String> = denied.to_response();
    /// assert_eq!(response.status(), 429);
    /// assert_eq!(response.headers()["retry-after"], "60");
    /// assert_eq!(response.headers()["ratelimit"], "\"fixed_window\";r=0;t=60");
    /// let response: http::Response<String> = denied.with_fields(FieldFormat::None).to_response();
    /// assert_eq!(response.headers().get("ratelimit"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn to_response<B: From<String>>(&self) -> http::Response<B> {
        self.tell_mistake();
        let mut response = self.problem().into_response();
        if let Some(decision) = self.decision()
            && let Some(limit) = decision.limit()
        {
            let fields = LimitFields::new(limit, self.fields);
            fields.of(decision).at(SystemClock::new().now()).write(response.headers_mut());
        }
        response
    }

    /// Logs a mistake in the program, because clients get no details of it.
    pub(crate) fn tell_mistake(&self) {
        let Why::Failed { limit, error: Error::Request(error) } = &self.why else { return };
        // The registry logs each unknown name once. Ids and keys may come from the client.
        if !matches!(
            error.kind(),
            RequestErrorKind::Conflict
                | RequestErrorKind::UnfitKey
                | RequestErrorKind::UnknownLimit
        ) {
            // Clients can't cause this. Usually the limits can't be decided together.
            let limit = limit.as_deref();
            tracing::error!(limit, %error, "a request can't be decided: it is refused");
        }
    }

    /// Sets the format of the response fields. The default is the configuration's for an error of a function with
    /// `#[limit(…)]`, and [`FieldFormat::Draft11`] otherwise.
    #[must_use]
    pub const fn with_fields(mut self, format: FieldFormat) -> Self {
        self.fields = format;
        self
    }
}
