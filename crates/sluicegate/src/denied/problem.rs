//! Denials as answers over HTTP and gRPC.

use sluicegate_http::{GrpcStatus, KeyComponent, Missing, Problem};

use super::{Denied, Inner};

impl Denied {
    /// The problem that a client over HTTP is told (RFC 9457): of an exceeded quota 429, of a list
    /// 403, of a missing key 400, and of a failing store 503.
    ///
    /// ```
    /// use sluicegate::{Denied, StoreError, StoreErrorKind};
    ///
    /// let denied = Denied::failed("sms", StoreError::new(StoreErrorKind::Timeout, "too slow"));
    /// assert_eq!(denied.problem().status(), 503);
    /// assert_eq!(Denied::no_key("sms").problem().status(), 400);
    /// ```
    pub fn problem(&self) -> Problem {
        match &self.0 {
            Inner::Ruled(ruling) => match ruling.limit() {
                Some(limit) => Problem::of_denial(limit, ruling.decision()),
                None => Problem::blocked(),
            },
            Inner::NoKey { .. } => Problem::missing_key(&Missing::absent(KeyComponent::Custom)),
            Inner::Failed { .. } => Problem::temporary_reduced_capacity(),
        }
    }

    /// The status that a client over gRPC is told.
    ///
    /// ```
    /// use sluicegate::{Denied, http::GrpcCode};
    ///
    /// assert_eq!(Denied::no_key("sms").grpc_status().code(), GrpcCode::InvalidArgument);
    /// ```
    pub fn grpc_status(&self) -> GrpcStatus {
        match &self.0 {
            Inner::Ruled(ruling) => match ruling.limit() {
                Some(limit) => GrpcStatus::of_denial(limit, ruling.decision()),
                None => GrpcStatus::permission_denied(),
            },
            Inner::NoKey { .. } => {
                GrpcStatus::invalid_argument(&Missing::absent(KeyComponent::Custom))
            }
            Inner::Failed { .. } => GrpcStatus::unavailable(),
        }
    }

    /// The response that middleware would send: the [problem](Self::problem), and the fields that
    /// tell of the limit. For handlers that ask a limit themselves.
    ///
    /// ```
    /// use sluicegate::{Limiter, MemoryStore, Ruling, http::FieldFormat};
    ///
    /// let limit = sluicegate::limit("sms", ["fixed_window 1/min"])?;
    /// let limiter = Limiter::new(MemoryStore::builder().build(), limit.clone());
    /// let ask = || Ok::<_, sluicegate::StoreError>(Ruling::new(limiter.try_check("alice")?, limit.clone().into()));
    /// assert!(ask()?.or_denied().is_ok());
    /// let denied = ask()?.or_denied().unwrap_err();
    /// let response: http::Response<String> = denied.to_response(FieldFormat::Draft11);
    /// assert_eq!(response.status(), 429);
    /// assert_eq!(response.headers()["retry-after"], "60");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(any(feature = "actix", feature = "tower"))]
    #[must_use]
    pub fn to_response<B: From<String>>(
        &self,
        format: sluicegate_http::FieldFormat,
    ) -> http::Response<B> {
        let mut response = self.problem().into_response();
        if let Some(ruling) = self.ruling()
            && let Some(limit) = ruling.limit()
        {
            let fields = sluicegate_http::LimitFields::new(limit, format);
            let now = crate::field_cache::wall_time();
            fields.of(ruling.decision()).at(now).write(response.headers_mut());
        }
        response
    }
}
